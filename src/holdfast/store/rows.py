"""Rows into values. Plain tuples come in the order of the columns named here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.domain.job import ClaimedJob, ErrorEntry, Job, Progress
from holdfast.domain.outcome import Reason, Verdict
from holdfast.domain.states import ARCHIVED, JobState, Status
from holdfast.store.call import Rows
from holdfast.store.values import LightJob, RescheduledJob

STATES: Final[Mapping[str | None, JobState | None]] = {
    None: None,
    **{state.value: state for state in JobState},
}

CLAIMED_COLUMNS: Final = (
    "job_id, lease_id, queue, task, payload, payload_bytes, priority, tags, attempts, max_attempts, "
    "resource_keys, singleton_key, available_at, lease_expires_at, timeout_s, retry, created_at, number, "
    "started_at, last_retry_at, expires_at, error_message, if_parent_fails"
)

_JOB_FIELDS: Final = {
    "job_id": "job_id",
    "state": "state::text",
    "status": "status",
    "queue": "next_need",
    "task": "task",
    "payload": "payload",
    "payload_bytes": "payload_bytes",
    "result": "result",
    "result_bytes": "result_bytes",
    "priority": "priority",
    "tags": "tags",
    "created_at": "created_at",
    "available_at": "available_at",
    "expires_at": "expires_at",
    "started_at": "started_at",
    "finalized_at": "finalized_at",
    "attempts": "attempts",
    "max_attempts": "max_attempts",
    "last_retry_at": "last_retry_at",
    "error_message": "error_message",
    "last_error": "last_error",
    "errors": "errors",
    "assignee_id": "assignee_id",
    "assigned_at": "assigned_at",
    "lease_id": "lease_id",
    "lease_expires_at": "lease_expires_at",
    "lease_expiration_count": "lease_expiration_count",
    "consecutive_expirations": "consecutive_expirations",
    "wait_for": "wait_for",
    "if_parent_fails": "if_parent_fails",
    "singleton_key": "singleton_key",
    "resource_keys": "resource_keys",
    "timeout_s": "timeout_s",
    "retry": "retry",
    "progress": "progress",
}
JOB_COLUMNS: Final = ", ".join(_JOB_FIELDS.values())

LARGE: Final = 8192
"""Content of more bytes is left out where jobs are listed."""


def _is_large(column: str, text: str) -> str:
    """What is stored large is not even read; what is stored small may be so only because it is compressed."""
    return f"(pg_column_size({column}) > {LARGE} or octet_length({text}) > {LARGE})"


_LARGE_CONTENT: Final = {
    name: _is_large(name, name if name.endswith("_bytes") else f"{name}::text")
    for name in ("payload", "payload_bytes", "result", "result_bytes")
}
_LIGHT_FIELDS: Final = {
    **_JOB_FIELDS,
    **{name: f"case when {large} then null else {name} end" for name, large in _LARGE_CONTENT.items()},
    "errors": "'[]'::jsonb",
}
_LEFT_OUT: Final = [
    *(f"case when {large} then '{name}' end" for name, large in _LARGE_CONTENT.items()),
    "case when attempts > 0 then 'errors' end",
]
LIGHT_COLUMNS: Final = (
    f"{', '.join(_LIGHT_FIELDS.values())}, array_remove(array[{', '.join(_LEFT_OUT)}], null)"
)
"""The same without the history of errors and without large content, and the names of what was left out."""

VERDICT_COLUMNS: Final = "job_id, ok, state::text, reason"

RESCHEDULED_COLUMNS: Final = "job_id, next_need, wait_for, available_at"


def claimed_job(row: tuple[Any, ...]) -> ClaimedJob:
    (
        job_id,
        lease_id,
        queue,
        task,
        payload,
        payload_bytes,
        priority,
        tags,
        attempts,
        max_attempts,
        resource_keys,
        singleton_key,
        available_at,
        lease_expires_at,
        timeout_s,
        retry,
        created_at,
        number,
        started_at,
        last_retry_at,
        expires_at,
        error_message,
        if_parent_fails,
    ) = row
    # By position: by name it takes twice as long, and this is once for every job there is.
    return ClaimedJob(
        job_id,
        lease_id,
        queue,
        task,
        payload if payload_bytes is None else payload_bytes,
        priority,
        tuple(tags) if tags else (),
        attempts,
        max_attempts,
        tuple(resource_keys) if resource_keys else (),
        singleton_key,
        available_at,
        lease_expires_at,
        timeout_s,
        retry,
        created_at,
        number,
        started_at,
        last_retry_at,
        expires_at,
        error_message,
        if_parent_fails,
    )


BRIEF_COLUMNS: Final = f"kind, reason, state::text, {CLAIMED_COLUMNS}"
"""An answer of `settle_and_claim` in brief: what is null is as in the row before the jobs, or as usual."""

_PLAIN_NULLS: Final = len(BRIEF_COLUMNS.split(", ")) - len(
    ("lease_id", "task", "payload", "available_at", "number")
)


def briefly_claimed_jobs(rows: Rows) -> list[ClaimedJob]:
    """The jobs of a claim, from the row about all of them on."""
    common = rows[0]
    queue, until, begun = common[5], common[16], common[21]
    jobs: list[ClaimedJob] = []
    for row in rows[1:]:
        if row.count(None) == _PLAIN_NULLS and row[6] is not None and row[7] is not None:
            at, number = row[15], row[20]
            # fmt: off
            jobs.append(ClaimedJob(  # what most are; by position, as above
                f"j{number}", row[4], queue, row[6], row[7], 0, (), 0, None, (), None, at, until, None, None,
                at, number, begun, None, None, None, None,
            ))
            # fmt: on
        else:
            jobs.append(_briefly_claimed_job(row, queue, until, begun))
    return jobs


def _briefly_claimed_job(
    row: tuple[Any, ...], queue: str | None, until: datetime, begun: datetime
) -> ClaimedJob:
    _, reason, _, *rest = row
    job = claimed_job(tuple(rest))
    job.job_id = job.job_id or f"j{job.number}"
    job.queue = job.queue or queue or ""
    job.priority = job.priority or 0
    job.attempts = job.attempts or 0
    job.created_at = job.created_at or job.available_at
    job.lease_expires_at = job.lease_expires_at or until
    job.started_at = job.started_at or begun
    job.holds_resources = reason is not None
    return job


def claimed_jobs(rows: Rows) -> list[ClaimedJob]:
    return [claimed_job(row) for row in rows]


def verdict(job_id: str, ok: bool, state: str | None, reason: str) -> Verdict:
    """`already` is the answer to a settle that was sent twice: the job is as the caller wanted it."""
    return Verdict(job_id, ok or reason == Reason.ALREADY, STATES[state], reason)


def verdicts(rows: Rows) -> list[Verdict]:
    return [verdict(*row) for row in rows]


def rescheduled_job(rows: Rows) -> RescheduledJob:
    job_id, queue, wait_for, available_at = rows[0]
    return RescheduledJob(job_id, queue, tuple(wait_for), available_at)


def state(rows: Rows) -> JobState:
    return JobState(rows[0][0])


def job_or_none(rows: Rows) -> Job | None:
    return job(rows[0]) if rows else None


def jobs(rows: Rows) -> list[Job]:
    return [job(row) for row in rows]


def light_jobs(rows: Rows) -> list[LightJob]:
    return [LightJob(job(row[:-1]), tuple(row[-1])) for row in rows]


def job(row: tuple[Any, ...]) -> Job:
    fields = dict(zip(_JOB_FIELDS, row, strict=True))
    payload_bytes, result_bytes = fields.pop("payload_bytes"), fields.pop("result_bytes")
    if payload_bytes is not None:
        fields["payload"] = payload_bytes
    if result_bytes is not None:
        fields["result"] = result_bytes
    for name in ("tags", "wait_for", "resource_keys"):
        fields[name] = tuple(fields[name])
    fields["state"] = JobState(fields["state"])
    fields["status"] = None if fields["state"] in ARCHIVED else Status(fields["status"])
    fields["errors"] = tuple(_error(entry) for entry in fields["errors"])
    fields["progress"] = _progress(fields["progress"])
    return Job(**fields)


def _error(entry: dict[str, Any]) -> ErrorEntry:
    return ErrorEntry(
        entry["attempt"], _moment(entry["at"]), entry["worker_id"], entry["message"], entry["traceback"]
    )


def _progress(entry: dict[str, Any] | None) -> Progress | None:
    if entry is None:
        return None
    total = entry["total"]
    return Progress(
        float(entry["done"]), None if total is None else float(total), entry["message"], _moment(entry["at"])
    )


def _moment(text: str) -> datetime:
    """Within JSON the engine writes moments in the session's time zone."""
    return datetime.fromisoformat(text).astimezone(UTC)
