"""What an accepted step must have done, and all it may have done, by comparing two snapshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from holdfast.domain.lifecycle import Operation, Transition, When
from holdfast.domain.states import ARCHIVED, FINISHED, HELD, JobState
from tests.engine.expectations import Steps
from tests.engine.jobs_in_state import EXTENSION, JOB
from tests.engine.snapshot import Row, Snapshot, differing

# What readers see is stored under other names, or with more beside it.
_STORED_AS: Final = {
    "state": {"state", "lapses_at"},
    "last_error": {"error_message", "error_traceback"},
    "lease_expires_at": {"lease_expires_at", "lapses_at", "extended_at", "has_holds"},
    "lease_id": {"lease_id", "stream_id", "has_holds"},
    "next_need": {"queue"},
    "payload": {"payload", "payload_bytes"},
    "wait_for": {"wait_for", "waiting_on"},
}
_IN_ONE_TABLE_ONLY: Final = frozenset(
    {
        "extended_at",
        "forfeited_stream_id",
        "has_holds",
        "lapses_at",
        "stream_id",
        "wait_for",
        "waiters",
        "waiting_on",
    }
)

_COUNTED: Final = {Operation.FAIL, Operation.REQUEUE, Operation.STOP_WITH_RETRY}
_COMPLETED: Final = {Operation.COMPLETE, Operation.COMPLETE_UNHELD}
_HANDED_BACK: Final = {Operation.FAIL, Operation.REQUEUE, Operation.RESCHEDULE, Operation.UNDELIVERED}
_GIVEN_UP: Final = {
    Operation.RELEASE,
    Operation.MARK_WORKER_UNRESPONSIVE,
    Operation.RESET_RUNNING_JOBS,
}
_CANCELLED: Final = {
    Operation.CANCEL,
    Operation.STOP,
    Operation.MARK_UNKNOWN_STOPPED,
    Operation.ACKNOWLEDGE_CANCELLATION,
}


def unexpected_changes(steps: Steps, before: Snapshot, after: Snapshot) -> set[str]:
    """Columns and rows that none of these steps may touch, and yet are not what they were."""
    touched = frozenset[str]().union(*(step.touches for step in steps))
    shown = touched | ({"error_message"} if "last_error" in touched else set()) | {"status", "number"}
    stored = {"id", "name", *(name for column in touched for name in _STORED_AS.get(column, {column}))}
    if not steps:
        stored |= {"has_holds"}
    if steps and steps[-1].target in ARCHIVED:
        stored |= _IN_ONE_TABLE_ONLY
    columns = set[str]()
    if before.job(JOB) and after.job(JOB):
        columns |= differing(before.job(JOB), after.job(JOB)) - shown
        columns |= differing(before.stored(JOB), after.stored(JOB)) - stored
    columns |= {"lapses_at" for row in after.of("jobs") if row["lapses_at"] != _end_of_lease(row)}
    return columns | {" ".join(key) for key in _rows_of_others(before, after)}


def _rows_of_others(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, str]]:
    job = before.job(JOB) or after.job(JOB)
    number = job["number"] if job else None
    for table, key in before.changed(after):
        row = after.rows.get((table, key)) or before.rows[table, key]
        own = {
            row.get("job_id"),
            row.get("id") if "job" in table else None,
            row.get("child_id"),
            row.get("name"),
        }
        if not own & {JOB, number} and (table, key) != ("resources", "another"):
            yield table, key


def _end_of_lease(row: Row) -> str | None:
    """When a job that was claimed by itself lapses: only while it is held, and is not in line then."""
    return row["lease_expires_at"] if JobState(row["state"]) in HELD else None


def events(steps: Steps) -> list[str]:
    """What the trace says about these steps when it says everything."""
    return [event for step in steps for event in _events(step)]


def _events(step: Transition) -> Iterator[str]:
    operation = step.operation
    if operation is Operation.LAPSE or step.when is When.LEASE_LAPSED:
        yield "lease_expired"
    if operation in _COMPLETED:
        yield "job_finished"
    elif operation in _COUNTED:
        yield "job_dead" if step.target is JobState.DEAD else "job_failed"
    elif operation in _GIVEN_UP:
        yield "job_released"
    elif operation in _CANCELLED | {Operation.UNDELIVERED} and step.target in ARCHIVED:
        yield "job_cancelled"
    elif operation is Operation.CANCEL and step.source is JobState.RUNNING:
        yield "job_cancel_requested"
    elif operation in _HANDED_BACK | {Operation.RESCHEDULE_UNHELD}:
        yield "reschedule_job"
    elif operation in _OTHER_EVENTS:
        yield _OTHER_EVENTS[operation]


_OTHER_EVENTS: Final = {
    Operation.SUBMIT: "job_submitted",
    Operation.CLAIM: "job_retrieved",
    Operation.EXTEND: "lease_extended",
    Operation.CLEAR_CRASH_CONCERN: "crash_concern_cleared",
    Operation.REVIVE: "job_revived",
    Operation.DELETE: "job_deleted",
}


def missing_effects(steps: Steps, before: Row, after: Row, now: datetime) -> list[str]:
    """What the model promises of these steps and is not there, as `column: is, should be`."""
    promised = dict[str, object]()
    fresh_lease = False
    for step in steps:
        promised |= _promises(step, {**_facts(before), **promised}, now)
        if step.operation is Operation.CLAIM:
            promised.pop("lease_id", None)
            fresh_lease = after["lease_id"] not in (None, before["lease_id"])
    found = _facts(after)
    missing = [
        f"{fact}: {found[fact]}, should be {value}"
        for fact, value in promised.items()
        if found[fact] != value
    ]
    return missing + ([] if fresh_lease or not _claims(steps) else ["lease_id: must be a new one"])


def _claims(steps: Steps) -> bool:
    return any(step.operation is Operation.CLAIM for step in steps)


def _promises(step: Transition, before: Mapping[str, Any], now: datetime) -> dict[str, object]:
    """Columns and their new values, as far as the model and the call determine them."""
    operation = step.operation
    back_in_line = operation in _HANDED_BACK and step.target not in ARCHIVED
    promised: dict[str, object] = {
        "state": step.target,
        "finalized_at": now if step.target in FINISHED else None,
        "failures": before["failures"],
        "attempts": before["attempts"],
    }
    if operation in _COUNTED:
        promised |= {
            "attempts": before["attempts"] + 1,
            "failures": before["failures"] + 1,
            "last_retry_at": now,
        }
    if operation in _COMPLETED or back_in_line or operation is Operation.CLEAR_CRASH_CONCERN:
        promised["consecutive_expirations"] = 0
    if back_in_line:
        promised["lease_id"] = None
    if operation in _GIVEN_UP | {Operation.LAPSE}:
        promised |= {"lease_id": before["lease_id"], "assignee_id": before["assignee_id"]}
    if operation is Operation.LAPSE:
        for count in ("lease_expiration_count", "consecutive_expirations"):
            promised[count] = before[count] + 1
    if operation is Operation.CLAIM:
        promised |= {"assignee_id": "claimer", "assigned_at": now, "started_at": before["started_at"] or now}
    if operation is Operation.EXTEND:
        promised["lease_expires_at"] = max(before["lease_expires_at"], now + EXTENSION)
    if operation is Operation.REVIVE:
        promised |= {"attempts": 0, "available_at": now}
    return promised


def _facts(row: Row) -> dict[str, Any]:
    """The columns, with timestamps as such: in a snapshot they are text."""
    facts = {column: _moment(value) if column.endswith("_at") else value for column, value in row.items()}
    return facts | {"failures": len(row["errors"])}


def _moment(value: str | None) -> datetime | None:
    return datetime.fromisoformat(value) if value else None
