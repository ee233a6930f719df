"""Who is at work: the executions of a worker by their jobs, and the wait for their end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.worker.endings import Stop

if TYPE_CHECKING:
    from holdfast.domain.job import ClaimedJob
    from holdfast.worker.accounts import Accounts
    from holdfast.worker.execution import Execution


class Roster:
    """Belongs to the event loop; only `find` may be called elsewhere."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts
        self._running: dict[str, Execution] = {}
        self._former: set[Execution] = set()
        """Those of jobs that were claimed anew before they had ended."""
        self._superseded: set[str] = set()
        """Jobs claimed anew before it was heard here that their old lease is lost."""
        self._idle = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[Execution]:
        return iter(list(self._running.values()))

    def find(self, job_id: str) -> Execution | None:
        """The execution of a job."""
        return self._running.get(job_id)

    def enter(self, executions: Iterable[Execution]) -> None:
        """Executions begin."""
        running = self._running
        for execution in executions:
            job_id = execution.job.job_id
            if job_id in running:
                self._supersede(running[job_id])
            running[job_id] = execution

    def resume(self, job: ClaimedJob) -> bool:
        """Let the execution of a job go on whose lease had lapsed, under the new one. False: begin anew."""
        former = self._running.get(job.job_id)
        if former is None:
            return False
        if former.resume(job):
            self._accounts.resumed(job)
            return True
        self._former.add(former)
        del self._running[job.job_id]
        if former.context.stop is not Stop.LOST:
            self._stop_lost(former)
        return False

    def leave(self, execution: Execution) -> None:
        """An execution has ended."""
        running, job_id = self._running, execution.job.job_id
        if running.get(job_id) is execution:
            del running[job_id]
            if not running:
                self._idle.set()
        else:
            self._former.discard(execution)

    def all(self) -> list[Execution]:
        """All that have not ended, also those whose jobs others have begun here since."""
        return [*self._running.values(), *self._former]

    def cancelled(self, job_id: str) -> None:
        """Somebody wants a job stopped."""
        execution = self._running.get(job_id)
        if execution is not None:
            execution.stop(Stop.CANCELLED)

    def lost(self, job_id: str) -> None:
        """Somebody else has a job now, or has ended it."""
        execution = self._running.get(job_id)
        if job_id in self._superseded:
            self._superseded.discard(job_id)
        elif execution is not None:
            self._stop_lost(execution)

    async def wait_until_idle(self, timeout_s: float | None = None) -> None:
        """Wait until nothing runs, but no longer than this."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._running and not self._closed:
                    self._idle.clear()
                    await self._idle.wait()

    def close(self) -> None:
        """Let nobody wait any more."""
        self._closed = True
        self._idle.set()

    def _supersede(self, former: Execution) -> None:
        self._former.add(former)
        if former.context.stop is not Stop.LOST:
            # Our own lease had lapsed. That it is lost will be said of the job, and must not stop the next.
            self._stop_lost(former)
            self._superseded.add(former.job.job_id)

    def _stop_lost(self, execution: Execution) -> None:
        self._accounts.lost(execution.job)
        execution.stop(Stop.LOST)
