"""`holdfast workers`: who holds jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.choosing import database_options, opened
from holdfast.cli.listing import Column, Listing, ago, as_line, duration, json_option, show, watch_options

if TYPE_CHECKING:
    from holdfast.console.views import Workers

COLUMNS = (
    Column("worker", gives_way=True),
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
    """Print the workers that hold jobs.

    Idle ones leave no trace in the database. OLDEST is how long the longest job is held, SEEN how long ago
    the worker last claimed a job or extended a lease, LEASE how long the first of its leases still lasts.
    """
    from holdfast.console import run
    from holdfast.console.views import workers

    with opened(database_url, schema) as app:
        show(lambda: listing(run(app, workers(limit))), as_json=as_json, watch=watch, every=every)


def listing(seen: Workers) -> Listing:
    """The workers as a table and as JSON."""
    rows = [
        (
            worker.worker_id,
            f"{worker.jobs:,}",
            ", ".join(worker.queues),
            ago(worker.oldest_at, seen.at),
            ago(worker.seen_at, seen.at),
            "lapsed" if worker.lapsed else duration((worker.lease_until - seen.at).total_seconds()),
            ", ".join(worker.job_ids) + (", …" if worker.jobs > len(worker.job_ids) else ""),
        )
        for worker in seen.workers
    ]
    lines = [
        as_line(
            worker_id=worker.worker_id,
            jobs=worker.jobs,
            cancelling=worker.cancelling,
            lapsed=worker.lapsed,
            queues=worker.queues,
            oldest_at=worker.oldest_at,
            seen_at=worker.seen_at,
            lease_until=worker.lease_until,
            job_ids=worker.job_ids,
        )
        for worker in seen.workers
    ]
    return Listing(COLUMNS, rows, lines, [] if rows else ["No worker holds a job."])
