"""`holdfast stats`: an installation in figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from holdfast.cli.choosing import database_options, opened
from holdfast.cli.listing import Column, Listing, ago, json_option, show, watch_options

if TYPE_CHECKING:
    from holdfast.console.views import Stats
    from holdfast.domain.states import JobState

COLUMNS = (Column("figure"), Column("value", right=True))


@click.command(name="stats")
@json_option
@watch_options
@database_options
def command(as_json: bool, watch: bool, every: float, database_url: str | None, schema: str) -> None:
    """Print how many jobs wait, run, are dead, and ended lately.

    Each line is counted up to 10,000 and the archive is estimated, so that it stays cheap.
    """
    from holdfast.console import run
    from holdfast.console.views import stats

    with opened(database_url, schema) as app:
        show(lambda: listing(run(app, stats())), as_json=as_json, watch=watch, every=every)


def listing(seen: Stats) -> Listing:
    """The figures as a table and as one line of JSON."""
    from holdfast.console import shapes

    more = "+" if seen.capped else ""
    figures = {
        "due": f"{seen.due:,}{more}",
        "delayed": f"{seen.delayed:,}{more if seen.delayed else ''}",
        "blocked": f"{seen.blocked:,}",
        "held": f"{seen.held:,}",
        "dead": f"{seen.dead:,}",
        "longest wait": ago(seen.oldest_due_at, seen.at) or "-",
        "paused queues": ", ".join(seen.paused) or "-",
        "completed in the last minute": f"{_ended(seen.ended_last_minute, 'COMPLETED'):,}",
        "cancelled in the last minute": f"{_cancelled(seen.ended_last_minute):,}",
        "died in the last minute": f"{_ended(seen.ended_last_minute, 'DEAD'):,}",
        "completed in the last hour": f"{_ended(seen.ended_last_hour, 'COMPLETED'):,}",
        "cancelled in the last hour": f"{_cancelled(seen.ended_last_hour):,}",
        "died in the last hour": f"{_ended(seen.ended_last_hour, 'DEAD'):,}",
        "archived, about": f"{seen.archived_about:,}",
    }
    return Listing(COLUMNS, list(figures.items()), [shapes.encode(shapes.stats(seen))])


def _ended(counts: Mapping[JobState, int], state: str) -> int:
    return sum(count for each, count in counts.items() if each.value == state)


def _cancelled(counts: Mapping[JobState, int]) -> int:
    return sum(counts.values()) - _ended(counts, "COMPLETED") - _ended(counts, "DEAD")
