"""Every verb that is not about the end of a job, as steps: what it asks, and what it makes of the answer."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from holdfast.domain import job as domain
from holdfast.errors import InvalidArgument, JobNotFound, LeaseLost, ResourceBusy
from holdfast.queue import checks
from holdfast.queue.checks import WorkerId
from holdfast.queue.settling import Holdings
from holdfast.queue.values import Job, JobStats, job_from_claim, job_from_domain, new_job, stats_for
from holdfast.store import CancelledJobs, arguments
from holdfast.store.arguments import Duration
from holdfast.store.calls import cancelling, claiming, leasing, operating, reading, submitting, together
from holdfast.store.steps import Steps, ask

DEFAULT_QUEUES: Final = ("default",)


def enqueue_job(job: Job) -> Steps[str]:
    (job_id,) = yield from ask(together.submit_one(new_job(job)))
    return job_id


def enqueue_jobs(jobs: Iterable[Job]) -> Steps[list[str]]:
    if isinstance(jobs, Job) or not isinstance(jobs, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"jobs must be a list of holdfast.Job, not {type(jobs).__name__}")
    new = [new_job(job, f"jobs[{place}]") for place, job in enumerate(jobs)]
    if not new:
        return []
    return (yield from ask(submitting.submit_jobs(new)))


def claim_jobs(
    worker_id: WorkerId, queues: Iterable[str], tags: Iterable[str], limit: int, lease: Duration
) -> Steps[list[Job]]:
    name, lease_s = checks.worker(worker_id), arguments.seconds(lease, "lease", positive=True)
    call = claiming.claim_jobs(
        name,
        checks.distinct(queues, "queues"),
        limit,
        lease_s=lease_s,
        tags=checks.distinct(tags, "tags"),
    )
    claimed = yield from ask(call)
    return [job_from_claim(job, name, lease_s) for job in claimed]


def acquire_next(queue: str, worker_id: WorkerId, lock_duration: Duration) -> Steps[Job | None]:
    lock_s = arguments.seconds(lock_duration, "lock_duration", positive=True)
    jobs = yield from claim_jobs(worker_id, [arguments.queue(queue, "queue")], (), 1, lock_s)
    return jobs[0] if jobs else None


def cancel_jobs(
    holdings: Holdings, tags: Iterable[str] | None, job_ids: Iterable[str] | None
) -> Steps[CancelledJobs]:
    call = cancelling.cancel_jobs(
        tags=checks.distinct(tags, "tags"), job_ids=checks.distinct(job_ids, "job_ids")
    )
    answer = yield from ask(call)
    if answer.cancelled:
        holdings.cancelling(answer.cancelled)
    return answer


def delete_jobs(tags: Iterable[str] | None, job_ids: Iterable[str] | None) -> Steps[int]:
    call = cancelling.delete_jobs(
        tags=checks.distinct(tags, "tags"), job_ids=checks.distinct(job_ids, "job_ids")
    )
    return (yield from ask(call))


def cleanup_expired_jobs(ttl: Duration) -> Steps[int]:
    return (yield from ask(cancelling.cleanup_expired_jobs(arguments.seconds(ttl, "ttl", positive=True))))


def revive_job(job_id: str) -> Steps[None]:
    yield from ask(cancelling.revive_job(job_id))


def mark_worker_unresponsive(holdings: Holdings, assignee_id: WorkerId) -> Steps[int]:
    found = yield from ask(leasing.mark_worker_unresponsive(checks.worker(assignee_id, "assignee_id")))
    holdings.unclear()  # some may have been its own streams', and there may be no signals
    return found


def reset_running_jobs(holdings: Holdings) -> Steps[int]:
    found = yield from ask(leasing.reset_running_jobs())
    holdings.unclear()
    return found


def get_job(job_id: str) -> Steps[Job]:
    return job_from_domain((yield from _read(job_id)))


def get_job_stats(tags: Iterable[str] | None) -> Steps[JobStats]:
    asked = checks.distinct(tags, "tags")
    return stats_for(asked, (yield from ask(reading.get_job_stats(asked))))


def list_stuck_jobs(stale: Duration, limit: int) -> Steps[list[Job]]:
    stale_s = arguments.seconds(stale, "stale", positive=True)
    return [job_from_domain(job) for job in (yield from ask(reading.list_stuck_jobs(stale_s, limit)))]


def list_dead_jobs(queue: str | None, limit: int) -> Steps[list[Job]]:
    if queue is not None:
        arguments.queue(queue, "queue")
    return [job_from_domain(job) for job in (yield from ask(reading.list_dead_jobs(queue, limit)))]


def heartbeat_job(job_id: str, worker_id: WorkerId, extend: Duration) -> Steps[datetime]:
    name = checks.worker(worker_id)
    extend_s = arguments.seconds(extend, "extend", positive=True)
    job = yield from _read(job_id)
    if job.assignee_id != name or job.lease_id is None:
        raise LeaseLost(f'extend: worker "{name}" does not hold job "{job_id}" (any more); {_holder(job)}')
    return (yield from ask(leasing.extend_lease(job_id, job.lease_id, name, extend_s)))


def extend_lease(job_id: str, lease_id: str, extend: Duration) -> Steps[datetime]:
    arguments.text(lease_id, "lease_id")
    extend_s = arguments.seconds(extend, "extend", positive=True)
    job = yield from _read(job_id)
    if job.assignee_id is None or job.lease_id != lease_id:
        raise LeaseLost(
            f'extend: lease "{lease_id}" is not that of job "{job_id}" (any more); {_holder(job)}'
        )
    return (yield from ask(leasing.extend_lease(job_id, lease_id, job.assignee_id, extend_s)))


def acquire_resource(key: str, job_id: str, worker_id: WorkerId) -> Steps[None]:
    call = operating.acquire_resources(
        job_id, [arguments.text(key, "key")], worker_id=checks.worker(worker_id)
    )
    if (yield from ask(call)):
        raise ResourceBusy(
            f'resource "{key}" is busy: as many other jobs hold it as may; '
            f'reschedule job "{job_id}" and try again later'
        )


def release_resource(key: str, job_id: str) -> Steps[bool]:
    call = operating.release_resources(job_id, [arguments.text(key, "key")])
    if (yield from ask(call)):
        return True
    yield from _read(job_id)
    return False


def set_resource_capacity(key: str, capacity: int) -> Steps[None]:
    yield from ask(operating.set_resource_capacity(key, capacity))


def _read(job_id: str) -> Steps[domain.Job]:
    job = yield from ask(reading.get_job(job_id))
    if job is None:
        raise JobNotFound(f'job "{job_id}" does not exist')
    return job


def _holder(job: domain.Job) -> str:
    return f"it is {job.state}" + (f', held by "{job.assignee_id}"' if job.is_held else ", held by nobody")
