"""Claims for the streams of one worker, on the worker's own event loop.

A thread that claims and a loop that runs handlers would fight for the interpreter: each answer of the
database would wait up to five milliseconds for its turn. On the loop there is nothing to fight for, and while
the database works, handlers run. A handler that blocks the loop delays claims and reports, which nobody could
act on anyway; leases are kept by a thread (`keeper`). When it claims, and for whom, is in `feeding`.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from math import inf
from typing import ClassVar

from holdfast.queue.feeding import CALL_S, Feeding
from holdfast.queue.stream import OpenStream
from holdfast.store import Store
from holdfast.store.steps import run_awaiting

SMALLEST, LARGEST = 100, 2000
"""Smaller calls cost more for each job; from larger ones nothing more is gained, and what is done waits."""


class LoopFeeder(Feeding):
    """Made on the loop it belongs to; `release` is for other threads. In all else it is thread-safe."""

    _running: ClassVar[set[asyncio.Task[None]]] = set()

    def __init__(self, dsn: str, schema: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._bell: asyncio.Future[None] | None = None
        """What it waits for while there is nothing to do."""
        super().__init__(dsn, schema, self._loop)
        self._store = Store(dsn, schema=schema, max_size=1, serial=True)
        self._ended: Future[None] = Future()
        task = self._loop.create_task(self._run(), name="holdfast feeder")
        # The loop itself keeps no task alive, and whoever released this one does not wait for its very end.
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def release(self, timeout_s: float = CALL_S) -> None:
        """Stop, and wait for that, but no longer."""
        self._stop()
        with suppress(FutureTimeoutError):
            self._ended.result(timeout_s)
        self._stop_listening()

    def hand_back(self, stream: OpenStream) -> None:
        super().hand_back(stream)
        if self._ended.done():
            self._give_up()

    def _most(self, stream: OpenStream) -> int:
        """Half of what the worker runs: the other half runs while the database works on this one."""
        return max(SMALLEST, min(stream.terms.capacity // 2, LARGEST))

    def _ring(self) -> None:
        if self._bell is None:
            return
        if threading.get_ident() == self._loop_thread:
            self._wake()
        else:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._bell is not None and not self._bell.done():
            self._bell.set_result(None)

    async def _run(self) -> None:
        try:
            while True:
                with self._lock:
                    turn = self._next_turn()
                    if turn is None and self._is_over:  # under the lock: who stops it rings only if it waits
                        break
                    bell = self._bell = None if turn else self._loop.create_future()
                    idle_s = self._idle_s() if bell else 0.0
                if turn is not None:
                    await run_awaiting(self._store, turn)
                elif bell is not None:
                    await self._wait_for(bell, idle_s)
        finally:
            # Also when it was cancelled because its loop ends.
            self._ended.set_result(None)
            self._give_up()
            await self._store.close()

    async def _wait_for(self, bell: asyncio.Future[None], idle_s: float) -> None:
        timer = None if idle_s == inf else self._loop.call_later(idle_s, self._wake)
        try:
            await bell
        finally:
            self._bell = None
            if timer is not None:
                timer.cancel()

    def _give_up(self) -> None:
        """What nobody will hand back any more comes back as its leases end."""
        with self._lock:
            streams = list(self._errands)
            self._errands.clear()
        for stream in streams:
            if stream.is_ending and not stream.ended.done():
                stream.looks.answer(0)
                stream.ended.set_result(False)
