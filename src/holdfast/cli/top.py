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
    from holdfast.console.views import Queues

ROWS = 10
DEAD = 5


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
    from holdfast.console.views import glance
    from holdfast.console.views import workers as look_at_workers
    from holdfast.domain.search import parse

    seen = run(app, glance())
    holders = run(app, look_at_workers(ROWS))
    dead = run(app, page(parse("state:DEAD"), DEAD)).jobs
    lines = seen.queues
    each = lines.queues
    due = [queue.oldest_due_at for queue in each if queue.oldest_due_at is not None]
    per_s = sum(seen.ended_last_minute.values()) / 60
    heads = (
        f"holdfast top  {lines.at.astimezone():%H:%M:%S}  schema {schema}  "
        f"{per_s:,.1f} ended a second, longest wait {ago(min(due, default=None), lines.at) or '-'}",
        f"{_total(lines, [queue.due_jobs + queue.delayed_jobs for queue in each])} due or delayed, "
        f"{_total(lines, [queue.held_jobs for queue in each], capped=False)} held, "
        f"{_total(lines, [queue.dead_jobs for queue in each])} dead",
    )
    parts: list[RenderableType] = [
        Text(head, style="bold", no_wrap=True, overflow="ellipsis") for head in heads
    ]
    busiest = sorted(each, key=lambda queue: -(queue.due_jobs + queue.held_jobs))[:ROWS]
    for title, listing in (
        ("queues", queues.listing(replace(lines, queues=tuple(busiest)), ROWS)),
        ("workers", workers.listing(holders)),
        ("died last", Listing(job_lines.COLUMNS, [job_lines.cells(job, short=True) for job in dead])),
    ):
        parts += [Text(), Text(title, style="dim")]
        parts.append(table(listing, width) if listing.rows else Text("none", style="dim"))
    return Group(*parts)


def _total(lines: Queues, counts: list[int], *, capped: bool = True) -> str:
    return f"{sum(counts):,}{'+' if capped and any(map(lines.is_capped, counts)) else ''}"
