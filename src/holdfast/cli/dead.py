"""`holdfast dead`: dead letters, the jobs that nobody will try again unless somebody says so."""

from __future__ import annotations

from collections.abc import Sequence

import click

from holdfast.cli import job_lines
from holdfast.cli.choosing import (
    MANY,
    Wanted,
    ask,
    database_options,
    json_option,
    limit_option,
    opened,
    queue_option,
    task_option,
    yes_option,
)
from holdfast.domain.states import JobState


@click.group(name="dead")
def command() -> None:
    """List dead jobs and bring them back."""


@command.command(name="list")
@queue_option
@task_option
@limit_option(100)
@json_option
@database_options
def list_dead(
    queue: str | None, task: str | None, limit: int, as_json: bool, database_url: str | None, schema: str
) -> None:
    """Print dead jobs, those that died last first."""
    with opened(database_url, schema) as app:
        jobs = Wanted(JobState.DEAD, queue, task).find(app, limit)
    if as_json:
        for job in jobs:
            click.echo(job_lines.as_json(job))
        return
    job_lines.echo_table(jobs)
    if not jobs:
        click.echo("No dead jobs.", err=True)


@command.command()
@click.argument("job_ids", nargs=-1)
@queue_option
@task_option
@click.option("--all", "everything", is_flag=True, help="All dead jobs.")
@limit_option(MANY)
@yes_option
@database_options
def retry(
    job_ids: Sequence[str],
    queue: str | None,
    task: str | None,
    everything: bool,
    limit: int,
    yes: bool,
    database_url: str | None,
    schema: str,
) -> None:
    """Bring dead jobs back, with all their attempts: all of them or none. Prints their ids.

    Name them by ids, by --queue or --task, or take --all; those that died last come first.
    """
    by_kind = bool(queue or task or everything)
    if by_kind == bool(job_ids):
        raise click.UsageError("name jobs by their ids, or say which are meant by --queue, --task or --all")
    with opened(database_url, schema) as app:
        if job_ids:
            ids = list(dict.fromkeys(job_ids))
        else:
            ids = [job.job_id for job in Wanted(JobState.DEAD, queue, task).find(app, limit)]
            ask("retry", len(ids), yes=yes)
        if ids:
            app.jobs.revive(*ids)
    for job_id in ids:
        click.echo(job_id)
