"""`holdfast top`: the installation as it works, in a terminal."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from holdfast.cli import job_lines, queues, workers
from holdfast.cli.choosing import database_options, opened
from holdfast.cli.listing import Listing, ago, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from holdfast.app import Holdfast

ROWS = 10
COUNTED_TO = 1000


@click.command(name="top")
@click.option(
    "--every",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="How often it looks.",
)
@database_options
def command(every: float, database_url: str | None, schema: str) -> None:
    """Watch queues, workers and dead letters, until Ctrl-C.

    On a terminal in place; elsewhere it prints once. Lines are counted up to 1,000.
    """
    from rich.console import Console

    console = Console(highlight=False)
    with opened(database_url, schema) as app:
        if not sys.stdout.isatty():
            console.print(_view(app, schema, console.width))
            return
        from rich.live import Live

        try:
            with Live(
                _view(app, schema, console.width), console=console, screen=True, auto_refresh=False
            ) as live:
                while True:
                    time.sleep(every)
                    live.update(_view(app, schema, console.width), refresh=True)
        except KeyboardInterrupt:
            return


def _view(app: Holdfast, schema: str, width: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    from holdfast.console import run
    from holdfast.console.search import page
    from holdfast.console.views import stats as look_at_stats
    from holdfast.console.views import workers as look_at_workers
    from holdfast.domain.search import parse

    stats = run(app, look_at_stats(COUNTED_TO))
    lines = stats.queues
    seen = run(app, look_at_workers(ROWS))
    dead = run(app, page(parse("state:DEAD"), 5)).jobs
    ended = sum(stats.ended_last_minute.values())
    more = "+" if stats.capped else ""
    waits = ago(stats.oldest_due_at, stats.at) or "-"
    heads = (
        f"holdfast top  {stats.at.astimezone():%H:%M:%S}  schema {schema}  "
        f"{ended / 60:,.1f} ended a second, longest wait {waits}",
        f"{stats.due:,}{more} due, {stats.held:,} held, {stats.dead:,}{more} dead",
    )
    parts: list[RenderableType] = [
        Text(head, style="bold", no_wrap=True, overflow="ellipsis") for head in heads
    ]
    busiest = sorted(lines.queues, key=lambda each: -(each.due_jobs + each.held_jobs))[:ROWS]
    for title, listing in (
        ("queues", queues.listing(replace(lines, queues=tuple(busiest)), ROWS)),
        ("workers that hold jobs", workers.listing(seen)),
        ("died last", Listing(job_lines.COLUMNS, [job_lines.cells(job, short=True) for job in dead])),
    ):
        parts += [Text(), Text(title, style="dim")]
        parts.append(table(listing, width) if listing.rows else Text("none", style="dim"))
    return Group(*parts)
