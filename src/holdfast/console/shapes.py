"""What there is to see as JSON: one shape for `--json`, for HTTP and for the dashboard.

Names of a job are those of the view `job_details`. Moments are ISO 8601 in UTC, bytes are base64, integers
are written with all their digits.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from uuid import uuid4

from holdfast.console import dead
from holdfast.domain.job import Job

if TYPE_CHECKING:
    from holdfast.console.doctor import Finding
    from holdfast.console.views import History, HistoryPoint, Queues, Resource, Stats, Trace
    from holdfast.store import QueueStats
    from holdfast.store.calls.searching import DeadGroup
    from holdfast.store.calls.watching import TraceEvent, WorkerRow
    from holdfast.store.values import LightJob

Shape: TypeAlias = dict[str, Any]

_RELATIVE: Final = ("job_id", "state", "status", "next_need", "task", "created_at", "finalized_at")

_LONG: Final = 10**4000
"""Python refuses to write a number of more than 4300 digits at once."""


def encode(value: object) -> str:
    """The JSON text of a shape, in one line."""
    try:
        return json.dumps(value, default=_in_json)
    except ValueError:
        return _encode_long(value)


def job(found: Job) -> Shape:
    """A job by the view's column names."""
    shape: Shape = {}
    for each in fields(Job):
        value = getattr(found, each.name)
        match each.name:
            case "queue":
                shape["next_need"] = value
            case "payload" | "result":
                is_bytes = isinstance(value, bytes)
                shape[each.name] = None if is_bytes else value
                shape[f"{each.name}_bytes"] = value if is_bytes else None
            case "status":
                shape["status"] = found.state if value is None else value
            case "errors":
                shape["errors"] = [asdict(entry) for entry in value]
            case "progress":
                shape["progress"] = None if value is None else asdict(value)
            case name:
                shape[name] = value
    return shape


def in_list(found: LightJob) -> Shape:
    """A job in a list: `left_out` names what it has and the list does not show."""
    return {**job(found.job), "left_out": found.left_out}


def relative(found: Job) -> Shape:
    """A job that another waits for, or that waits for another."""
    shape = job(found)
    return {name: shape[name] for name in _RELATIVE}


def trace(seen: Trace) -> Shape:
    """What happened to a job, and how much of that is traced."""
    return {"level": seen.level, "events": [event(seen.job.job_id, each) for each in seen.events]}


def event(job_id: str, seen: TraceEvent) -> Shape:
    """Something that happened to a job."""
    return {
        "job_id": job_id,
        "event": seen.event,
        "worker_id": seen.worker_id,
        "at": seen.at,
        "given": seen.given,
        "became": seen.became,
    }


def queue(seen: Queues, line: QueueStats) -> Shape:
    """A queue. Numbers go no further than `counted_to`."""
    return {
        "queue": line.queue,
        "due": line.due_jobs,
        "delayed": line.delayed_jobs,
        "blocked": line.blocked_jobs,
        "held": line.held_jobs,
        "dead": line.dead_jobs,
        "oldest_due_at": line.oldest_due_at,
        "paused_at": line.paused_at,
        "max_running": line.max_running,
        "counted_to": seen.counted_to,
    }


def worker(seen: WorkerRow) -> Shape:
    """A worker and what it holds."""
    return {
        "worker_id": seen.worker_id,
        "status": seen.status,
        "jobs": seen.jobs,
        "cancelling": seen.cancelling,
        "lapsed": seen.lapsed,
        "queues": seen.queues,
        "oldest_at": seen.oldest_at,
        "seen_at": seen.seen_at,
        "lease_until": seen.lease_until,
        "job_ids": seen.job_ids,
        "host": seen.host,
        "pid": seen.pid,
        "version": seen.version,
        "capacity": seen.capacity,
        "started_at": seen.started_at,
    }


def resource(seen: Resource) -> Shape:
    """A resource or a singleton key, who holds it and how many want it."""
    return {
        "kind": seen.kind,
        "key": seen.key,
        "capacity": seen.capacity,
        "holders": [
            {"job_id": hold.job_id, "worker_id": hold.worker_id, "since": hold.since} for hold in seen.holders
        ],
        "waiting": seen.waiting,
    }


def history(seen: History) -> Shape:
    """How things went, a point for each step."""
    return {"at": seen.at, "step_s": seen.step_s, "points": [_point(point) for point in seen.points]}


def _point(point: HistoryPoint) -> Shape:
    return {
        "at": point.at,
        "completed": point.completed,
        "dead": point.dead,
        "cancelled": point.cancelled,
        "expired": point.expired,
        "wait_p50_ms": _milliseconds(point.wait_p50_s),
        "wait_p95_ms": _milliseconds(point.wait_p95_s),
        "run_p50_ms": _milliseconds(point.run_p50_s),
        "run_p95_ms": _milliseconds(point.run_p95_s),
        "depth": point.depth,
        "oldest_s": point.oldest_s,
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


def stats(seen: Stats) -> Shape:
    """An installation in figures."""
    return {each.name: getattr(seen, each.name) for each in fields(seen)}


def finding(found: Finding) -> Shape:
    """What the doctor found."""
    return {"level": found.level, "check": found.check, "says": found.says, "fix": found.fix}


def dead_group(found: DeadGroup, capped: bool) -> Shape:
    """Dead jobs that died of the same."""
    return {
        "fingerprint": dead.fingerprint(found),
        "error": found.error,
        "task": found.task,
        "count": found.jobs,
        "capped": capped,
        "first_at": found.first_at,
        "last_at": found.last_at,
        "sample_id": found.sample_id,
        "q": str(dead.query_of(found)),
    }


def _in_json(value: object) -> str:
    match value:
        case datetime():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return str(value)


def _encode_long(value: object) -> str:
    """The same where a number is too long: it leaves a mark, and its digits take the mark's place."""
    digits: dict[str, str] = {}

    def marked(part: object) -> object:
        match part:
            case int() if abs(part) > _LONG:
                mark = uuid4().hex
                digits[f'"{mark}"'] = str(Decimal(part))
                return mark
            case Mapping():
                return {name: marked(each) for name, each in cast("Mapping[str, object]", part).items()}
            case str() | bytes():
                return part
            case Sequence():
                return [marked(each) for each in cast("Sequence[object]", part)]
            case _:
                return part

    text = json.dumps(marked(value), default=_in_json)
    for mark, number in digits.items():
        text = text.replace(mark, number)
    return text
