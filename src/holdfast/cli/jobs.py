"""`holdfast jobs`: list jobs, look at one, retry, cancel, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli import job_lines
from holdfast.cli.choosing import (
    MANY,
    Wanted,
    after_option,
    ask,
    database_options,
    dry_run_option,
    jobs_in_words,
    json_option,
    limit_option,
    named_or_described,
    opened,
    query_argument,
    query_option,
    queue_option,
    state_option,
    tag_option,
    task_option,
    yes_option,
)
from holdfast.cli.groups import Group
from holdfast.cli.listing import echo_id, watch_options
from holdfast.cli.listing import show as show_list

if TYPE_CHECKING:
    from holdfast.console.bulk import Action

C = TypeVar("C", bound=Callable[..., Any])

HOW = "--query, --state, --queue, --task or --tag"


def _described(command: C) -> C:
    """--state, --queue, --task, --tag and --query."""
    return state_option(queue_option(task_option(tag_option(query_option(command)))))


all_option = click.option("--all", "everything", is_flag=True, help="All that match, however many.")


def _destructive(command: C) -> C:
    """Jobs by ids or by what they are, and every way to be careful."""
    command = yes_option(dry_run_option(database_options(command)))
    return click.argument("job_ids", nargs=-1)(_described(limit_option(MANY)(all_option(command))))


@click.group(name="jobs", cls=Group)
def command() -> None:
    """List jobs, look at one, retry, cancel or delete them."""


@command.command(name="list")
@query_argument
@_described
@limit_option(100)
@after_option
@json_option
@watch_options
@database_options
def list_jobs(
    words: Sequence[str],
    state: str | None,
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
    """Print jobs, live and archived, the latest first.

    A query narrows the list, in quotes because of the shell:

    \b
      holdfast jobs list 'state:DEAD,STOPPED queue:mail task:send_* error:"timed out"'
      holdfast jobs list 'age>5m attempts>=3 args.user:42' -q '-tag:test'

    Fields: id state status queue task tag error worker key args.NAME, and by < <= > >= age finished attempts
    priority. Words of their own are looked for in id, task and error; a minus before a term means not. Dead
    jobs come by their end if the list is of dead ones only.
    """
    from holdfast.cli.found_jobs import look_for

    query = Wanted(state, queue, task, tags, " ".join([*words, text])).query
    with opened(database_url, schema) as app:
        show_list(
            lambda: look_for(app, query, limit, after, "No such jobs."),
            as_json=as_json,
            watch=watch,
            every=every,
        )


@command.command()
@click.argument("job_id")
@json_option
@database_options
def show(job_id: str, as_json: bool, database_url: str | None, schema: str) -> None:
    """Print all there is to know about one job; `holdfast trace` tells what happened to it."""
    from holdfast.console import run
    from holdfast.console.views import job_view

    with opened(database_url, schema) as app:
        if as_json:
            click.echo(job_lines.as_json(app.jobs.get(job_id).job))
            return
        seen = run(app, job_view(job_id))
    click.echo(job_lines.in_full(seen.job, [job.job_id for job in seen.children]))


@command.command()
@_destructive
def retry(job_ids: Sequence[str], **options: Any) -> None:
    """Bring dead jobs back, with all their attempts. Prints their ids.

    Those named by ids: all of them or none, and without asking. Others a few hundred at a time.
    """
    from holdfast.console.bulk import Action

    named = _named_or_done(Action.RETRY, job_ids, options)
    if not named:
        return
    if not options["dry_run"]:
        with opened(options["database_url"], options["schema"]) as app:
            app.jobs.revive(*named)
    for job_id in named:
        echo_id(job_id)


@command.command()
@click.option("--reason", help="Kept with the jobs.")
@_destructive
def cancel(job_ids: Sequence[str], reason: str | None, **options: Any) -> None:
    """Cancel jobs, and those that wait for them.

    Prints the ids of those named or matched that were cancelled; those that wait for them follow unprinted.
    Running ones are asked to stop. With a query or --queue and the like, jobs that have ended are left out.
    """
    from holdfast.console.bulk import Action

    named = _named_or_done(Action.CANCEL, job_ids, options, reason=reason)
    if not named:
        return
    if options["dry_run"]:
        for job_id in named:
            echo_id(job_id)
        return
    ask("cancel", len(named), yes=options["yes"])
    with opened(options["database_url"], options["schema"]) as app:
        answer = app.jobs.cancel(*named, reason=reason)
    for job_id in answer.cancelled:
        echo_id(job_id)
    if answer.unknown:
        raise click.ClickException(f"unknown, or ended already: {', '.join(answer.unknown)}")


@command.command()
@_destructive
def delete(job_ids: Sequence[str], **options: Any) -> None:
    """Delete jobs that have ended.

    Those named by ids: all of them or none. Others a few hundred at a time.
    """
    from holdfast.console.bulk import Action

    named = _named_or_done(Action.DELETE, job_ids, options, prints_ids=False)
    if not named:
        return
    if options["dry_run"]:
        for job_id in named:
            echo_id(job_id)
        return
    ask("delete", len(named), yes=options["yes"])
    with opened(options["database_url"], options["schema"]) as app:
        count = app.jobs.delete(*named)
    click.echo(f"{count} deleted.", err=True)
    if count < len(named):
        raise click.ClickException(f"{len(named) - count} of the jobs named are unknown")


def _named_or_done(
    action: Action,
    job_ids: Sequence[str],
    options: dict[str, Any],
    *,
    reason: str | None = None,
    prints_ids: bool = True,
) -> list[str]:
    """The ids that were named; or none, and it has been done to those described."""
    from holdfast.cli.found_jobs import act_on

    wanted = Wanted(*(options[name] for name in ("state", "queue", "task", "tags", "text")))
    named = named_or_described(job_ids, wanted, HOW)
    if named:
        if options["dry_run"]:
            click.echo(f"{jobs_in_words(len(named))} to {action} would be it; nothing was done.", err=True)
        return named
    query = wanted.query
    with opened(options["database_url"], options["schema"]) as app:
        act_on(
            app,
            action,
            query,
            limit=chosen_limit(options["limit"], options["everything"]),
            yes=options["yes"],
            dry_run=options["dry_run"],
            reason=reason,
            prints_ids=prints_ids,
        )
    return []


def chosen_limit(limit: int, everything: bool) -> int | None:
    """With --all there is no limit, unless one was named."""
    source = click.get_current_context().get_parameter_source("limit")
    return None if everything and source is click.core.ParameterSource.DEFAULT else limit
