"""Lists: a table for people, a line of JSON each for programs, once or again and again."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.safe import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

C = TypeVar("C", bound=Callable[..., Any])

GAP = 2
LEAST = 10
"""How narrow a column that gives way becomes before others do."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. On a narrow terminal those that give way are cut first, then `left_out` ones go, 1 first."""

    name: str
    right: bool = False
    gives_way: bool = False
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Listing:
    """What one look gave: cells for people, JSON for programs, and what is to be said about it."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    json_lines: Sequence[str] = ()
    notes: Sequence[str] = field(default=())


json_option = click.option("--json", "as_json", is_flag=True, help="One line of JSON for each.")


def watch_options(command: C) -> C:
    """--watch and --every."""
    every = click.option(
        "--every",
        type=click.FloatRange(min=0.2),
        default=2.0,
        show_default=True,
        metavar="SECONDS",
        help="How often --watch looks.",
    )
    return click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")(every(command))


def show(look: Callable[[], Listing], *, as_json: bool, watch: bool = False, every: float = 2.0) -> None:
    """Print what a look gives; with `watch` until Ctrl-C, on a terminal in place."""
    if not watch:
        _print(look(), as_json)
        return
    import time

    try:
        if as_json or not sys.stdout.isatty():
            while True:
                _print(look(), as_json, talks=not as_json)
                sys.stdout.flush()
                time.sleep(every)
        _live(look, every)
    except KeyboardInterrupt:
        return


def echo_id(job_id: str) -> None:
    """An id as data: exactly as it is for a program, harmless for a terminal."""
    click.echo(one_line(job_id) if sys.stdout.isatty() else job_id, color=True)


def as_line(**facts: object) -> str:
    """One line of JSON."""
    return json.dumps(facts, default=_in_json)


def moment(value: datetime | None) -> str:
    """A moment in the time zone of whoever looks."""
    return "" if value is None else value.astimezone().isoformat(" ", "seconds")


def ago(value: datetime | None, now: datetime) -> str:
    """How long ago, roughly."""
    return "" if value is None else duration((now - value).total_seconds())


def duration(seconds: float) -> str:
    """A duration with the two units that matter."""
    rest = max(0, round(seconds))
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    shown = [part for part in parts[:2] if not part.startswith("0")]
    return "".join(shown) or "0s"


def _print(listing: Listing, as_json: bool, *, talks: bool = True) -> None:
    if as_json:
        for line in listing.json_lines:
            click.echo(line)
    elif sys.stdout.isatty():
        from rich.console import Console

        if listing.rows:
            console = Console(highlight=False)
            console.print(table(listing, console.width))
    else:
        _print_plain(listing)
    for note in listing.notes if talks else ():
        click.echo(note, err=True)


def _print_plain(listing: Listing) -> None:
    """Aligned columns, as wide as they are: whoever reads a pipe wants the whole."""
    if not listing.rows:
        return
    lines = [[column.name.upper() for column in listing.columns]]
    lines += [[one_line(cell) for cell in row] for row in listing.rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(listing.columns))]
    for line in lines:
        cells = [
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, listing.columns, strict=True)
        ]
        click.echo((" " * GAP).join(cells).rstrip())


def table(listing: Listing, width: int) -> RenderableType:
    """The rows as a table that fits the terminal; cells are text, whatever they look like."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    rows = [[one_line(cell) for cell in row] for row in listing.rows]
    natural = [
        max([len(column.name), *(cell_len(row[place]) for row in rows)])
        for place, column in enumerate(listing.columns)
    ]
    widths = fitted(listing.columns, natural, width)
    drawn = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for place, given in widths.items():
        column = listing.columns[place]
        drawn.add_column(
            column.name.upper(),
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=given,
        )
    for row in rows:
        drawn.add_row(*(Text(row[place], style=_style(row[place])) for place in widths))
    return drawn


def fitted(columns: Sequence[Column], natural: Sequence[int], available: int) -> dict[int, int]:
    """The width of each column that is shown, by its place."""
    widths = dict(enumerate(natural))
    leave = sorted(
        (place for place in widths if columns[place].left_out), key=lambda at: columns[at].left_out
    )

    def excess() -> int:
        return sum(widths.values()) + GAP * (len(widths) - 1) - available

    def cut(places: list[int], least: int) -> None:
        while excess() > 0 and (wide := [place for place in places if widths[place] > least]):
            widths[max(wide, key=lambda place: widths[place])] -= 1

    giving = [place for place in widths if columns[place].gives_way]
    cut(giving, LEAST)
    while excess() > 0 and leave:
        del widths[leave.pop(0)]
    if excess() < 0:  # what was left out made room
        for place in giving:
            widths[place] = natural[place]
        cut(giving, LEAST)
    cut(list(widths), 4)
    return widths


def _style(cell: str) -> str:
    match cell.partition(" ")[0]:
        case "DEAD" | "UNKNOWN_STOPPED" | "PROBLEM":
            return "red"
        case "RUNNING" | "CANCELLING":
            return "cyan"
        case "COMPLETED" | "OK":
            return "green"
        case "FAILED_RETRY" | "UNKNOWN_RETRY" | "NOTE":
            return "yellow"
        case _:
            return ""


def _live(look: Callable[[], Listing], every: float) -> None:
    import time

    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)

    def drawn() -> RenderableType:
        listing = look()
        at = Text(datetime.now().astimezone().isoformat(" ", "seconds"), style="dim")
        return Group(at, table(listing, console.width), *(Text(note, style="dim") for note in listing.notes))

    with Live(drawn(), console=console, screen=True, auto_refresh=False) as live:
        while True:
            time.sleep(every)
            live.update(drawn(), refresh=True)


def _in_json(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
