"""The worker at work: takes jobs from its streams, runs them, reports outcomes. How it ends is in `stopping`.

Everything here happens on one event loop. Claims, settles and leases are the business of the streams' own
threads, so a handler that blocks the loop keeps nobody from knowing that the worker is alive.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from holdfast.domain.job import ClaimedJob
from holdfast.domain.outcome import Outcome, Reason, Verdict
from holdfast.domain.states import JobState
from holdfast.errors import QueueClosed
from holdfast.queue.beats import Beat
from holdfast.queue.loop_feeder import LoopFeeder
from holdfast.queue.stream import Ended as StreamOver
from holdfast.queue.stream import OpenStream
from holdfast.queue.streams import Streams
from holdfast.queue.terms import stream_terms
from holdfast.store import Settlement, Store
from holdfast.tasks.registry import Registry
from holdfast.tasks.task import Task
from holdfast.worker import endings
from holdfast.worker.accounts import Accounts
from holdfast.worker.context import RunContext
from holdfast.worker.execution import Execution, settle
from holdfast.worker.progress import ProgressWriter
from holdfast.worker.roster import Roster
from holdfast.worker.settings import Settings
from holdfast.worker.threads import Threads
from holdfast.worker.turns import in_turn

if TYPE_CHECKING:
    from holdfast.telemetry import Metrics
    from holdfast.worker.child_lane import ChildLane

logger: Final = logging.getLogger("holdfast.worker")

MARGIN_S: Final = 0.3
"""What it may take to let go of connections after the time for their last calls is over."""

LAST_TASKS_S: Final = 0.2
"""How long a worker that stops waits for handlers it has given up, so that their tasks are gone."""


Ended = tuple[Execution, Outcome | None]


class Crew:
    """What a running worker consists of. Made and used on one event loop."""

    def __init__(
        self,
        *,
        dsn: str,
        schema: str,
        worker_id: str,
        queues: Mapping[str, int],
        tags: tuple[str, ...],
        registry: Registry,
        metrics: Metrics,
        settings: Settings,
        app: object,
    ) -> None:
        self.registry = registry
        self.settings = settings
        self.worker_id = worker_id
        self.store = Store(dsn, schema=schema, max_size=4)
        self.threads = Threads()
        self.loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._app = app
        self._metrics = metrics
        self._accounts = Accounts(metrics, worker_id, settings.lease)
        self._progress = ProgressWriter(self.store)
        self._children: ChildLane | None = None
        self._size = sum(queues.values())
        self._streams = Streams(
            dsn,
            schema,
            poll_s=settings.poll_idle,
            active_s=settings.poll_active,
            feeder=LoopFeeder,
            beat=Beat(worker_id, queues),
        )
        self._arrived = asyncio.Event()
        self._failed = asyncio.Event()
        self._failure: BaseException | None = None
        self.roster = Roster(self._accounts)
        # Whoever makes tasks in a way of his own gets one for each job.
        self._shares_tasks = self.loop.get_task_factory() is None
        self._new_task = _task_maker(self.loop)
        self._ended: list[Ended] = []
        """What has ended and is not reported yet."""
        self._stopping = False
        self._closed = False
        self._open = [self._open_stream(queue, size, tags) for queue, size in queues.items()]
        self._dispatcher = asyncio.create_task(self._dispatch(), name="holdfast dispatcher")

    def is_stopping(self) -> bool:
        """Whether nothing more is claimed."""
        return self._stopping

    # Getting jobs

    def _open_stream(self, queue: str, size: int, tags: tuple[str, ...]) -> OpenStream:
        terms = stream_terms(self.worker_id, tags, size, [queue], self.settings.lease, for_worker=True)
        stream = self._streams.open(
            terms,
            self._wake,
            self._on_loop,
            self._refused,
            self._metrics.observe,
        )
        stream.on_cancel(self.roster.cancelled)
        stream.on_lost(self.roster.lost)
        return stream

    def _wake(self) -> None:
        """Something has arrived: mostly on the loop's own thread, which need not be woken."""
        if threading.get_ident() == self._loop_thread:
            self._arrived.set()
        else:
            self._on_loop(self._arrived.set)

    async def _dispatch(self) -> None:
        while self._failure is None:
            self._arrived.clear()
            for stream in self._open:
                self._begin_what_waits(stream)
            await self._arrived.wait()

    def _begin_what_waits(self, stream: OpenStream) -> None:
        try:
            batch = stream.take()
        except StreamOver:
            return
        except Exception as error:  # what the database refuses for good
            self._failure = error
            self._failed.set()
            self._arrived.set()
            return
        if batch:
            self._start(stream, batch)

    def _start(self, stream: OpenStream, jobs: list[ClaimedJob]) -> None:
        if stream.resumed:
            resumed = stream.take_resumed()
            jobs = [job for job in jobs if not (job.job_id in resumed and self.roster.resume(job))]
        executions = [Execution(self, stream, job) for job in jobs]
        self.roster.enter(executions)
        works = map(Execution.run, executions)
        if self._shares_tasks:
            self._new_task(in_turn(works, self._new_task))
        else:
            for work in works:
                self._new_task(work)

    async def run_in_child(self, execution: Execution, task: Task[..., Any]) -> endings.Ended:
        """Run a handler in a process of its own."""
        if self._children is None:
            from holdfast.worker.child_lane import ChildLane, target_of

            target = target_of(self._app, task)
            self._children = ChildLane(target, self._size, self.settings, self.roster.find)
        return await self._children.run(execution, task)

    # Saying what came of them

    async def finish_progress(self, context: RunContext) -> None:
        """Write down the last that a handler said."""
        with suppress(asyncio.CancelledError):  # of a handler that has cancelled the task it runs in
            await self._progress.finish(context)

    def ended(self, execution: Execution) -> None:
        """An execution has ended. Raises nothing."""
        if not execution.abandoned:
            self.report(execution, execution.outcome)
        # Only now: whoever waits for it waits for its outcome, which is to be told before the streams close.
        self.roster.leave(execution)

    def report(self, execution: Execution, outcome: Outcome | None) -> None:
        """Have an outcome written down; None: there is nothing to say."""
        if not self._ended:
            self.loop.call_soon(self._tell_ended)
        self._ended.append((execution, outcome))

    def _tell_ended(self) -> None:
        """Count what ended in this turn of the loop and have it written down: many at once are cheaper."""
        ended, self._ended = self._ended, []
        self._accounts.ended(ended)
        for stream, reports in _by_stream(ended).items():
            self._streams.report(stream, reports)

    def _refused(self, settlement: Settlement, verdict: Verdict) -> None:
        """A report was in vain. On the feeder's thread, so that at the end there is a second chance too."""
        job_id, lease_id, outcome = settlement
        if verdict.reason != Reason.WRONG_STATE or verdict.status is not JobState.CANCELLING:
            self._accounts.refused(job_id, outcome, verdict.reason)
            return
        # It was cancelled after the handler had ended and before anybody wrote that down.
        stream, execution = self._streams.stream_of(job_id), self.roster.find(job_id)
        has_ended = execution is None or execution.outcome is not None
        if stream is not None and lease_id is not None and has_ended:
            self._streams.report(stream, [(job_id, lease_id, endings.cancelled_instead(outcome))])

    def tell_progress(self, context: RunContext) -> None:
        """From any thread: a handler has said how far it is."""
        self._on_loop(self._progress.plan, context)

    def _on_loop(self, function: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed, and the worker with it
            self.loop.call_soon_threadsafe(function, *arguments)

    # Waiting

    async def work_until(self, stop: asyncio.Event) -> None:
        """Work until told to stop; raise what ended a stream for good."""
        waits = [asyncio.create_task(self._failed.wait()), asyncio.create_task(stop.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        self._raise_failure()

    async def wait_until_dry(self) -> None:
        """Wait until nothing runs and a look at every queue found nothing to claim."""
        while True:
            await self.roster.wait_until_idle()
            self._raise_failure()
            found = await self.look()
            if self._closed:
                raise QueueClosed("the worker was stopped before its queues were dry")
            if not (found or len(self.roster) or any(stream.held for stream in self._open)):
                return

    async def look(self) -> int:
        """Look at every queue, and say how many jobs that brought; while the database is gone, for ever."""
        self._tell_ended()
        looks = [asyncio.wrap_future(self._streams.look(stream)) for stream in self._open]
        return sum(await asyncio.gather(*looks))

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    # Ending

    def stop_claiming(self) -> None:
        """Take no more jobs; what was claimed and not begun goes back."""
        if not self._stopping:
            self._stopping = True
            if self._children is not None:
                self._children.announce_shutdown()
            for stream in self._open:
                self._streams.drain(stream)

    async def kill_children(self, within_s: float) -> None:
        """End all child processes, whatever they do."""
        if self._children is not None:
            await self._children.close(within_s)

    async def close(self, timeout_s: float) -> bool:
        """Write down what was reported and let go of everything; whether all could be written down."""
        self._dispatcher.cancel()
        self._tell_ended()
        settled = await self._close_streams(timeout_s)
        self._closed = True
        self.roster.close()
        self.threads.close()
        left = [self._dispatcher, *(each.runs_in for each in self.roster.all() if each.runs_in is not None)]
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=LAST_TASKS_S)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.store.close(), MARGIN_S)
        return settled and self._failure is None

    async def _close_streams(self, timeout_s: float) -> bool:
        """By a thread that nobody waits for longer: a silent server holds it up, and must not hold us."""
        closed: asyncio.Future[bool] = self.loop.create_future()
        self.threads.run(lambda: self._on_loop(settle, closed, self._streams.close(timeout_s)))
        try:
            return await asyncio.wait_for(closed, timeout_s + MARGIN_S)
        except TimeoutError:
            logger.warning(
                "what was still to be written down was not within %.1f s; those jobs run again", timeout_s
            )
            return False


def _task_maker(
    loop: asyncio.AbstractEventLoop,
) -> Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]:
    """`loop.create_task`, without the steps in between unless somebody asked for them."""
    if loop.get_task_factory() is None:
        return partial(asyncio.Task[None], loop=loop)
    return loop.create_task


def _by_stream(ended: list[Ended]) -> dict[OpenStream, list[Settlement]]:
    """What is to be written down, if anything, for each stream."""
    reports: defaultdict[OpenStream, list[Settlement]] = defaultdict(list)
    for execution, outcome in ended:
        if outcome is not None:
            job = execution.job
            reports[execution.stream].append((job.job_id, job.lease_id, outcome))
    return reports
