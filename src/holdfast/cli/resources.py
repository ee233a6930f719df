"""`holdfast resources`: what jobs exclude each other on, who holds it and how many want it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli.choosing import database_options, opened
from holdfast.cli.listing import Column, Listing, json_option, show, watch_options

if TYPE_CHECKING:
    from holdfast.console.views import Resource

COLUMNS = (
    Column("kind"),
    Column("key", gives_way=True),
    Column("held", right=True),
    Column("waiting", right=True),
    Column("holders", gives_way=True),
)


@click.command(name="resources")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="At most so many.")
@json_option
@watch_options
@database_options
def command(
    limit: int, as_json: bool, watch: bool, every: float, database_url: str | None, schema: str
) -> None:
    """Print resources and singleton keys that are held or wanted, the most wanted first.

    HELD is of how many that may be; WAITING counts among the latest 25,000 live jobs.
    """
    from holdfast.console import run
    from holdfast.console.views import resources

    with opened(database_url, schema) as app:
        show(lambda: listing(run(app, resources(limit))), as_json=as_json, watch=watch, every=every)


def listing(found: Sequence[Resource]) -> Listing:
    """The resources as a table and as JSON."""
    from holdfast.console import shapes

    rows = [
        (
            each.kind,
            each.key,
            f"{len(each.holders)}/{each.capacity}",
            f"{each.waiting:,}",
            ", ".join(f"{hold.job_id or '?'} on {hold.worker_id or '?'}" for hold in each.holders),
        )
        for each in found
    ]
    lines = [shapes.encode(shapes.resource(each)) for each in found]
    return Listing(COLUMNS, rows, lines, [] if rows else ["No resource is held or wanted."])
