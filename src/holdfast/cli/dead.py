"""`holdfast dead`: dead letters, the jobs that nobody will try again unless somebody says so."""

from __future__ import annotations

from collections.abc import Sequence

import click

from holdfast.cli.choosing import (
    MANY,
    Wanted,
    after_option,
    database_options,
    dry_run_option,
    jobs_in_words,
    json_option,
    limit_option,
    opened,
    query_argument,
    query_option,
    queue_option,
    tag_option,
    task_option,
    yes_option,
)
from holdfast.cli.groups import Group
from holdfast.cli.listing import echo_id, show, watch_options
from holdfast.domain.states import JobState


@click.group(name="dead", cls=Group)
def command() -> None:
    """List dead jobs and bring them back."""


@command.command(name="list")
@query_argument
@queue_option
@task_option
@tag_option
@query_option
@limit_option(100)
@after_option
@json_option
@watch_options
@database_options
def list_dead(
    words: Sequence[str],
    queue: str | None,
    task: str | None,
    tags: Sequence[str],
    text: str,
    limit: int,
    after: str | None,
    as_json: bool,
    watch: bool,
    every: float,
    database_url: str | None,
    schema: str,
) -> None:
    """Print dead jobs, those that died last first."""
    from holdfast.cli.found_jobs import look_for

    query = Wanted(JobState.DEAD, queue, task, tags, " ".join([*words, text])).query
    with opened(database_url, schema) as app:
        show(
            lambda: look_for(app, query, limit, after, "No dead jobs."),
            as_json=as_json,
            watch=watch,
            every=every,
        )


@command.command()
@click.argument("job_ids", nargs=-1)
@queue_option
@task_option
@tag_option
@query_option
@click.option("--all", "everything", is_flag=True, help="All dead jobs, or all that match, however many.")
@limit_option(MANY)
@yes_option
@dry_run_option
@database_options
def retry(
    job_ids: Sequence[str],
    queue: str | None,
    task: str | None,
    tags: Sequence[str],
    text: str,
    everything: bool,
    limit: int,
    yes: bool,
    dry_run: bool,
    database_url: str | None,
    schema: str,
) -> None:
    """Bring dead jobs back, with all their attempts. Prints their ids.

    Name them by ids (all of them or none), by a query, --queue, --task or --tag, or take --all; those that
    died last come first.
    """
    wanted = Wanted(None, queue, task, tags, text)
    if bool(wanted or everything) == bool(job_ids):
        raise click.UsageError(
            "name jobs by their ids, or say which are meant by --query, --queue, --task, --tag or --all"
        )
    named = list(dict.fromkeys(job_ids))
    if named and dry_run:
        click.echo(f"{jobs_in_words(len(named))} to retry would be it; nothing was done.", err=True)
    with opened(database_url, schema) as app:
        if not named:
            from holdfast.cli.found_jobs import act_on
            from holdfast.cli.jobs import chosen_limit
            from holdfast.console.bulk import Action

            most = chosen_limit(limit, everything)
            act_on(app, Action.RETRY, wanted.query, limit=most, yes=yes, dry_run=dry_run)
        elif not dry_run:
            app.jobs.revive(*named)
    for job_id in named:
        echo_id(job_id)
