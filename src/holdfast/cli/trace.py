"""`holdfast trace`: what happened to a job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.choosing import database_options, opened
from holdfast.cli.listing import Column, Listing, json_option, moment, show, watch_options

if TYPE_CHECKING:
    from holdfast.console.views import Trace

COLUMNS = (Column("at"), Column("event"), Column("worker"), Column("given", gives_way=True), Column("became"))


@click.command(name="trace")
@click.argument("job_id")
@click.option(
    "--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="At most so many events."
)
@json_option
@watch_options
@database_options
def command(
    job_id: str, limit: int, as_json: bool, watch: bool, every: float, database_url: str | None, schema: str
) -> None:
    """Print what happened to a job, in order.

    How much that is depends on the trace level: by default everything but the happy path, which the job
    itself tells (holdfast jobs show). Tracing more, of jobs to come: select holdfast.set_trace_level('all').
    """
    from holdfast.console import run
    from holdfast.console.views import trace

    with opened(database_url, schema) as app:
        show(lambda: listing(run(app, trace(job_id, limit))), as_json=as_json, watch=watch, every=every)


def listing(seen: Trace) -> Listing:
    """The events as a table and as JSON."""
    from holdfast.console import shapes

    rows = [
        (moment(event.at), event.event, event.worker_id or "", _facts(event.given), _facts(event.became))
        for event in seen.events
    ]
    lines = [shapes.encode(shapes.event(seen.job.job_id, event)) for event in seen.events]
    notes = [] if rows else [f"Nothing was traced of this job; it is {seen.job.state}."]
    if seen.level != "all":
        notes.append(f"The trace level is {seen.level}: {_LEFT_OUT[seen.level]}")
    return Listing(COLUMNS, rows, lines, notes)


_LEFT_OUT = {
    "off": "nothing is traced.",
    "exceptions": "the happy path is left out; `holdfast jobs show` tells it.",
}


def _facts(given: Mapping[str, Any]) -> str:
    """Facts in short; a lease id tells people nothing."""
    shown = {
        name: value for name, value in given.items() if name != "lease_id" and value not in (None, [], {})
    }
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value)}" for name, value in shown.items()
    )
