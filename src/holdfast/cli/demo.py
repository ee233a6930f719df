"""`holdfast demo`: jobs run through a real PostgreSQL, and what became of each of them."""

from __future__ import annotations

import secrets
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from holdfast.cli.options import database_option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from holdfast.cli.shop import Event
    from holdfast.domain.job import Job
    from holdfast.domain.states import JobState

PLAIN_WIDTH = 150

STORY = """\
  mail-1002     failed once and was tried again
  charge-1006   failed at its last attempt and is dead; order-1006, which waited for it, was cancelled
  invoice-1001  was taken by worker-3, which vanished; when the lease lapsed, another worker did it
  stock-1 to 3  share a singleton key: never two of them at once
  report        waited for every order and every mail"""


@click.command(name="demo")
@database_option
def command(database_url: str | None) -> None:
    """Run a little shop's jobs and show what happened.

    Uses the embedded PostgreSQL, started if need be, or the database you name. The jobs live in a schema of
    their own, which is dropped at the end; yours are not touched.
    """
    from rich.console import Console

    from holdfast.bench.scratch import ended_in_order
    from holdfast.cli import shop
    from holdfast.embedded import database_or_embedded
    from holdfast.store import SyncStore

    # Without a terminal nobody folds lines for us, and a table squeezed into 80 columns is hard to read.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    began_s = time.monotonic()
    with (
        ended_in_order(),
        database_or_embedded(database_url, log=_say) as database,
        _scratch_schema(database.dsn) as schema,
        SyncStore(database.dsn, schema=schema) as store,
    ):
        _say(f'Holdfast is installed in the scratch schema "{schema}"; the shop opens.')
        with _Board(console) as board:
            jobs = shop.run(store, board.show)
    console.print(_results(jobs))
    console.print(_summary(jobs, time.monotonic() - began_s), soft_wrap=True)


@contextmanager
def _scratch_schema(dsn: str) -> Generator[str]:
    """An installation of our own beside whatever is there, dropped at the end."""
    from holdfast.engine import installer
    from holdfast.engine.connect import connect

    schema = f"hf_demo_{secrets.token_hex(3)}"
    with connect(dsn, "holdfast demo") as conn:
        try:
            installer.install(conn, schema)
            yield schema
        finally:
            conn.execute(f'drop schema if exists "{schema}" cascade'.encode())


class _Board:
    """The shop's blackboard: on a terminal each job's state as it changes, elsewhere nothing."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._latest: dict[str, Event] = {}
        self._live = Live(console=console, transient=True) if console.is_terminal else None

    def show(self, event: Event) -> None:
        self._latest[event.job_id] = event
        if self._live is not None:
            self._live.update(self._table(), refresh=True)

    def __enter__(self) -> _Board:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def _table(self) -> Table:
        table = _columns("job", "state", "worker")
        for event in self._latest.values():
            table.add_row(event.job_id, _coloured(event.state), event.worker_id or "")
        return table


def _results(jobs: list[Job]) -> Table:
    from rich.text import Text

    table = _columns("job", "task", "state", "failed", "lapsed", "worker", "took", "last error")
    for job in jobs:
        table.add_row(
            job.job_id,
            job.task,
            _coloured(job.state),
            str(job.attempts or ""),
            str(job.lease_expiration_count or ""),
            job.assignee_id or "",
            _took(job),
            Text(job.last_error or ""),
        )
    return table


def _summary(jobs: list[Job], seconds: float) -> str:
    states = Counter(job.state for job in jobs)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    failures = sum(job.attempts for job in jobs)
    lapses = sum(job.lease_expiration_count for job in jobs)
    return (
        f"{len(jobs)} jobs in {seconds:.1f} s: {counts}; {failures} failed attempts, {lapses} lapsed lease.\n"
        f"{STORY}\n"
        "Next: README.md to begin, docs/lifecycle.md for what a job can go through, "
        "`holdfast bench claim` for the speed of this machine."
    )


def _took(job: Job) -> str:
    """From the first claim to the end, with every retry in between."""
    if job.started_at is None or job.finalized_at is None:
        return ""
    return f"{(job.finalized_at - job.started_at).total_seconds() * 1000:.0f} ms"


def _columns(*headings: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in headings:
        numeric = heading in ("failed", "lapsed", "took")
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=heading != "last error")
    return table


def _coloured(state: JobState) -> Text:
    from rich.text import Text

    colours = {"COMPLETED": "green", "DEAD": "red", "RUNNING": "cyan"}
    return Text(state.value, style=colours.get(state.value, "yellow"))


def _say(message: str) -> None:
    click.echo(message, err=True)
