"""How people read from a stream: with `async for`, or with `for` from any thread."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from holdfast.errors import HoldfastError, InvalidArgument, StreamEnded
from holdfast.queue.stream import Ended, OpenStream
from holdfast.queue.streams import CLOSE_S, Streams
from holdfast.queue.terms import Terms
from holdfast.queue.values import Job
from holdfast.store import Extension, Store, SyncStore

logger: Final = logging.getLogger("holdfast.queue")

LOOK_S: Final = 2.0
"""How long a reader waits for word about jobs it kept waiting, before it takes them as they are."""

C = TypeVar("C", bound=Callable[[str], object])


class _Face:
    """What both faces have in common."""

    _stream: OpenStream
    _streams: Streams

    @property
    def assignee_id(self) -> str:
        """Whose stream it is."""
        return self._stream.terms.assignee_id

    @property
    def max_assigned_jobs(self) -> int:
        """Its capacity."""
        return self._stream.terms.capacity

    @property
    def assigned_jobs(self) -> int:
        """How many jobs it holds now, delivered or not."""
        return self._stream.held

    def on_cancel(self, callback: C) -> C:
        """Call this with a job's id when somebody wants a delivered job stopped. Usable as a decorator."""
        self._refuse_if_ended()
        self._check_callback(callback, "on_cancel")
        self._stream.on_cancel(callback)
        return callback

    def on_lost(self, callback: C) -> C:
        """Call this with a job's id when a delivered job is not this stream's any more: stop, nothing counts.

        That is when it was taken over after its lease lapsed, or handed back or ended by somebody else,
        unless that completed it while it was this stream's.
        """
        self._refuse_if_ended()
        self._check_callback(callback, "on_lost")
        self._stream.on_lost(callback)
        return callback

    def __repr__(self) -> str:
        terms = self._stream.terms
        standing = "ended" if self._stream.is_ending else f"{self._stream.held} of {terms.capacity} assigned"
        return f"{type(self).__name__}({terms.assignee_id!r}, queues={terms.queues}, {standing})"

    def _refuse_if_ended(self) -> None:
        if self._stream.is_ending:
            raise StreamEnded(f"the stream of {self.assignee_id} has ended; open another with stream_jobs")

    def _check_callback(self, callback: object, hook: str) -> None:
        """Refuse now what could not be called later, when nobody is there to be told."""
        if not callable(callback):
            raise InvalidArgument(f"{hook} needs a function that takes a job's id, not {callback!r}")

    def _refuse_second_reader(self) -> InvalidArgument:
        return InvalidArgument(
            f"the stream of {self.assignee_id} is being read already: one reader at a time, "
            "or a stream for each"
        )

    def _doubtful(self) -> list[tuple[str, str]]:
        return [(entry.job.id, entry.lease_id) for entry in self._stream.doubtful()]

    def _hear(self, asked: list[tuple[str, str]], answers: Iterable[Extension]) -> None:
        leases = [lease_id for _, lease_id in asked]
        if self._stream.heard(list(zip(leases, answers, strict=True))):
            self._streams.news(self._stream)

    def _say_late(self) -> None:
        logger.warning(
            "the stream of %s could not hand its jobs back within %.0f s; "
            "they come back when their leases end",
            self.assignee_id,
            CLOSE_S,
        )


class Stream(_Face):
    """Jobs as they come: `async with queue.stream_jobs(...) as stream: async for batch in stream`.

    A batch is a list of jobs that are RUNNING and leased to the assignee. The stream ends when the block is
    left, by `aclose()`, or when the queue is closed.
    """

    def __init__(self, streams: Streams, store: Store, terms: Terms) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived = asyncio.Event()
        self._reading = False
        self._tasks: set[asyncio.Future[Any]] = set()
        self._store = store
        self._streams = streams
        self._stream = streams.open(terms, self._wake, self._tell)

    async def __aenter__(self) -> Self:
        self._refuse_if_ended()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Job]:
        if self._reading:
            raise self._refuse_second_reader()
        self._reading = True
        try:
            while True:
                self._arrived.clear()
                if doubtful := self._doubtful():
                    await self._look_at(doubtful)
                # Nothing is awaited after this, so a reader that is cancelled has not taken anything.
                batch = self._stream.take()
                if batch:
                    return batch
                await self._arrived.wait()
        except Ended:
            raise StopAsyncIteration from None
        finally:
            self._reading = False

    async def aclose(self) -> None:
        """End the stream, and return when what was not delivered is handed back. A second call is a no-op."""
        self._streams.end(self._stream)
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._stream.ended)), CLOSE_S)
        except TimeoutError:
            self._say_late()

    async def _look_at(self, doubtful: list[tuple[str, str]]) -> None:
        try:
            answers = await self._store.extend_leases(doubtful, self._stream.terms.lease_s, timeout_s=LOOK_S)
        except HoldfastError:
            pass  # what its lease still covers is delivered as it is
        else:
            self._hear(doubtful, answers)

    def _wake(self) -> None:
        self._on_loop(self._arrived.set)

    def _tell(self, callback: Callable[[str], object], job_id: str) -> None:
        self._on_loop(self._run_callback, callback, job_id)

    def _on_loop(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed: nobody reads any more
            self._streams.end(self._stream)

    def _run_callback(self, callback: Callable[[str], object], job_id: str) -> None:
        try:
            answer = callback(job_id)
        except Exception:
            logger.exception("a callback of the stream of %s failed for job %s", self.assignee_id, job_id)
            return
        if inspect.isawaitable(answer):
            task = asyncio.ensure_future(answer)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


class SyncStream(_Face):
    """Jobs as they come, for threads: `with queue.stream_jobs(...) as stream: for batch in stream`.

    A batch is a list of jobs that are RUNNING and leased to the assignee. `close()` may be called from any
    thread and ends a reader that waits. Callbacks are plain functions and run on a thread of the queue: let
    them be quick.
    """

    def __init__(self, streams: Streams, store: SyncStore, terms: Terms) -> None:
        self._arrived = threading.Event()
        self._reading = threading.Lock()
        self._store = store
        self._streams = streams
        self._stream = streams.open(terms, self._arrived.set, self._tell)

    def __enter__(self) -> Self:
        self._refuse_if_ended()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> list[Job]:
        if not self._reading.acquire(blocking=False):
            raise self._refuse_second_reader()
        try:
            while True:
                self._arrived.clear()
                if doubtful := self._doubtful():
                    self._look_at(doubtful)
                batch = self._stream.take()
                if batch:
                    return batch
                self._arrived.wait()
        except Ended:
            raise StopIteration from None
        finally:
            self._reading.release()

    def close(self) -> None:
        """End the stream, and return when what was not delivered is handed back. A second call is a no-op."""
        self._streams.end(self._stream)
        try:
            self._stream.ended.result(CLOSE_S)
        except FutureTimeoutError:
            self._say_late()

    def _look_at(self, doubtful: list[tuple[str, str]]) -> None:
        try:
            answers = self._store.extend_leases(doubtful, self._stream.terms.lease_s, timeout_s=LOOK_S)
        except HoldfastError:
            pass  # what its lease still covers is delivered as it is
        else:
            self._hear(doubtful, answers)

    def _check_callback(self, callback: object, hook: str) -> None:
        super()._check_callback(callback, hook)
        if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(type(callback).__call__):
            raise InvalidArgument(
                f"{hook} needs a plain function here, not {callback!r}: a thread awaits nothing; "
                "streams of Queue take coroutine functions"
            )

    def _tell(self, callback: Callable[[str], object], job_id: str) -> None:
        try:
            callback(job_id)
        except Exception:
            logger.exception("a callback of the stream of %s failed for job %s", self.assignee_id, job_id)
