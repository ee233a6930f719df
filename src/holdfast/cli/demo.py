"""`holdfast demo`: a day of a little shop, with real workers on a real PostgreSQL."""

from __future__ import annotations

import secrets
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import click

from holdfast.cli.options import database_option

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from holdfast.demo.day import Day
    from holdfast.store import JobStats

PLAIN_WIDTH = 150

ABOUT = {
    "orders": "async, 4 at a time in each worker",
    "mails": "in threads, after their orders; the server hangs up now and then",
    "stock": "share two scanners, however many workers there are",
    "pictures": "in processes of their own; one of them crashes",
    "money": "fails for good",
    "clicks": "next to nothing, many times",
    "report": "waits for every order and every mail",
}


@click.command(name="demo")
@database_option
def command(database_url: str | None) -> None:
    """Run a little shop's jobs with real workers, kill one of them, and show what happened.

    Uses the embedded PostgreSQL, started if need be, or the database you name. The jobs live in a schema of
    their own, which is dropped at the end; yours are not touched. The dashboard shows them all the while: on
    a terminal until Ctrl-C, else until the last job has ended.
    """
    from rich.console import Console

    from holdfast.bench.scratch import ended_in_order
    from holdfast.demo import day
    from holdfast.embedded import database_or_embedded
    from holdfast.web.beside import serving
    from holdfast.web.settings import WebSettings

    # Without a terminal nobody folds lines for us, and a table squeezed into 80 columns is hard to read.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    with (
        ended_in_order(),
        database_or_embedded(database_url, log=_say) as database,
        _scratch_schema(database.dsn) as schema,
        serving(WebSettings(database.dsn, schema)) as address,
    ):
        _say(f'Holdfast is installed in the scratch schema "{schema}"; the shop opens, with two workers.')
        _say(f"The dashboard is at {address}")
        board = _Board(console)

        def end(done: Day) -> None:
            board.wipe()
            console.print(_table(done.stats))
            console.print(_summary(done), soft_wrap=True)
            if console.is_terminal:
                _wait(f"The dashboard is at {address}, and worker 1 is still there. Ctrl-C ends the demo.")

        with board:
            day.live(database.dsn, schema, board.show, end)


def _wait(message: str) -> None:
    """Until Ctrl-C."""
    _say(message)
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


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
    """The shop's blackboard: on a terminal how the jobs stand as they move, elsewhere only what happens."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._live = Live(console=console, transient=True) if console.is_terminal else None

    def show(self, stats: Mapping[str, JobStats], event: str) -> None:
        if event:
            _say(event)
        if self._live is not None:
            self._live.update(_table(stats), refresh=True)

    def __enter__(self) -> _Board:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()

    def wipe(self) -> None:
        """Nothing moves any more."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def _table(stats: Mapping[str, JobStats]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("jobs", "waiting", "running", "completed", "to retry or dead", "failed attempts"):
        table.add_column(heading, justify="left" if heading == "jobs" else "right", no_wrap=True)
    table.add_column("", style="dim")
    for group, each in stats.items():
        table.add_row(
            group,
            _number(each.pending_jobs),
            _number(each.running_jobs, "cyan"),
            _number(each.completed_jobs, "green"),
            _number(each.failed_jobs, "red"),
            _number(each.total_retries, "yellow"),
            ABOUT.get(group, ""),
        )
    return table


def _number(count: int, style: str = "") -> str:
    shown = f"{count:,}" if count else ""
    return f"[{style}]{shown}[/{style}]" if shown and style else shown


def _summary(day: Day) -> str:
    rate = day.jobs / day.seconds
    lines = [f"{day.jobs:,} jobs in {day.seconds:.1f} s, {rate:,.0f} a second, a killed worker included."]
    lines += _grouped("rescued", [(job_id, f"done by {worker} instead") for job_id, _, worker in day.rescued])
    lines += _grouped("retried", [(job_id, error) for job_id, _, error in day.retried])
    lines += _grouped("dead", [(job_id, error) for job_id, _, error in day.dead])
    lines.append(
        "Next: README.md to begin, docs/guides/tasks.md to write your own, "
        "`holdfast bench drain` for the speed of this machine."
    )
    return "\n".join(lines)


def _grouped(fate: str, found: list[tuple[str, str]]) -> list[str]:
    """One line for all jobs of which the same is to be said."""
    jobs: dict[str, list[str]] = {}
    for job_id, said in found:
        jobs.setdefault(said, []).append(job_id)
    return [f"  {fate:8} {', '.join(sorted(ids))}: {said}" for said, ids in jobs.items()]


def _say(message: str) -> None:
    click.echo(message, err=True)
