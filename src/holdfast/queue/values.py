"""What travels through the queue API: a job as its users see it, and the counts of jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Final, TypeAlias

from holdfast.domain import job as domain
from holdfast.domain.job import ClaimedJob, Content, IfParentFails, NewJob
from holdfast.domain.outcome import Verdict
from holdfast.domain.states import HELD, JobState
from holdfast.errors import InvalidArgument
from holdfast.queue import checks
from holdfast.store import values as answers
from holdfast.store.arguments import Duration

__all__ = [
    "Content",
    "Duration",
    "Job",
    "JobStats",
    "JobStatus",
    "Verdict",
    "job_from_claim",
    "job_from_domain",
    "new_job",
    "stats_for",
]

JobStatus: TypeAlias = JobState
"""Where a job stands."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job, as it is enqueued and as it is read back. `status` is where it stands.

    To enqueue, give an id and what the job needs; `available_at` is `created_at` unless given, and that is
    now. The fields from `started_at` on are the queue's answer: an enqueue refuses them. `assignee_id` and
    `assigned_at` are kept for ever; whether somebody holds the job now is told by `worker_id`, `lease_id` and
    `lease_expires_at`, which are None otherwise.
    """

    id: str
    job_type: str = ""
    job_definition: Content = None
    tags: Sequence[str] = ()
    status: JobStatus = field(default=JobStatus.INITIAL_PENDING, kw_only=True)
    queue: str = field(default="default", kw_only=True)
    priority: int = field(default=0, kw_only=True)
    available_at: datetime | None = field(default=None, kw_only=True)
    created_at: datetime | None = field(default=None, kw_only=True)
    expires_at: datetime | None = field(default=None, kw_only=True)
    max_attempts: int | None = field(default=None, kw_only=True)
    resource_keys: Sequence[str] = field(default=(), kw_only=True)
    singleton_key: str | None = field(default=None, kw_only=True)
    wait_for: Sequence[str] = field(default=(), kw_only=True)
    if_parent_fails: IfParentFails | None = field(default=None, kw_only=True)
    started_at: datetime | None = field(default=None, kw_only=True)
    finalized_at: datetime | None = field(default=None, kw_only=True)
    error_message: str | None = field(default=None, kw_only=True)
    result: Content = field(default=None, kw_only=True)
    retry_count: int = field(default=0, kw_only=True)
    last_retry_at: datetime | None = field(default=None, kw_only=True)
    assignee_id: str | None = field(default=None, kw_only=True)
    assigned_at: datetime | None = field(default=None, kw_only=True)
    worker_id: str | None = field(default=None, kw_only=True)
    lease_id: str | None = field(default=None, kw_only=True)
    lease_expires_at: datetime | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class JobStats:
    """Counts of the jobs that have all these tags. The five between total and retries add up to the total."""

    tags: tuple[str, ...]
    total_jobs: int
    pending_jobs: int
    running_jobs: int
    completed_jobs: int
    stopped_jobs: int
    failed_jobs: int
    total_retries: int


_NAMES: Final = tuple(each.name for each in fields(Job))
_ANSWERS: Final = {each.name: each.default for each in fields(Job)[_NAMES.index("started_at") :]}
"""What only the queue can say, each with its value before it has said anything."""
_answers_in: Final[Callable[[Job], tuple[Any, ...]]] = attrgetter(*_ANSWERS)
_UNSAID: Final = tuple(_ANSWERS.values())


def new_job(job: Job, where: str = "job") -> NewJob:
    """The job as the engine is asked for it; raise InvalidArgument for what no new job can have."""
    if not isinstance(job, Job):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{where} must be a holdfast.Job, not {type(job).__name__}")
    if job.status != JobStatus.INITIAL_PENDING:
        raise InvalidArgument(
            f"{where}.status is {job.status}: a new job is INITIAL_PENDING; leave the status out"
        )
    if _answers_in(job) != _UNSAID:
        _refuse_answers(job, where)
    return NewJob(
        job_id=checks.text(job.id, f"{where}.id"),
        queue=job.queue,
        task=_task(job.job_type, f"{where}.job_type"),
        payload=job.job_definition,
        priority=job.priority,
        tags=_texts(job.tags, where, "tags"),
        available_at=job.available_at,
        expires_at=job.expires_at,
        created_at=job.created_at,
        max_attempts=job.max_attempts,
        resource_keys=_texts(job.resource_keys, where, "resource_keys"),
        singleton_key=job.singleton_key,
        wait_for=_texts(job.wait_for, where, "wait_for"),
        if_parent_fails=job.if_parent_fails,
    )


def job_from_domain(job: domain.Job) -> Job:
    """The job as its users see it."""
    held = job.state in HELD
    return Job(
        job.job_id,
        job.task or "",
        job.payload,
        job.tags,
        status=job.state,
        queue=job.queue,
        priority=job.priority,
        available_at=job.available_at,
        created_at=job.created_at,
        expires_at=job.expires_at,
        max_attempts=job.max_attempts,
        resource_keys=job.resource_keys,
        singleton_key=job.singleton_key,
        wait_for=job.wait_for,
        if_parent_fails=job.if_parent_fails,
        started_at=job.started_at,
        finalized_at=job.finalized_at,
        error_message=job.error_message,
        result=job.result,
        retry_count=job.attempts,
        last_retry_at=job.last_retry_at,
        assignee_id=job.assignee_id,
        assigned_at=job.assigned_at,
        worker_id=job.assignee_id if held else None,
        lease_id=job.lease_id if held else None,
        lease_expires_at=job.lease_expires_at if held else None,
    )


def stats_for(tags: Iterable[str], counts: answers.JobStats) -> JobStats:
    """The counts, with the tags they were asked for."""
    return JobStats(
        tuple(tags),
        counts.total_jobs,
        counts.pending_jobs,
        counts.running_jobs,
        counts.completed_jobs,
        counts.stopped_jobs,
        counts.failed_jobs,
        counts.total_retries,
    )


def _refuse_answers(job: Job, where: str) -> None:
    for name, default in _ANSWERS.items():
        if getattr(job, name) != default:
            raise InvalidArgument(f"{where}.{name} is for the queue to say; leave it out of a new job")


def _texts(values: Sequence[str], where: str, name: str) -> Sequence[str]:
    return () if values == () else checks.distinct(values, f"{where}.{name}")


def _task(job_type: str, where: str) -> str | None:
    if job_type == "":
        return None
    return checks.text(job_type, where)


# A frozen class sets its fields by name, one after the other: 8 µs for this one, and one is made for every
# job that is streamed. Its slots set directly take 2 µs.
_new: Final[Callable[[type[Job]], Job]] = object.__new__
_setters: Final[list[Callable[[Job, Any], None]]] = [vars(Job)[name].__set__ for name in _NAMES]
(
    _set_id,
    _set_job_type,
    _set_job_definition,
    _set_tags,
    _set_status,
    _set_queue,
    _set_priority,
    _set_available_at,
    _set_created_at,
    _set_expires_at,
    _set_max_attempts,
    _set_resource_keys,
    _set_singleton_key,
    _set_wait_for,
    _set_if_parent_fails,
    _set_started_at,
    _set_finalized_at,
    _set_error_message,
    _set_result,
    _set_retry_count,
    _set_last_retry_at,
    _set_assignee_id,
    _set_assigned_at,
    _set_worker_id,
    _set_lease_id,
    _set_lease_expires_at,
) = _setters
_RUNNING: Final = JobStatus.RUNNING


def job_from_claim(claimed: ClaimedJob, assignee_id: str, lease_s: float) -> Job:
    """The job as whoever just claimed it for so long gets it: RUNNING, waiting for nothing, held."""
    job = _new(Job)
    lease_expires_at = claimed.lease_expires_at
    _set_id(job, claimed.job_id)
    _set_job_type(job, claimed.task or "")
    _set_job_definition(job, claimed.payload)
    _set_tags(job, claimed.tags)
    _set_status(job, _RUNNING)
    _set_queue(job, claimed.queue)
    _set_priority(job, claimed.priority)
    _set_available_at(job, claimed.available_at)
    _set_created_at(job, claimed.created_at)
    _set_expires_at(job, claimed.expires_at)
    _set_max_attempts(job, claimed.max_attempts)
    _set_resource_keys(job, claimed.resource_keys)
    _set_singleton_key(job, claimed.singleton_key)
    _set_wait_for(job, ())
    _set_if_parent_fails(job, claimed.if_parent_fails)
    _set_started_at(job, claimed.started_at)
    _set_finalized_at(job, None)
    _set_error_message(job, claimed.error_message)
    _set_result(job, None)
    _set_retry_count(job, claimed.attempts)
    _set_last_retry_at(job, claimed.last_retry_at)
    _set_assignee_id(job, assignee_id)
    _set_assigned_at(job, lease_expires_at - timedelta(seconds=lease_s))
    _set_worker_id(job, assignee_id)
    _set_lease_id(job, claimed.lease_id)
    _set_lease_expires_at(job, lease_expires_at)
    return job
