"""Waiting for the end of a job, and saying what became of it."""

from __future__ import annotations

import shlex
from time import monotonic
from typing import Final

from holdfast.domain.job import Content, Job
from holdfast.domain.measures import Duration, seconds
from holdfast.domain.states import FINISHED, JobState, Status
from holdfast.errors import HoldfastError, JobCancelled, JobFailed, JobNotFound
from holdfast.store.calls import looking, reading, watching
from holdfast.store.steps import Pause, Steps, ask

_SHORTEST_PAUSE_S: Final = 0.01
_LONGEST_PAUSE_S: Final = 1.0
_GROWTH: Final = 1.5


def result_of(job_id: str, timeout: Duration | None) -> Steps[Content]:
    """Wait until a job has ended and return its result as it is stored.

    Looks every 10 ms at first and more and more rarely up to once a second. Raises JobFailed, JobCancelled,
    JobNotFound, or TimeoutError naming the queue and whether a worker serves it.
    """
    state = yield from wait_for_end(job_id, timeout)
    job = yield from read(job_id)
    if state not in FINISHED:
        raise (yield from _too_late(job, timeout))
    if job.state is JobState.COMPLETED:
        return job.result
    raise failure_of(job)


def wait_for_end(job_id: str, timeout: Duration | None) -> Steps[JobState]:
    """Wait until a job has ended, or so long; return where it stands then."""
    deadline = None if timeout is None else monotonic() + seconds(timeout, "timeout")
    pause_s = _SHORTEST_PAUSE_S
    while True:
        state = yield from state_of(job_id)
        if state in FINISHED:
            return state
        left_s = pause_s if deadline is None else deadline - monotonic()
        if left_s <= 0:
            return state
        yield Pause(min(pause_s, left_s))
        pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)


def state_of(job_id: str) -> Steps[JobState]:
    state = yield from ask(looking.job_state(job_id))
    if state is None:
        raise not_found(job_id)
    return state


def read(job_id: str) -> Steps[Job]:
    job = yield from ask(reading.get_job(job_id))
    if job is None:
        raise not_found(job_id)
    return job


def not_found(job_id: str) -> JobNotFound:
    return JobNotFound(
        f"job {job_id} does not exist: it was deleted, or the transaction that enqueued it has not been "
        "committed (yet)"
    )


def failure_of(job: Job) -> HoldfastError:
    """The exception that tells how a job ended without completing."""
    if job.state is JobState.DEAD:
        last = job.errors[-1] if job.errors else None
        message = job.error_message or (last.message if last else "no error was recorded")
        return JobFailed(
            message, last.traceback if last else None, job.attempts, job_id=job.job_id, task=job.task
        )
    said = f": {job.error_message}" if job.error_message else ""
    return JobCancelled(f"job {job.job_id}{_of_task(job)} was cancelled ({job.state}){said}")


def _too_late(job: Job, timeout: Duration | None) -> Steps[TimeoutError]:
    waited_s = 0.0 if timeout is None else seconds(timeout, "timeout")
    why = yield from _why(job)
    return TimeoutError(f"job {job.job_id}{_of_task(job)} is still {job.state} after {waited_s:g} s. {why}")


def _why(job: Job) -> Steps[str]:
    if job.is_held and job.status is Status.ACTIVE:
        return f'Worker {job.holder_id} runs it, from queue "{job.queue}".'
    standing = "" if job.status in (None, Status.READY) else f" It stands as {job.status}."
    start = f"holdfast worker <module>:<app> --queue {shlex.quote(job.queue)}=10"
    try:
        served = yield from _served(job.queue)
    except HoldfastError as error:  # who may see a job need not see workers; that it is late is the answer
        return (
            f'Whether a worker serves queue "{job.queue}" cannot be seen: {error}.{standing} '
            f"If none does, start one with: {start}"
        )
    if served:
        return f'Queue "{job.queue}" is served: {served}.{standing}'
    return (
        f'No worker seems to serve queue "{job.queue}": none says so or holds a job of it.{standing} '
        f"Start one with: {start}"
    )


def _served(queue: str) -> Steps[str]:
    """Who serves a queue, in words; nothing if nobody does.

    Held jobs tell of workers that have not reported yet, and of those written by hand, which need not.
    """
    holders = yield from ask(looking.queue_holders(queue))
    try:
        servers = yield from ask(looking.queue_servers(queue, watching.LOST_S))
    except HoldfastError:
        if not holders:
            raise
        servers = []
    idle = [worker for worker in servers if worker not in holders]
    said: list[str] = []
    if holders:
        said.append(f"{', '.join(holders)} hold{_s(holders)} jobs of it")
    if idle:
        said.append(f"{', '.join(idle)} take{_s(idle)} jobs from it and hold{_s(idle)} none")
    return "; ".join(said)


def _s(workers: list[str]) -> str:
    return "s" if len(workers) == 1 else ""


def _of_task(job: Job) -> str:
    return f" ({job.task})" if job.task else ""
