"""What people do to jobs: cancel, revive, clear, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.domain.content import storable_text
from holdfast.domain.states import JobState
from holdfast.errors import InvalidArgument
from holdfast.store import arguments, rows
from holdfast.store.arguments import Duration
from holdfast.store.call import Call, Rows, only_value, statement
from holdfast.store.values import CancelledJobs

SEVEN_DAYS_S: Final = 7 * 24 * 3600.0

CANCEL_JOB: Final = statement(
    "cancel_job", "state::text", p_job_id="text", p_worker_id="text", p_reason="text"
)
CANCEL_JOBS: Final = statement(
    "cancel_jobs",
    "job_id, cancelled",
    p_tags="text[]",
    p_job_ids="text[]",
    p_worker_id="text",
    p_reason="text",
)
REVIVE_JOB: Final = statement(
    "revive_job", "answer::text", p_job_id="text", p_worker_id="text", p_reason="text"
)
CLEAR_CRASH_CONCERN: Final = statement(
    "clear_crash_concern", p_job_id="text", p_worker_id="text", p_reason="text"
)
CANCEL_EXPIRED_JOBS: Final = statement(
    "cancel_expired_jobs", p_older_than_seconds="double precision", p_limit="integer"
)
DELETE_JOBS: Final = statement("delete_jobs", p_tags="text[]", p_job_ids="text[]", p_worker_id="text")
CLEANUP_EXPIRED_JOBS: Final = statement(
    "cleanup_expired_jobs", p_ttl_seconds="double precision", p_limit="integer"
)


def cancel_job(
    job_id: str, worker_id: str, reason: str | None = None, *, timeout_s: float | None = None
) -> Call[JobState]:
    """Cancel a job and those that wait for it; answer what it is now, CANCELLING if a worker holds it."""
    parameters = (
        arguments.text(job_id, "job_id"),
        arguments.text(worker_id, "worker_id"),
        _reason(reason),
    )
    return Call(CANCEL_JOB, parameters, rows.state, idempotent=False, timeout_s=timeout_s)


def cancel_jobs(
    *,
    tags: Iterable[str] = (),
    job_ids: Iterable[str] = (),
    worker_id: str | None = None,
    reason: str | None = None,
    timeout_s: float | None = None,
) -> Call[CancelledJobs]:
    """Cancel every job that has all these tags, and those named. Neither tags nor ids is an error."""
    parameters = (
        *_selection(tags, job_ids, "cancel_jobs"),
        arguments.optional_text(worker_id, "worker_id"),
        _reason(reason),
    )
    return Call(CANCEL_JOBS, parameters, _cancelled, idempotent=False, timeout_s=timeout_s)


def revive_job(
    job_id: str,
    *,
    worker_id: str | None = None,
    reason: str | None = None,
    timeout_s: float | None = None,
) -> Call[JobState]:
    """Bring a dead job back, its attempts at 0 again, the history of its errors kept."""
    parameters = (
        arguments.text(job_id, "job_id"),
        arguments.optional_text(worker_id, "worker_id"),
        _reason(reason),
    )
    return Call(REVIVE_JOB, parameters, rows.state, idempotent=False, timeout_s=timeout_s)


def clear_crash_concern(
    job_id: str, worker_id: str, reason: str | None = None, *, timeout_s: float | None = None
) -> Call[bool]:
    """Let a job run again that too many lapsed leases have set aside; False if there was no concern."""
    parameters = (
        arguments.text(job_id, "job_id"),
        arguments.text(worker_id, "worker_id"),
        _reason(reason),
    )
    return Call(CLEAR_CRASH_CONCERN, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def cancel_expired_jobs(
    older_than_s: Duration = SEVEN_DAYS_S, limit: int = 1000, *, timeout_s: float | None = None
) -> Call[int]:
    """Cancel jobs that expired so long ago, and those that wait for them; answer how many expired ones."""
    parameters = (arguments.duration(older_than_s, "older_than_s"), arguments.whole(limit, "limit"))
    return Call(CANCEL_EXPIRED_JOBS, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def delete_jobs(
    *,
    tags: Iterable[str] = (),
    job_ids: Iterable[str] = (),
    worker_id: str | None = None,
    timeout_s: float | None = None,
) -> Call[int]:
    """Delete every job that has all these tags, and those named, all or nothing; answer how many.

    Raises WrongState if one is not finished, or if a live job waits for one. Unknown ids are ignored.
    """
    parameters = (
        *_selection(tags, job_ids, "delete_jobs"),
        arguments.optional_text(worker_id, "worker_id"),
    )
    return Call(DELETE_JOBS, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def cleanup_expired_jobs(
    ttl_s: Duration, limit: int | None = None, *, timeout_s: float | None = None
) -> Call[int]:
    """Delete COMPLETED jobs that ended longer ago than this; answer how many."""
    parameters = (arguments.duration(ttl_s, "ttl_s", positive=True), arguments.whole(limit, "limit"))
    return Call(CLEANUP_EXPIRED_JOBS, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def _selection(tags: Iterable[str], job_ids: Iterable[str], name: str) -> tuple[str | None, str | None]:
    tagged = arguments.text_array(tags, "tags")
    named = arguments.text_array(job_ids, "job_ids")
    if tagged == named == "{}":
        raise InvalidArgument(f"{name} needs tags or job ids; it never means every job")
    return tagged, named


def _reason(reason: str | None) -> str | None:
    return None if reason is None else storable_text(reason)


def _cancelled(answer: Rows) -> CancelledJobs:
    return CancelledJobs(
        [job_id for job_id, cancelled in answer if cancelled],
        [job_id for job_id, cancelled in answer if not cancelled],
    )
