"""One job, one verb. Guards are optional, and checked when given; an error unless the job was changed.

None of these is repeated by itself when its answer was lost: the second answer would be an error, or False,
although the first call did it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from holdfast.domain.content import storable_text
from holdfast.domain.states import JobState
from holdfast.store import arguments, rows
from holdfast.store.arguments import Duration
from holdfast.store.call import Call, Statement, only_value, statement

_STATE: Final = "answer::text"

FAIL_JOB: Final = statement(
    "fail_job",
    _STATE,
    p_job_id="text",
    p_error="text",
    p_lease_id="text",
    p_worker_id="text",
    p_delay="double precision",
    p_permanent="boolean",
    p_traceback="text",
)
REQUEUE_JOB: Final = statement(
    "requeue_job",
    _STATE,
    p_job_id="text",
    p_available_at="timestamptz",
    p_error="text",
    p_lease_id="text",
    p_worker_id="text",
)
RETRY_LATER: Final = statement(
    "retry_later",
    p_job_id="text",
    p_available_at="timestamptz",
    p_lease_id="text",
    p_worker_id="text",
    p_reason="text",
    p_delay="double precision",
)
RELEASE_JOB: Final = statement("release_job", p_job_id="text", p_lease_id="text", p_worker_id="text")
STOP_JOB: Final = statement(
    "stop_job", _STATE, p_job_id="text", p_error="text", p_lease_id="text", p_worker_id="text"
)
STOP_JOB_WITH_RETRY: Final = statement(
    "stop_job_with_retry",
    _STATE,
    p_job_id="text",
    p_error="text",
    p_lease_id="text",
    p_worker_id="text",
    p_traceback="text",
)
MARK_JOB_UNKNOWN_STOPPED: Final = statement(
    "mark_job_unknown_stopped",
    _STATE,
    p_job_id="text",
    p_error="text",
    p_lease_id="text",
    p_worker_id="text",
)
ACKNOWLEDGE_CANCELLATION: Final = statement(
    "acknowledge_cancellation",
    _STATE,
    p_job_id="text",
    p_was_executing="boolean",
    p_lease_id="text",
    p_worker_id="text",
)


def fail_job(
    job_id: str,
    error: str,
    *,
    lease_id: str | None = None,
    worker_id: str | None = None,
    delay_s: Duration = 0,
    permanent: bool = False,
    traceback: str | None = None,
    timeout_s: float | None = None,
) -> Call[JobState]:
    """Count a failed attempt: FAILED_RETRY, or DEAD at the last attempt or when it is permanent."""
    parameters = (
        arguments.text(job_id, "job_id"),
        storable_text(error),
        *_guards(lease_id, worker_id),
        arguments.duration(delay_s, "delay_s"),
        arguments.flag(permanent, "permanent"),
        None if traceback is None else storable_text(traceback),
    )
    return Call(FAIL_JOB, parameters, rows.state, idempotent=False, timeout_s=timeout_s)


def requeue_job(
    job_id: str,
    available_at: datetime | None = None,
    error: str = "",
    *,
    lease_id: str | None = None,
    worker_id: str | None = None,
    timeout_s: float | None = None,
) -> Call[JobState]:
    """Count an attempt because of a transient trouble; due again at a moment, or at once."""
    parameters = (
        arguments.text(job_id, "job_id"),
        arguments.moment(available_at, "available_at"),
        storable_text(error),
        *_guards(lease_id, worker_id),
    )
    return Call(REQUEUE_JOB, parameters, rows.state, idempotent=False, timeout_s=timeout_s)


def retry_later(
    job_id: str,
    available_at: datetime | None = None,
    *,
    delay_s: Duration | None = None,
    reason: str = "retry_later",
    lease_id: str | None = None,
    worker_id: str | None = None,
    timeout_s: float | None = None,
) -> Call[bool]:
    """Hand a job back at no cost, due at a moment, after a delay or at once; False if nothing was changed."""
    parameters = (
        arguments.text(job_id, "job_id"),
        arguments.moment(available_at, "available_at"),
        *_guards(lease_id, worker_id),
        storable_text(reason),
        arguments.duration(delay_s, "delay_s"),
    )
    return Call(RETRY_LATER, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def release_job(
    job_id: str,
    *,
    lease_id: str | None = None,
    worker_id: str | None = None,
    timeout_s: float | None = None,
) -> Call[bool]:
    """Take a job away from a worker that is gone; False if nothing was changed."""
    parameters = (arguments.text(job_id, "job_id"), *_guards(lease_id, worker_id))
    return Call(RELEASE_JOB, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def stop_job(
    job_id: str,
    error: str = "",
    *,
    lease_id: str | None = None,
    worker_id: str | None = None,
    timeout_s: float | None = None,
) -> Call[JobState]:
    """End a job on demand: STOPPED."""
    return _end(STOP_JOB, job_id, error, lease_id, worker_id, timeout_s)


def stop_job_with_retry(
    job_id: str,
    error: str = "",
    *,
    traceback: str | None = None,
    lease_id: str | None = None,
    worker_id: str | None = None,
    timeout_s: float | None = None,
) -> Call[JobState]:
    """End a job that failed while it was being cancelled: STOPPED, and the attempt counts."""
    parameters = (
        arguments.text(job_id, "job_id"),
        storable_text(error),
        *_guards(lease_id, worker_id),
        None if traceback is None else storable_text(traceback),
    )
    return Call(STOP_JOB_WITH_RETRY, parameters, rows.state, idempotent=False, timeout_s=timeout_s)


def mark_job_unknown_stopped(
    job_id: str,
    error: str = "",
    *,
    lease_id: str | None = None,
    worker_id: str | None = None,
    timeout_s: float | None = None,
) -> Call[JobState]:
    """End a job when nobody can say what its worker did: UNKNOWN_STOPPED."""
    return _end(MARK_JOB_UNKNOWN_STOPPED, job_id, error, lease_id, worker_id, timeout_s)


def acknowledge_cancellation(
    job_id: str,
    was_executing: bool,
    *,
    lease_id: str | None = None,
    worker_id: str | None = None,
    timeout_s: float | None = None,
) -> Call[JobState]:
    """Answer a cancellation: STOPPED if it was executing, else UNKNOWN_STOPPED and the slot is forfeited."""
    parameters = (
        arguments.text(job_id, "job_id"),
        arguments.flag(was_executing, "was_executing"),
        *_guards(lease_id, worker_id),
    )
    return Call(ACKNOWLEDGE_CANCELLATION, parameters, rows.state, idempotent=False, timeout_s=timeout_s)


def _end(
    ending: Statement,
    job_id: str,
    error: str,
    lease_id: str | None,
    worker_id: str | None,
    timeout_s: float | None,
) -> Call[JobState]:
    parameters = (arguments.text(job_id, "job_id"), storable_text(error), *_guards(lease_id, worker_id))
    return Call(ending, parameters, rows.state, idempotent=False, timeout_s=timeout_s)


def _guards(lease_id: str | None, worker_id: str | None) -> tuple[str | None, str | None]:
    return arguments.optional_text(lease_id, "lease_id"), arguments.optional_text(worker_id, "worker_id")
