"""One job in hand: find its handler, take its resources, run it, and say what came of it."""

from __future__ import annotations

import asyncio
import contextvars
import random
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.domain.job import ClaimedJob
from holdfast.domain.judging import outcome_of as judge_error
from holdfast.domain.outcome import COMPLETED, Outcome, Rescheduled
from holdfast.domain.retry import Retry
from holdfast.errors import InvalidArgument, JobCancelled, LeaseLost, UnknownTask, WrongState
from holdfast.queue.stream import OpenStream
from holdfast.tasks.context import running, set_current_job
from holdfast.tasks.task import Task, encode_result, unstorable
from holdfast.worker import endings
from holdfast.worker.context import RunContext
from holdfast.worker.endings import RETURNED_NOTHING, Ended, Raised, Returned, Stop, UnstorableResult

if TYPE_CHECKING:
    from holdfast.worker.crew import Crew

RESOURCE_BUSY: Final = "resource_busy"
DEFAULT_RETRY: Final = Retry()
_ENDED: Final = (Returned, Raised, endings.Died)

T = TypeVar("T")


class Execution:
    """The life of one job in this worker. Belongs to the event loop."""

    # What most never change stands with the class, and costs them nothing.
    task: Task[..., Any] | None = None
    runs_in: asyncio.Task[Any] | None = None
    ran_s: float | None = None
    outcome: Outcome | None = None
    """What is to be written down, when that is known."""
    abandoned = False
    """Whether its worker has stopped waiting for it: what it still says does not count."""
    _stopper: Callable[[], object] | None = None
    _timer: asyncio.TimerHandle | None = None
    _until = inf

    def __init__(self, crew: Crew, stream: OpenStream, job: ClaimedJob) -> None:
        self._crew = crew
        self.stream = stream
        self.job = job
        self.context = RunContext(job, crew.is_stopping, crew.tell_progress)
        self.timeout_s: float | None = job.timeout_s

    async def run(self) -> None:
        """Run it to its end, and tell the crew. Raises nothing."""
        began = monotonic()
        self.runs_in = asyncio.current_task(
            self._crew.loop
        )  # to find the loop would take twice as long again
        try:
            ended: Ended | Outcome = await self._run()
        except BaseException as error:
            # Not the handler's: something on the way to it. It follows the failure path all the same.
            ended = Raised(error, _trace(error))
        self.runs_in = None
        if self._timer is not None:
            self._timer.cancel()
        if ended is RETURNED_NOTHING and self.context.stop is None:
            self.outcome = COMPLETED  # what most come to: no need to ask
        elif isinstance(ended, _ENDED):
            self.outcome = endings.outcome_of(ended, self.context.stop, self.timeout_s, self._judge)
        else:
            self.outcome = ended
        self.ran_s = monotonic() - began
        if self.context.has_spoken:
            await self._crew.finish_progress(self.context)
        self._crew.ended(self)

    def give_up(self) -> Outcome | None:
        """Wait for it no more; what is to be written down, None if nothing."""
        self.abandoned = True
        return self.outcome or endings.given_up(self.context.stop, self.timeout_s, self._judge)

    def resume(self, job: ClaimedJob) -> bool:
        """Go on under a new lease of the job. False: it is being stopped, or has lost its resources."""
        if self.context.stop is not None or (job.resource_keys and not job.holds_resources):
            return False
        self.job = self.context.job = job
        return True

    def stop(self, why: Stop) -> None:
        """Ask the handler to stop. The first reason stays, except that a lost job is lost."""
        if self.context.stop is not None and why is not Stop.LOST:
            return
        first = self.context.stop is None
        self.context.stop = why
        if first and self._stopper is not None:
            self._stopper()

    async def _run(self) -> Ended | Outcome:
        job = self.job
        self.task = task = self._crew.registry.get(job.task)
        if task is None:
            raise UnknownTask(self._unknown())
        definition = task.definition
        if job.timeout_s is None:
            self.timeout_s = definition.timeout_s
        if job.resource_keys and not job.holds_resources and (busy := await self._take_resources()):
            return busy
        if self.context.stop is not None:
            return Raised(JobCancelled("stopped before it began"), "")
        if definition.run_in == "process":
            return await self._crew.run_in_child(self, task)
        args, kwargs = definition.shape.decode(job.payload)
        if definition.wants_context:
            args = [self.context, *args]
        if self.timeout_s is not None:
            self.start_timer()
        if definition.run_in == "thread":
            return await self._in_thread(task, args, kwargs)
        me = self.runs_in
        self._stopper = me.cancel if me is not None else None
        set_current_job(self.context)  # for this execution's own context: nothing runs in it after
        try:
            value = definition.fn(*args, **kwargs)
            if definition.is_async:
                value = await value
        except BaseException as error:
            return Raised(error, _trace(error))
        finally:
            self._stopper = None
            if me is not None and self.context.stop is not None:
                me.uncancel()
            if self._timer is not None and self.context.stop is None and monotonic() > self._until:
                self.context.stop = Stop.TIMED_OUT  # it has kept the loop from telling it
        return _returned(task, value)

    async def _take_resources(self) -> Outcome | None:
        """All of them or none; if some are busy, the job goes back for a while, at no cost."""
        job = self.job
        try:
            busy = await self._crew.store.acquire_resources(
                job.job_id, job.resource_keys, lease_id=job.lease_id
            )
        except LeaseLost:
            self.stop(Stop.LOST)
            return None
        except WrongState:
            self.stop(Stop.CANCELLED)  # CANCELLING is the only other state in which the lease is still ours
            return None
        if not busy:
            return None
        return Rescheduled(self._crew.settings.resource_busy_delay, RESOURCE_BUSY)

    async def _in_thread(self, task: Task[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Ended:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[Ended] = loop.create_future()

        def work() -> None:
            ended = contextvars.Context().run(self._call, task, args, kwargs)
            with suppress(RuntimeError):  # the loop is closed: the worker gave this handler up long ago
                loop.call_soon_threadsafe(settle, done, ended)

        self._crew.threads.run(work)
        return await done

    def _call(self, task: Task[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Ended:
        try:
            with running(self.context):
                value = task.fn(*args, **kwargs)
                if task.is_async:
                    value = asyncio.run(_awaited(value))
        except BaseException as error:
            return Raised(error, _trace(error))
        return _returned(task, value)

    def stop_by(self, stopper: Callable[[], object] | None) -> None:
        """What ends the handler where it runs."""
        self._stopper = stopper
        if stopper is not None and self.context.stop is not None:
            stopper()

    def start_timer(self) -> None:
        """The time a handler has counts from its start: not from the claim, nor from that of a process."""
        if self.timeout_s is not None and self._timer is None:
            self.context.deadline = datetime.now(UTC) + timedelta(seconds=self.timeout_s)
            self._until = monotonic() + self.timeout_s
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.timeout_s, self.stop, Stop.TIMED_OUT)

    @property
    def retry(self) -> Retry:
        """The policy that counts for it."""
        return _policy(DEFAULT_RETRY if self.task is None else self.task.retry, self.job)

    def _judge(self, error: BaseException, trace: str | None) -> Outcome:
        return judge_error(error, self.retry, self.job.attempts, random.random, traceback=trace or None)

    def _unknown(self) -> str:
        known = ", ".join(self._crew.registry.names()) or "none"
        if not self.job.task:
            return (
                f"job {self.job.job_id} names no task, so this worker has nothing to run for it "
                f"(it knows: {known}). Submit it with a task, in SQL p_task, or take it by hand, with a Queue"
            )
        return (
            f'job {self.job.job_id} asks for task "{self.job.task}", which this worker has not registered '
            f"(it knows: {known}). Import the module that defines it before the worker starts"
        )


def _policy(usual: Retry, job: ClaimedJob) -> Retry:
    try:
        return usual.overruled_by(job.retry, job.max_attempts)
    except InvalidArgument:
        return usual  # plain SQL may have stored anything; the task's own policy is the next best


def _returned(task: Task[..., Any], value: object) -> Ended:
    if value is None:
        return RETURNED_NOTHING
    try:
        return Returned(encode_result(task, value))
    except BaseException as error:  # it may be of a class that fights back
        return Raised(UnstorableResult(unstorable(value, error)), "")


def _trace(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception(error))
    except BaseException:
        return "".join(traceback.format_tb(error.__traceback__))


def settle(done: asyncio.Future[T], value: T) -> None:
    """Give a future its value, if anybody still waits for it."""
    if not done.done():
        done.set_result(value)


async def _awaited(value: Coroutine[Any, Any, Any]) -> Any:
    return await value
