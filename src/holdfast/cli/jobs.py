"""`holdfast jobs`: list jobs, look at one, retry, cancel, delete."""

from __future__ import annotations

from collections.abc import Sequence

import click

from holdfast.cli import job_lines
from holdfast.cli.choosing import (
    CANCELLABLE,
    ENDED,
    MANY,
    Wanted,
    ask,
    chosen,
    database_options,
    json_option,
    limit_option,
    opened,
    queue_option,
    state_option,
    tag_option,
    task_option,
    yes_option,
)
from holdfast.domain.states import JobState


@click.group(name="jobs")
def command() -> None:
    """List jobs, look at one, retry, cancel or delete them."""


@command.command(name="list")
@state_option
@queue_option
@task_option
@tag_option
@limit_option(100)
@json_option
@database_options
def list_jobs(
    state: str | None,
    queue: str | None,
    task: str | None,
    tags: Sequence[str],
    limit: int,
    as_json: bool,
    database_url: str | None,
    schema: str,
) -> None:
    """Print jobs, live and archived, the latest first."""
    with opened(database_url, schema) as app:
        jobs = Wanted(state, queue, task, tags).find(app, limit)
    if as_json:
        for job in jobs:
            click.echo(job_lines.as_json(job))
        return
    job_lines.echo_table(jobs)
    if not jobs:
        click.echo("No such jobs.", err=True)
    elif len(jobs) == limit:
        click.echo(f"There may be more: --limit {limit * 10} shows them.", err=True)


@command.command()
@click.argument("job_id")
@json_option
@database_options
def show(job_id: str, as_json: bool, database_url: str | None, schema: str) -> None:
    """Print all there is to know about one job."""
    with opened(database_url, schema) as app:
        job = app.jobs.get(job_id).job
    click.echo(job_lines.as_json(job) if as_json else job_lines.in_full(job))


@command.command()
@click.argument("job_ids", nargs=-1)
@state_option
@queue_option
@task_option
@tag_option
@limit_option(MANY)
@yes_option
@database_options
def retry(
    job_ids: Sequence[str],
    state: str | None,
    queue: str | None,
    task: str | None,
    tags: Sequence[str],
    limit: int,
    yes: bool,
    database_url: str | None,
    schema: str,
) -> None:
    """Bring dead jobs back, with all their attempts: all of them or none. Prints their ids.

    Those named by ids are not asked about.
    """
    with opened(database_url, schema) as app:
        ids = chosen(app, job_ids, Wanted(state, queue, task, tags), [JobState.DEAD], limit)
        if not job_ids:
            ask("retry", len(ids), yes=yes)
        if ids:
            app.jobs.revive(*ids)
    for job_id in ids:
        click.echo(job_id)


@command.command()
@click.argument("job_ids", nargs=-1)
@state_option
@queue_option
@task_option
@tag_option
@limit_option(MANY)
@click.option("--reason", help="Kept with the jobs.")
@yes_option
@database_options
def cancel(
    job_ids: Sequence[str],
    state: str | None,
    queue: str | None,
    task: str | None,
    tags: Sequence[str],
    limit: int,
    reason: str | None,
    yes: bool,
    database_url: str | None,
    schema: str,
) -> None:
    """Cancel jobs, and those that wait for them. Prints the ids of all that were.

    Running ones are asked to stop. With --queue and the like, jobs that have ended are left out.
    """
    with opened(database_url, schema) as app:
        ids = chosen(app, job_ids, Wanted(state, queue, task, tags), CANCELLABLE, limit)
        ask("cancel", len(ids), yes=yes)
        answer = app.jobs.cancel(*ids, reason=reason) if ids else None
    for job_id in answer.cancelled if answer else ():
        click.echo(job_id)
    if job_ids and answer and answer.unknown:
        raise click.ClickException(f"unknown, or ended already: {', '.join(answer.unknown)}")


@command.command()
@click.argument("job_ids", nargs=-1)
@state_option
@queue_option
@task_option
@tag_option
@limit_option(MANY)
@yes_option
@database_options
def delete(
    job_ids: Sequence[str],
    state: str | None,
    queue: str | None,
    task: str | None,
    tags: Sequence[str],
    limit: int,
    yes: bool,
    database_url: str | None,
    schema: str,
) -> None:
    """Delete jobs that have ended: all of them or none."""
    with opened(database_url, schema) as app:
        ids = chosen(app, job_ids, Wanted(state, queue, task, tags), ENDED, limit)
        ask("delete", len(ids), yes=yes)
        count = app.jobs.delete(*ids) if ids else 0
    click.echo(f"{count} deleted.", err=True)
    if count < len(ids):
        raise click.ClickException(f"{len(ids) - count} of the jobs named are unknown")
