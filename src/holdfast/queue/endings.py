"""The verbs that say what became of a job, as steps: what is checked, and which outcome is written down."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from holdfast.domain.job import Content
from holdfast.domain.outcome import (
    Acknowledged,
    Completed,
    Failed,
    Released,
    Requeued,
    Rescheduled,
    Stopped,
    StoppedWithRetry,
    UnknownStopped,
    Verdict,
)
from holdfast.domain.states import JobState
from holdfast.queue import checks
from holdfast.queue.checks import WorkerId
from holdfast.queue.settling import Holdings, Told, settle_many, settle_one, try_one
from holdfast.store import arguments
from holdfast.store.arguments import Duration
from holdfast.store.steps import Steps

Guards = tuple[str | None, WorkerId | None]
"""The lease and the worker a job must be held under; None: not checked."""


def complete_job(holdings: Holdings, job_id: str, result: Content, guards: Guards) -> Steps[None]:
    yield from settle_one(holdings, job_id, lambda: _completed(result), *guards)


def fail_job(
    holdings: Holdings, job_id: str, error: str, delay: Duration, permanent: bool, guards: Guards
) -> Steps[bool]:
    state = yield from settle_one(holdings, job_id, lambda: _failed(error, delay, permanent), *guards)
    return state is JobState.DEAD


def stop_job(holdings: Holdings, job_id: str, error: str, guards: Guards) -> Steps[None]:
    yield from settle_one(holdings, job_id, lambda: _stopped(error), *guards)


def stop_job_with_retry(holdings: Holdings, job_id: str, error: str, guards: Guards) -> Steps[None]:
    yield from settle_one(holdings, job_id, lambda: _stopped_with_retry(error), *guards)


def mark_job_unknown_stopped(holdings: Holdings, job_id: str, error: str, guards: Guards) -> Steps[None]:
    yield from settle_one(holdings, job_id, lambda: _unknown_stopped(error), *guards)


def acknowledge_cancellation(
    holdings: Holdings, job_id: str, was_executing: bool, guards: Guards
) -> Steps[None]:
    yield from settle_one(holdings, job_id, lambda: _acknowledged(was_executing), *guards)


def requeue_job(
    holdings: Holdings, job_id: str, available_at: datetime | None, error: str, guards: Guards
) -> Steps[bool]:
    state = yield from settle_one(holdings, job_id, lambda: _requeued(available_at, error), *guards)
    return state is JobState.DEAD


def reschedule_job(holdings: Holdings, job_id: str, available_at: datetime, guards: Guards) -> Steps[None]:
    yield from settle_one(holdings, job_id, lambda: _rescheduled(available_at, "reschedule"), *guards)


def retry_later(holdings: Holdings, job_id: str, available_at: datetime) -> Steps[bool]:
    return (yield from try_one(holdings, job_id, lambda: _rescheduled(available_at, "retry_later")))


def release(holdings: Holdings, job_id: str) -> Steps[bool]:
    is_released = yield from try_one(holdings, job_id, Released)
    holdings.unclear()  # its stream may be one of this queue, and there may be no signals
    return is_released


def complete_jobs(
    holdings: Holdings, jobs: Iterable[Told[Content]], worker_id: WorkerId | None
) -> Steps[list[Verdict]]:
    return (yield from settle_many(holdings, jobs, _completed, worker_id))


def fail_jobs(
    holdings: Holdings, jobs: Iterable[Told[str]], worker_id: WorkerId | None
) -> Steps[list[Verdict]]:
    return (yield from settle_many(holdings, jobs, _failed, worker_id))


def stop_jobs(
    holdings: Holdings, jobs: Iterable[Told[str]], worker_id: WorkerId | None
) -> Steps[list[Verdict]]:
    return (yield from settle_many(holdings, jobs, _stopped, worker_id))


def stop_jobs_with_retry(
    holdings: Holdings, jobs: Iterable[Told[str]], worker_id: WorkerId | None
) -> Steps[list[Verdict]]:
    return (yield from settle_many(holdings, jobs, _stopped_with_retry, worker_id))


def mark_jobs_unknown_stopped(
    holdings: Holdings, jobs: Iterable[Told[str]], worker_id: WorkerId | None
) -> Steps[list[Verdict]]:
    return (yield from settle_many(holdings, jobs, _unknown_stopped, worker_id))


def acknowledge_cancellations(
    holdings: Holdings, jobs: Iterable[Told[bool]], worker_id: WorkerId | None
) -> Steps[list[Verdict]]:
    return (yield from settle_many(holdings, jobs, _acknowledged, worker_id))


def _completed(result: Content) -> Completed:
    return Completed(checks.result(result))


def _failed(error: str, delay: Duration = 0, permanent: bool = False) -> Failed:
    return Failed(
        checks.message(error, required=True),
        None,
        arguments.seconds(delay, "delay"),
        checks.flag(permanent, "permanent"),
    )


def _stopped(error: str) -> Stopped:
    return Stopped(checks.message(error))


def _stopped_with_retry(error: str) -> StoppedWithRetry:
    return StoppedWithRetry(checks.message(error))


def _unknown_stopped(error: str) -> UnknownStopped:
    return UnknownStopped(checks.message(error))


def _acknowledged(was_executing: bool) -> Acknowledged:
    return Acknowledged(checks.flag(was_executing, "was_executing"))


def _requeued(available_at: datetime | None, error: str) -> Requeued:
    due = None if available_at is None else arguments.aware(available_at, "available_at")
    return Requeued(message=checks.message(error), available_at=due)


def _rescheduled(available_at: datetime, reason: str) -> Rescheduled:
    return Rescheduled(reason=reason, available_at=arguments.aware(available_at, "available_at"))
