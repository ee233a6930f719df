"""One hand on both queues: scenarios are written once, blocking, and run on either face."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from holdfast import Job, JobStatus, Queue, SyncQueue

DISTANT = datetime(2100, 1, 1, tzinfo=UTC)


class OnLoop:
    """A `Queue` that is used like a `SyncQueue`: each call is run on its loop until it has answered."""

    def __init__(self, queue: Queue, runner: asyncio.Runner) -> None:
        self.queue = queue
        self.runner = runner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        verb = getattr(self.queue, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await verb(*args, **kwargs)

        return lambda *args, **kwargs: self.runner.run(call(*args, **kwargs))


def on_loop(queue: Queue, runner: asyncio.Runner) -> SyncQueue:
    """The same, as what the type checker takes it for."""
    return cast("SyncQueue", OnLoop(queue, runner))


def enqueue(queue: SyncQueue, job_id: str, **more: Any) -> str:
    """A job in a line of its own, so that claiming it takes no other."""
    return queue.enqueue_job(Job(job_id, **{"queue": job_id, **more}))


def claim(queue: SyncQueue, job_id: str, worker_id: str = "w", lease: float = 30) -> Job:
    (job,) = queue.claim_jobs(worker_id, queues=[job_id], lease=lease)
    assert job.id == job_id
    return job


def hold(queue: SyncQueue, job_id: str = "job", worker_id: str = "w", **more: Any) -> Job:
    """A job that a worker has just claimed."""
    enqueue(queue, job_id, **more)
    return claim(queue, job_id, worker_id)


def cancelling(queue: SyncQueue, job_id: str = "job", **more: Any) -> Job:
    """A job whose worker is asked to stop it."""
    job = hold(queue, job_id, **more)
    queue.cancel_jobs(job_ids=[job_id])
    return job


def bring(queue: SyncQueue, state: JobStatus, job_id: str | None = None, **more: Any) -> str:
    """A job that went to this state by the verbs of the queue, named after it unless told otherwise."""
    job_id = job_id or state.value
    match state:
        case JobStatus.INITIAL_PENDING:
            enqueue(queue, job_id, **more)
        case JobStatus.UNSCHEDULED:
            enqueue(queue, job_id, **more)
            queue.cancel_jobs(job_ids=[job_id])
        case JobStatus.CANCELLING:
            cancelling(queue, job_id, **more)
        case _:
            hold(queue, job_id, **more)
            if state is not JobStatus.RUNNING:
                _LEAVE[state](queue, job_id)
    assert queue.get_job(job_id).status is state
    return job_id


_LEAVE: dict[JobStatus, Callable[[SyncQueue, str], object]] = {
    JobStatus.RESCHEDULED: lambda queue, job_id: queue.retry_later(job_id, datetime.now(UTC)),
    JobStatus.FAILED_RETRY: lambda queue, job_id: queue.fail_job(job_id, "boom"),
    JobStatus.UNKNOWN_RETRY: lambda queue, job_id: queue.release(job_id),
    JobStatus.COMPLETED: lambda queue, job_id: queue.complete_job(job_id),
    JobStatus.STOPPED: lambda queue, job_id: queue.stop_job(job_id),
    JobStatus.UNKNOWN_STOPPED: lambda queue, job_id: queue.mark_job_unknown_stopped(job_id),
    JobStatus.DEAD: lambda queue, job_id: queue.fail_job(job_id, "boom", permanent=True),
}


def bring_all(queue: SyncQueue, **more: Any) -> list[str]:
    """One job in each state, named after it."""
    return [bring(queue, state, **more) for state in JobStatus]


def status(queue: SyncQueue, job_id: str) -> JobStatus:
    return queue.get_job(job_id).status


def soon(seconds: float = 60) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)
