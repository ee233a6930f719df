"""Looking after jobs: find, list, cancel, revive, delete."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Any

from holdfast.client.client import Client
from holdfast.client.handle import FoundJob
from holdfast.client.waiting import read
from holdfast.domain.job import Job
from holdfast.domain.states import JobState
from holdfast.store import CancelledJobs
from holdfast.store.calls import cancelling, looking, reading
from holdfast.store.calls.looking import Filter
from holdfast.store.steps import Steps, ask
from holdfast.tasks import Task

DEFAULT_LIMIT = 100


class Jobs:
    """`hf.jobs`: each method also for asyncio, with an `a` before its name."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, job_id: str) -> FoundJob:
        """The job with this id: a handle, and in `job` all there is to know; raise JobNotFound."""
        return self._found(self._client.run(read(job_id)))

    async def aget(self, job_id: str) -> FoundJob:
        """As `get`, for asyncio."""
        return self._found(await self._client.arun(read(job_id)))

    def list(
        self,
        *,
        state: JobState | str | None = None,
        queue: str | None = None,
        task: Task[..., Any] | str | None = None,
        tags: Iterable[str] = (),
        limit: int = DEFAULT_LIMIT,
    ) -> builtins.list[FoundJob]:
        """Jobs to which all of this applies, live and archived: the latest first, dead ones by their end."""
        return self._all(self._client.run(_list(state, queue, task, tags, limit)))

    async def alist(
        self,
        *,
        state: JobState | str | None = None,
        queue: str | None = None,
        task: Task[..., Any] | str | None = None,
        tags: Iterable[str] = (),
        limit: int = DEFAULT_LIMIT,
    ) -> builtins.list[FoundJob]:
        """As `list`, for asyncio."""
        return self._all(await self._client.arun(_list(state, queue, task, tags, limit)))

    def cancel(self, *job_ids: str, tags: Iterable[str] = (), reason: str | None = None) -> CancelledJobs:
        """Cancel jobs by id or tags, and those that wait for them; unknown and ended ids come back apart."""
        return self._client.run(ask(cancelling.cancel_jobs(job_ids=job_ids, tags=tags, reason=reason)))

    async def acancel(
        self, *job_ids: str, tags: Iterable[str] = (), reason: str | None = None
    ) -> CancelledJobs:
        """As `cancel`, for asyncio."""
        return await self._client.arun(ask(cancelling.cancel_jobs(job_ids=job_ids, tags=tags, reason=reason)))

    def revive(self, *job_ids: str) -> int:
        """Bring dead jobs back, all or none; raise WrongState if one is not dead, JobNotFound."""
        return self._client.run(ask(looking.revive_jobs(job_ids)))

    async def arevive(self, *job_ids: str) -> int:
        """As `revive`, for asyncio."""
        return await self._client.arun(ask(looking.revive_jobs(job_ids)))

    def delete(self, *job_ids: str, tags: Iterable[str] = ()) -> int:
        """Delete jobs that have ended, all or none, and say how many; unknown ids are ignored.

        Raises WrongState if one has not ended, or if a live job waits for one.
        """
        return self._client.run(ask(cancelling.delete_jobs(job_ids=job_ids, tags=tags)))

    async def adelete(self, *job_ids: str, tags: Iterable[str] = ()) -> int:
        """As `delete`, for asyncio."""
        return await self._client.arun(ask(cancelling.delete_jobs(job_ids=job_ids, tags=tags)))

    def _all(self, jobs: builtins.list[Job]) -> builtins.list[FoundJob]:
        return [self._found(job) for job in jobs]

    def _found(self, job: Job) -> FoundJob:
        return FoundJob(job, self._client, self._client.registry.get(job.task))


def _list(
    state: JobState | str | None,
    queue: str | None,
    task: Task[..., Any] | str | None,
    tags: Iterable[str],
    limit: int,
) -> Steps[builtins.list[Job]]:
    tagged = list(tags) if not isinstance(tags, str) else tags
    name = task.name if isinstance(task, Task) else task
    if state == JobState.DEAD and name is None and not tagged:
        return (yield from ask(reading.list_dead_jobs(queue, limit)))  # which has an index for it
    return (yield from ask(looking.list_jobs(Filter(state, queue, name, tagged), limit)))
