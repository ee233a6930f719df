"""Keeping, finishing and giving up leases, and what may be done to a job nobody holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from holdfast.domain.content import encode_json, storable_text
from holdfast.domain.job import JsonValue
from holdfast.domain.states import JobState
from holdfast.errors import PayloadError
from holdfast.store import arguments, arrays, rows
from holdfast.store.arguments import Duration
from holdfast.store.call import Call, Rows, only_value, statement
from holdfast.store.values import Extension, Hold, RescheduledJob

EXTEND_LEASE: Final = statement(
    "extend_lease", p_job_id="text", p_lease_id="text", p_worker_id="text", p_additional_seconds="integer"
)
EXTEND_LEASES: Final = statement(
    "extend_leases",
    "job_id, verdict, state::text, lease_expires_at, slot_forfeited",
    p_job_ids="text[]",
    p_lease_ids="text[]",
    p_seconds="double precision",
)
LAPSE_LEASES: Final = statement("lapse_leases", "job_id, state::text", p_limit="integer")
MARK_WORKER_UNRESPONSIVE: Final = statement("mark_worker_unresponsive", p_worker_id="text")
RESET_RUNNING_JOBS: Final = statement("reset_running_jobs")
COMPLETE_JOB: Final = statement(
    "complete_job", p_job_id="text", p_lease_id="text", p_worker_id="text", p_trace_context="jsonb"
)
COMPLETE_UNHELD_JOB: Final = statement("complete_unheld_job", p_job_id="text", p_worker_id="text")
RESCHEDULE_JOB: Final = statement(
    "reschedule_job",
    rows.RESCHEDULED_COLUMNS,
    p_job_id="text",
    p_lease_id="text",
    p_worker_id="text",
    p_next_need="text",
    p_wait_for="text[]",
    p_available_at="timestamptz",
    p_payload="jsonb",
    p_reason="text",
    p_trace_context="jsonb",
)
RESCHEDULE_UNHELD_JOB: Final = statement(
    "reschedule_unheld_job",
    rows.RESCHEDULED_COLUMNS,
    p_job_id="text",
    p_worker_id="text",
    p_next_need="text",
    p_wait_for="text[]",
    p_available_at="timestamptz",
    p_payload="jsonb",
)
REPORT_PROGRESS: Final = statement(
    "report_progress",
    p_job_id="text",
    p_lease_id="text",
    p_done="double precision",
    p_total="double precision",
    p_message="text",
)


def extend_lease(
    job_id: str,
    lease_id: str,
    worker_id: str,
    additional_s: Duration = 60,
    *,
    timeout_s: float | None = None,
) -> Call[datetime]:
    """Extend one lease that has not lapsed, never shorten it; answer its new end. Whole seconds, rounded up.

    Raises LeaseLost, or WrongState if the job is being cancelled.
    """
    parameters = (*_held(job_id, lease_id, worker_id), arguments.whole_seconds(additional_s, "additional_s"))
    return Call(EXTEND_LEASE, parameters, only_value, idempotent=True, timeout_s=timeout_s)


def extend_leases(
    leases: Iterable[tuple[str, str]], lease_s: Duration, *, timeout_s: float | None = None
) -> Call[list[Extension]]:
    """Extend what is still the worker's own and learn about the rest: one answer for each job and lease."""
    held = list(leases)
    parameters = (
        arrays.of_texts([job_id for job_id, _ in held], "job_id"),
        arrays.of_texts([lease_id for _, lease_id in held], "lease_id"),
        arguments.duration(lease_s, "lease_s", positive=True),
    )
    return Call(EXTEND_LEASES, parameters, _extensions, idempotent=True, timeout_s=timeout_s)


def lapse_leases(limit: int = 1000, *, timeout_s: float | None = None) -> Call[list[tuple[str, JobState]]]:
    """Take jobs away whose leases are overdue, the most overdue first; answer each and what it is now."""
    parameters = (arguments.whole(limit, "limit"),)
    return Call(LAPSE_LEASES, parameters, _ids_and_states, idempotent=False, timeout_s=timeout_s)


def mark_worker_unresponsive(worker_id: str, *, timeout_s: float | None = None) -> Call[int]:
    """Take every job away from a worker that is known to be gone; answer how many."""
    parameters = (arguments.text(worker_id, "worker_id"),)
    return Call(MARK_WORKER_UNRESPONSIVE, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def reset_running_jobs(*, timeout_s: float | None = None) -> Call[int]:
    """Take every held job away from whoever holds it, after everything was down; answer how many."""
    return Call(RESET_RUNNING_JOBS, (), only_value, idempotent=False, timeout_s=timeout_s)


def complete_job(
    job_id: str,
    lease_id: str,
    worker_id: str,
    *,
    trace_context: Mapping[str, JsonValue] | None = None,
    timeout_s: float | None = None,
) -> Call[bool]:
    """Complete a job under a lease that has not lapsed; raise LeaseLost otherwise.

    The stricter of two ways: `settle_jobs` takes results, and takes them late as well.
    """
    parameters = (*_held(job_id, lease_id, worker_id), arguments.mapping(trace_context, "trace_context"))
    return Call(COMPLETE_JOB, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def complete_unheld_job(job_id: str, worker_id: str, *, timeout_s: float | None = None) -> Call[bool]:
    """Complete a job that waits, held by nobody and blocked by nothing; raise WrongState otherwise."""
    parameters = (arguments.text(job_id, "job_id"), arguments.text(worker_id, "worker_id"))
    return Call(COMPLETE_UNHELD_JOB, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def reschedule_job(
    job_id: str,
    lease_id: str,
    worker_id: str,
    next_need: str,
    *,
    wait_for: Iterable[str] = (),
    available_at: datetime | None = None,
    payload: JsonValue = None,
    reason: str | None = None,
    trace_context: Mapping[str, JsonValue] | None = None,
    timeout_s: float | None = None,
) -> Call[RescheduledJob]:
    """Put a held job back in line, at no cost, with another need or dependencies; None keeps the payload."""
    parameters = (
        *_held(job_id, lease_id, worker_id),
        *_place(next_need, wait_for, available_at, payload),
        None if reason is None else storable_text(reason),
        arguments.mapping(trace_context, "trace_context"),
    )
    return Call(RESCHEDULE_JOB, parameters, rows.rescheduled_job, idempotent=False, timeout_s=timeout_s)


def reschedule_unheld_job(
    job_id: str,
    worker_id: str,
    next_need: str,
    *,
    wait_for: Iterable[str] = (),
    available_at: datetime | None = None,
    payload: JsonValue = None,
    timeout_s: float | None = None,
) -> Call[RescheduledJob]:
    """Move a job that waits, held by nobody and blocked by nothing; it keeps its waiting state."""
    parameters = (
        arguments.text(job_id, "job_id"),
        arguments.text(worker_id, "worker_id"),
        *_place(next_need, wait_for, available_at, payload),
    )
    return Call(
        RESCHEDULE_UNHELD_JOB, parameters, rows.rescheduled_job, idempotent=False, timeout_s=timeout_s
    )


def report_progress(
    job_id: str,
    lease_id: str,
    done: float,
    total: float | None = None,
    message: str | None = None,
    *,
    timeout_s: float | None = None,
) -> Call[bool]:
    """Say how far a held job is; False if the lease is lost, and then nothing changed."""
    parameters = (
        arguments.text(job_id, "job_id"),
        arguments.text(lease_id, "lease_id"),
        arguments.number(done, "done"),
        arguments.number(total, "total"),
        None if message is None else storable_text(message),
    )
    return Call(REPORT_PROGRESS, parameters, only_value, idempotent=True, timeout_s=timeout_s)


def _held(job_id: str, lease_id: str, worker_id: str) -> tuple[str, str, str]:
    return (
        arguments.text(job_id, "job_id"),
        arguments.text(lease_id, "lease_id"),
        arguments.text(worker_id, "worker_id"),
    )


def _place(
    next_need: str, wait_for: Iterable[str], available_at: datetime | None, payload: JsonValue
) -> tuple[str | None, ...]:
    if isinstance(payload, bytes | bytearray | memoryview):
        raise PayloadError("payload: a reschedule takes JSON only; submit bytes with a new job")
    return (
        arguments.queue(next_need, "next_need"),
        arguments.text_array(wait_for, "wait_for"),
        arguments.moment(available_at, "available_at"),
        None if payload is None else encode_json(payload),
    )


def _extensions(answer: Rows) -> list[Extension]:
    return [
        Extension(job_id, Hold(hold), rows.STATES[state], until, forfeited)
        for job_id, hold, state, until, forfeited in answer
    ]


def _ids_and_states(answer: Rows) -> list[tuple[str, JobState]]:
    return [(job_id, JobState(state)) for job_id, state in answer]
