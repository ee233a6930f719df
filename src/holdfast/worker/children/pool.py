"""Hand jobs to children: as many at a time as there may be children, each child one at a time."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import dataclass
from itertools import count

from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.worker.children.process import ChildProcess
from holdfast.worker.children.spawning import OnMessage, Order, Plan, order_for
from holdfast.worker.children.starting import Starter
from holdfast.worker.children.values import ChildReply, ChildRequest, Died, Raised

REAP_WITHIN_S = 1.0
"""How long to wait for what was sent SIGKILL. Only a process stuck in the system itself takes longer."""

CLOSING = "the worker is stopping"


class PoolClosed(HoldfastError):
    """The pool takes no jobs any more."""


@dataclass(eq=False, slots=True)
class _Run:
    """One call of `run`."""

    job_id: str
    why: str | None = None
    child: ChildProcess | None = None
    waiting: asyncio.Future[ChildProcess | Raised | Died] | None = None

    def stop(self, why: str) -> None:
        if self.why is not None:
            return
        self.why = why
        if self.child is not None:
            self.child.stop(why)
        elif self.waiting is not None:
            self.waiting.cancel()


class ChildPool:
    """Children that run handlers of one app. They start when they are needed and stay for the next job.

    `target` is `package.module:attribute`, found by the path and the directory of this process. A child is
    replaced after `max_jobs` jobs, or when it uses more than `max_rss_bytes` after one; the first job after
    that waits for a new one. `on_message` is called with a job's id and a message while the job runs:
    `{"type": "started"}`, when the handler is called; `progress` with `done`, `total`, `message`; `log` with
    `level`, `message`, `fields`, and for lines of stdlib logging `logger` and perhaps `traceback`. It must
    not block. A child has `start_within_s` to import the app, and logs from `log_level` on.

    Use a pool from one event loop and close it there: when the thread of that loop ends, its children are
    killed.
    """

    def __init__(
        self,
        *,
        size: int,
        target: str,
        kill_after_s: float = 2.0,
        max_jobs: int | None = None,
        max_rss_bytes: int | None = None,
        on_message: OnMessage | None = None,
        start_within_s: float = 60.0,
        log_level: int = logging.INFO,
    ) -> None:
        if size < 1:
            raise InvalidArgument(f"size must be at least 1, not {size}")
        self._slots = asyncio.Semaphore(size)
        self._max_jobs = max_jobs
        self._max_rss_bytes = max_rss_bytes
        self._kill_after_s = kill_after_s
        plan = Plan(target, os.getcwd(), kill_after_s, log_level, on_message)
        self._starter = Starter(plan, start_within_s)
        self._idle: list[ChildProcess] = []
        self._runs: set[_Run] = set()
        self._numbers = count(1)
        self._shutting_down = False
        self._closed = False

    @property
    def busy(self) -> int:
        """Children with a job in hand."""
        return sum(run.child is not None for run in self._runs)

    @property
    def idle(self) -> int:
        """Children that wait for a job."""
        return sum(child.is_reusable for child in self._idle)

    async def run(self, request: ChildRequest) -> ChildReply:
        """Run a job in a child and say how it ended; wait for a free child, in order of calling.

        Cancelling this stops the job as `stop_job` does, and is over when the job is; cancelling it once more
        kills the child at once. Raises PoolClosed, and TypeError or ValueError for what JSON cannot say.
        """
        order = order_for(next(self._numbers), request)
        if self._closed:
            raise PoolClosed(f"job {request.job_id}: its worker's children are stopped; hand it back")
        run = _Run(request.job_id)
        self._runs.add(run)
        try:
            return await self._run(run, order)
        finally:
            self._runs.discard(run)

    def stop_job(self, job_id: str, why: str) -> None:
        """Stop a job: SIGTERM now, SIGKILL after `kill_after_s`. Its `run` then says how it ended.

        A job that still waits for a child never runs. Nothing happens if there is no such job.
        """
        for run in list(self._runs):
            if run.job_id == job_id:
                run.stop(why)

    def announce_shutdown(self) -> None:
        """Make `shutting_down()` true in every handler, now and later; jobs go on."""
        self._shutting_down = True
        for child in self._starter.children:
            child.tell_shutdown()

    async def close(self, timeout_s: float) -> None:
        """Stop all jobs and all children; return in time, with no process, thread or descriptor left.

        What has not ended after `kill_after_s`, or `timeout_s` if that is shorter, is killed.
        """
        self._closed = True
        for run in list(self._runs):
            run.stop(CLOSING)
        while self._idle:
            self._idle.pop().retire()
        try:
            await self._until_gone(min(timeout_s, self._kill_after_s))
        finally:
            for child in self._starter.children:
                child.kill()
        await self._until_gone(REAP_WITHIN_S)

    async def _run(self, run: _Run, order: Order) -> ChildReply:
        while True:
            child = await self._child_for(run)
            if not isinstance(child, ChildProcess):
                return child
            was_idle = child.jobs > 0
            reply = await self._run_in(child, run, order)
            # An idle child may die unnoticed; that is no fault of a job that it never began.
            if not (was_idle and isinstance(reply, Died) and not reply.ran and run.why is None):
                return reply

    async def _run_in(self, child: ChildProcess, run: _Run, order: Order) -> ChildReply:
        run.child = child
        if self._shutting_down:
            child.tell_shutdown()
        try:
            return await asyncio.shield(child.begin(order))
        except asyncio.CancelledError:
            await self._see_out(child)
            raise
        finally:
            run.child = None
            self._give_back(child)

    async def _child_for(self, run: _Run) -> ChildProcess | Raised | Died:
        """A child with the slot it takes; or why there is none, and no slot is taken."""
        if self.idle and not self._slots.locked():
            return await self._take_child()  # does not wait
        waiting = run.waiting = asyncio.ensure_future(self._take_child())
        try:
            found = await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self._put_back(waiting.result())
            task = asyncio.current_task()
            if run.why is None or (task is not None and task.cancelling()):
                raise
            return _never_began(run.why)
        finally:
            run.waiting = None
        if run.why is None:
            return found
        self._put_back(found)
        return _never_began(run.why)

    async def _take_child(self) -> ChildProcess | Raised | Died:
        await self._slots.acquire()
        found: ChildProcess | Raised | Died | None = None
        try:
            found = self._pop_idle() or await self._starter.start()
            return found
        finally:
            if not isinstance(found, ChildProcess):
                self._slots.release()

    def _pop_idle(self) -> ChildProcess | None:
        """The child that had a job last: its caches are warm."""
        while self._idle:
            child = self._idle.pop()
            if child.is_reusable:
                return child
        return None

    def _put_back(self, found: ChildProcess | Raised | Died) -> None:
        if isinstance(found, ChildProcess):
            self._give_back(found)

    def _give_back(self, child: ChildProcess) -> None:
        self._slots.release()
        worn = self._max_jobs is not None and child.jobs >= self._max_jobs
        bloated = self._max_rss_bytes is not None and child.rss_bytes > self._max_rss_bytes
        if self._closed or worn or bloated or not child.is_reusable:
            child.retire()
        else:
            self._idle.append(child)

    async def _see_out(self, child: ChildProcess) -> None:
        """Stop the job in hand and wait until it is over; cancelled meanwhile, kill it."""
        child.stop("cancelled")
        for _ in range(2):
            try:
                await asyncio.wait([child.over], timeout=self._kill_after_s + REAP_WITHIN_S)
                return
            except asyncio.CancelledError:
                child.kill()  # the caller raises the first cancellation

    async def _until_gone(self, timeout_s: float) -> None:
        if gone := [child.gone for child in self._starter.children]:
            await asyncio.wait(gone, timeout=timeout_s)


def _never_began(why: str) -> Died:
    return Died("stopped before it began", why, ran=False)
