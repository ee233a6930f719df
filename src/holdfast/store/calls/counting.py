"""What happened since somebody last looked, in numbers: for counters that only grow.

Each question names where the last one ended, so that nothing is counted twice. A transaction that commits
only after the moment it writes was passed is not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from holdfast.store import arguments
from holdfast.store.call import Call, Rows, Statement

BOUNDS_S: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
"""Upper bounds of the buckets of a histogram, in seconds."""

_BUCKETS: Final = f"'{{{','.join(map(str, BOUNDS_S))}}}'::float8[]"

_COLUMNS: Final = "next_need, state, available_at, assigned_at, finalized_at"
_BETWEEN: Final = "finalized_at > %s::timestamptz and finalized_at <= %s::timestamptz"

# The archive is read by the index of ends, the dead by theirs, which is small.
_ENDED: Final = Statement(
    "count_ends",
    f"with ended as (select {_COLUMNS} from {{schema}}.jobs_archive where {_BETWEEN} "  # noqa: S608
    f"union all select {_COLUMNS} from {{schema}}.jobs_with_status where {_BETWEEN}), "
    "timed as (select next_need, state, "
    "greatest(0, extract(epoch from assigned_at - available_at))::float8 as wait_s, "
    "greatest(0, extract(epoch from finalized_at - assigned_at))::float8 as run_s from ended) "
    # A bucket ends with its bound, and width_bucket begins with it.
    f"select next_need, state::text, width_bucket(wait_s - 1e-9, {_BUCKETS}), "
    f"width_bucket(run_s - 1e-9, {_BUCKETS}), count(*), sum(wait_s), sum(run_s) "
    "from timed group by 1, 2, 3, 4",
)

_EVENTS: Final = Statement(
    "count_events",
    "select event_type, input_data ->> 'reason', count(*), max(trace_id) from ("
    "select trace_id, event_type, input_data from {schema}.jobs_trace "
    "where trace_id > %s::bigint order by trace_id limit 100000) as latest group by 1, 2",
)

_LAST_EVENT: Final = Statement(
    "last_event",
    "select coalesce((select trace_id from {schema}.jobs_trace order by trace_id desc limit 1), 0)",
)


@dataclass(frozen=True, slots=True)
class Ended:
    """Jobs that ended the same way after about the same time; None of those that never ran."""

    queue: str
    state: str
    wait_bucket: int | None
    run_bucket: int | None
    jobs: int
    wait_s: float | None
    run_s: float | None


@dataclass(frozen=True, slots=True)
class Events:
    """How often something of this kind was traced, and the number of the last."""

    event: str
    reason: str | None
    times: int
    last: int


def count_ends(since: datetime, until: datetime, *, timeout_s: float | None = None) -> Call[list[Ended]]:
    """How jobs ended between two moments, by queue, and how long they waited and ran. Index: by end."""
    span = (arguments.moment(since, "since"), arguments.moment(until, "until"))
    return Call(
        _ENDED, span * 2, lambda rows: [Ended(*row) for row in rows], idempotent=True, timeout_s=timeout_s
    )


def count_events(behind: int, *, timeout_s: float | None = None) -> Call[list[Events]]:
    """What was traced behind this number, at most 100,000 of it. Index: the primary key."""
    parameters = (str(behind),)
    return Call(
        _EVENTS,
        parameters,
        lambda rows: [Events(*row) for row in rows],
        idempotent=True,
        timeout_s=timeout_s,
    )


def last_event(*, timeout_s: float | None = None) -> Call[int]:
    """The number of what was traced last."""
    return Call(_LAST_EVENT, (), _number, idempotent=True, timeout_s=timeout_s)


def _number(rows: Rows) -> int:
    number: int = rows[0][0]
    return number
