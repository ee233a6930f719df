"""Lists of jobs by a query, and actions on all that match."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from holdfast.cli import job_lines
from holdfast.cli.choosing import confirm, jobs_in_words
from holdfast.cli.listing import Listing, echo_id
from holdfast.domain.search import Query

if TYPE_CHECKING:
    from holdfast.app import Holdfast
    from holdfast.console.bulk import Action
    from holdfast.domain.job import Job

NARROW = "an exact tag:, an id: or state:DEAD"


def look_for(app: Holdfast, query: Query, limit: int, after: str | None, nothing: str) -> Listing:
    """The jobs that match, the latest first."""
    jobs, notes = _gather(app, query, limit, after)
    if not jobs:
        notes = [nothing, *notes]
    return Listing(
        job_lines.COLUMNS,
        [job_lines.cells(job, short=sys.stdout.isatty()) for job in jobs],
        [job_lines.as_json(job) for job in jobs],
        notes,
    )


def _gather(app: Holdfast, query: Query, limit: int, after: str | None) -> tuple[list[Job], list[str]]:
    from holdfast.console import run
    from holdfast.console.search import LARGEST_PAGE, page
    from holdfast.console.walks import Cursor

    cursor = None if after is None else Cursor.read(after)
    jobs: list[Job] = []
    while True:
        found = run(app, page(query, min(limit - len(jobs), LARGEST_PAGE), cursor))
        jobs += found.jobs
        cursor = found.next
        if found.stopped_after is not None:
            return jobs, [
                f"Looked at the latest {found.stopped_after:,} jobs{' from there on' if after else ''}: "
                f"older ones may match too. Narrow it by {NARROW}, or go on with --after {cursor}"
            ]
        if cursor is None:
            return jobs, []
        if len(jobs) >= limit:
            return jobs, [f"There may be more: --limit {limit * 10} shows them, or --after {cursor} goes on."]


def act_on(
    app: Holdfast,
    action: Action,
    query: Query,
    *,
    limit: int | None,
    yes: bool,
    dry_run: bool,
    reason: str | None = None,
    prints_ids: bool = True,
) -> None:
    """Count, ask, and do it to all that match and had come by the time they were counted."""
    from holdfast.console import run
    from holdfast.console.bulk import Progress, act, meant_by
    from holdfast.console.search import count

    meant = meant_by(query, action)
    counted = run(app, count(meant, thorough=True))
    total = counted.jobs if limit is None else min(limit, counted.jobs)
    open_end = counted.at_least and total == counted.jobs
    of = "" if total == counted.jobs else f" (the latest of {counted} that match; --all takes all)"
    would = " would be it; nothing was done" if dry_run else ""
    jobs = jobs_in_words(total, at_least=open_end)
    click.echo(f"{jobs} to {action}{would}{of}.", err=True)
    if dry_run:
        _print_ids(app, meant, total if limit is None else min(limit, total))
        return
    confirm(f"Really {action} {jobs}?", yes=yes)
    if not total:
        return
    with _bar(action, None if open_end else total, prints_ids=prints_ids) as bar:

        def told(progress: Progress) -> None:
            for job_id in progress.job_ids if prints_ids else ():
                echo_id(job_id)
            bar.show(progress.changed + progress.refused)

        done = run(app, act(action, query, counted.snapshot, reason=reason, most=limit, told=told))
    if not prints_ids:
        click.echo(f"{done.changed} deleted.", err=True)
    if done.refused:
        raise click.ClickException(
            f"{jobs_in_words(done.refused)} could not be changed, among other reasons because {done.reason}"
            if done.refused > 1
            else f"1 job could not be changed: {done.reason}"
        )


def _print_ids(app: Holdfast, query: Query, limit: int) -> None:
    if limit:
        jobs, _ = _gather(app, query, limit, None)
        for job in jobs:
            echo_id(job.job_id)


class _Bar(Protocol):
    def show(self, done: int) -> None: ...


class _NoBar:
    def show(self, done: int) -> None:
        pass


@contextmanager
def _bar(what: str, total: int | None, *, prints_ids: bool) -> Generator[_Bar]:
    """A bar on stderr while it takes long, if somebody sees it; ids that run by are one already."""
    seen = sys.stderr.isatty() and not (prints_ids and sys.stdout.isatty())
    if not seen or (total is not None and total <= MANY_AT_ONCE):
        yield _NoBar()
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)

        class Shown:
            def show(self, done: int) -> None:
                progress.update(task, completed=done)

        yield Shown()


MANY_AT_ONCE = 500
