"""What enqueueing returns: a job that was asked for, and how to hear of it."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Generator
from functools import reduce
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from holdfast.client import waiting
from holdfast.domain.job import Content, Job, Progress
from holdfast.domain.measures import Duration
from holdfast.domain.states import FINISHED, JobState
from holdfast.errors import HoldfastError
from holdfast.store.calls import cancelling
from holdfast.store.steps import Steps, ask
from holdfast.tasks import Task, decode_result

if TYPE_CHECKING:
    from holdfast.client.client import Client

R_co = TypeVar("R_co", covariant=True)


class JobHandle(Generic[R_co]):
    """A job that was asked for. Handles are equal if their ids are; pickled, they find their app again.

    What the task's return annotation says is what `result` returns.
    """

    __slots__ = ("_client", "_origin", "_task", "job_id")

    def __init__(self, job_id: str, client: Client | None, task: Task[..., R_co] | None = None) -> None:
        self.job_id = job_id
        self._client = client
        self._task = task
        self._origin = _origin_of(task)

    def result(self, timeout: Duration | None = None) -> R_co:
        """Wait for the job and return what its task returned.

        Raises JobFailed if the job is dead, JobCancelled if it was cancelled, JobNotFound if it was deleted,
        TimeoutError after `timeout` seconds, naming the queue and whether a worker seems to serve it.
        """
        _refuse_to_block_a_loop()
        return self._decoded(self._bound.run(waiting.result_of(self.job_id, timeout)))

    async def aresult(self, timeout: Duration | None = None) -> R_co:  # noqa: ASYNC109
        """As `result`, for asyncio."""
        return self._decoded(await self._bound.arun(waiting.result_of(self.job_id, timeout)))

    def __await__(self) -> Generator[Any, None, R_co]:
        return self.aresult().__await__()

    def state(self) -> JobState:
        """Where the job stands; raise JobNotFound if it is not there (any more)."""
        return self._bound.run(waiting.state_of(self.job_id))

    async def astate(self) -> JobState:
        """As `state`, for asyncio."""
        return await self._bound.arun(waiting.state_of(self.job_id))

    def progress(self) -> Progress | None:
        """What its handler said last about how far it has come; None if it said nothing, or has ended."""
        return self.info().progress

    async def aprogress(self) -> Progress | None:
        """As `progress`, for asyncio."""
        return (await self.ainfo()).progress

    def info(self) -> Job:
        """All there is to know about the job, as of now."""
        return self._bound.run(waiting.read(self.job_id))

    async def ainfo(self) -> Job:
        """As `info`, for asyncio."""
        return await self._bound.arun(waiting.read(self.job_id))

    def cancel(self, *, reason: str | None = None, wait: Duration | None = None) -> bool:
        """Cancel the job and those that wait for it; False if it had ended already.

        A running one is asked to stop, and has stopped a moment later; with `wait` this waits so long for it,
        and False also says that it did not end as cancelled in that time.
        """
        return self._bound.run(_cancel(self.job_id, reason, wait))

    async def acancel(self, *, reason: str | None = None, wait: Duration | None = None) -> bool:
        """As `cancel`, for asyncio."""
        return await self._bound.arun(_cancel(self.job_id, reason, wait))

    def revive(self) -> None:
        """Bring a dead job back, with all its attempts; raise WrongState if it is not dead."""
        self._bound.run(ask(cancelling.revive_job(self.job_id)))

    async def arevive(self) -> None:
        """As `revive`, for asyncio."""
        await self._bound.arun(ask(cancelling.revive_job(self.job_id)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.job_id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobHandle) and other.job_id == self.job_id

    def __hash__(self) -> int:
        return hash(self.job_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.job_id, self._origin)

    @property
    def _bound(self) -> Client:
        if self._client is None:
            task = _task_at(self._origin)
            if task is None:
                raise HoldfastError(
                    f"this handle of job {self.job_id} came from elsewhere and knows no app; "
                    f"ask one: hf.jobs.get({self.job_id!r})"
                )
            self._task, self._client = task, cast("Client", task.sender)
        return self._client

    def _decoded(self, content: Content) -> R_co:
        if self._task is None:
            return cast("R_co", content)
        return decode_result(self._task, content)


class FoundJob(JobHandle[Any]):
    """A handle of a job that was looked up, with what was found: `job`."""

    __slots__ = ("job",)

    def __init__(self, job: Job, client: Client, task: Task[..., Any] | None) -> None:
        super().__init__(job.job_id, client, task)
        self.job = job

    def __repr__(self) -> str:
        return f"<FoundJob {self.job_id} {self.job.state}>"


def _cancel(job_id: str, reason: str | None, wait: Duration | None) -> Steps[bool]:
    answer = yield from ask(cancelling.cancel_jobs(job_ids=[job_id], reason=reason))
    if job_id not in answer.cancelled:
        yield from waiting.state_of(job_id)  # raises if there is no such job
        return False
    if wait is None:
        return True
    state = yield from waiting.wait_for_end(job_id, wait)
    return state in FINISHED and state is not JobState.COMPLETED


def _origin_of(task: Task[..., Any] | None) -> tuple[str, str] | None:
    """Where the task is defined, as far as another process could import it."""
    module = getattr(task and task.fn, "__module__", None)
    name = getattr(task and task.fn, "__qualname__", "<locals>")
    return None if module is None or "<locals>" in name else (module, name)


def _restore(job_id: str, origin: tuple[str, str] | None) -> JobHandle[Any]:
    handle = JobHandle[Any](job_id, None)
    handle._origin = origin  # pyright: ignore[reportPrivateUsage]
    return handle


def _task_at(origin: tuple[str, str] | None) -> Task[..., Any] | None:
    if origin is None:
        return None
    try:
        found = reduce(getattr, origin[1].split("."), cast("Any", importlib.import_module(origin[0])))
    except (ImportError, AttributeError):
        return None
    return cast("Task[..., Any]", found) if isinstance(found, Task) else None


def _refuse_to_block_a_loop() -> None:
    """A loop that waits for a result runs nothing else, perhaps not even the worker it waits for."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if "ipykernel" not in sys.modules:  # a notebook's cells run on a loop, and may well block
        raise HoldfastError(
            "result() would block the event loop it is called on: write `await handle.aresult()` here"
        )
