"""`holdfast workers`: who works, what they hold, who is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.choosing import database_options, opened
from holdfast.cli.listing import Column, Listing, ago, duration, json_option, show, watch_options

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.console.views import Workers
    from holdfast.store.calls.watching import WorkerRow

COLUMNS = (
    Column("worker", gives_way=True),
    Column("status"),
    Column("jobs", right=True),
    Column("queues", gives_way=True),
    Column("oldest", right=True, left_out=2),
    Column("seen", right=True),
    Column("lease", right=True, left_out=1),
    Column("holds", gives_way=True),
)


@click.command(name="workers")
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="At most so many.")
@json_option
@watch_options
@database_options
def command(
    limit: int, as_json: bool, watch: bool, every: float, database_url: str | None, schema: str
) -> None:
    """Print the workers that are there, busy or idle, and those that are lost.

    A worker says every ten seconds that it is there; after half a minute without a word it is lost, and a
    day later forgotten. Whoever claims jobs by hand is listed while it holds some. JOBS is how many it holds,
    of how many it takes at once, OLDEST how long it has held one, SEEN how long ago it beat, claimed or
    extended a lease, LEASE how long the first of its leases still lasts.
    """
    from holdfast.console import run
    from holdfast.console.views import workers

    with opened(database_url, schema) as app:
        show(lambda: listing(run(app, workers(limit))), as_json=as_json, watch=watch, every=every)


def listing(seen: Workers) -> Listing:
    """The workers as a table and as JSON."""
    from holdfast.console import shapes

    rows = [
        (
            worker.worker_id,
            worker.status,
            f"{worker.jobs:,}" + ("" if worker.capacity is None else f"/{worker.capacity:,}"),
            ", ".join(worker.queues),
            ago(worker.oldest_at, seen.at),
            ago(worker.seen_at, seen.at),
            _lease(worker, seen.at),
            ", ".join(worker.job_ids) + (", …" if worker.jobs > len(worker.job_ids) else ""),
        )
        for worker in seen.workers
    ]
    lines = [shapes.encode(shapes.worker(worker)) for worker in seen.workers]
    return Listing(COLUMNS, rows, lines, [] if rows else ["No worker is there."])


def _lease(worker: WorkerRow, at: datetime) -> str:
    if worker.lapsed:
        return "lapsed"
    return "" if worker.lease_until is None else duration((worker.lease_until - at).total_seconds())
