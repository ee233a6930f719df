"""An end in time, whatever hangs: a handler that holds the loop, a thread, a server that is silent."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import suppress
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final

logger: Final = logging.getLogger("holdfast.worker")

DEPTH: Final = 6
"""How many calls of a thread are named."""

LAST_WORDS_S: Final = 0.3
"""How long the last log line may take: whoever reads it may have stopped reading."""


class LastResort:
    """A thread that ends the process when its time has come. `arm` may be called by a signal handler."""

    def __init__(self, code: int) -> None:
        self.code = code
        """What the process exits with if it comes to that; changed as more is known."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """Whose tasks are named in the last words."""
        # A queue of C, because a handler may interrupt a handler that is in the middle of a put.
        self._orders: SimpleQueue[float | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="holdfast last resort", daemon=True)
        self._thread.start()

    def arm(self, after_s: float) -> None:
        """End the process in so many seconds, or earlier if that was said before."""
        self._orders.put(after_s)

    def disarm(self) -> None:
        """The worker has ended in order."""
        self._orders.put(None)
        self._thread.join()

    def _run(self) -> None:
        until = inf
        while True:
            try:
                after_s = self._orders.get(timeout=None if until == inf else max(0.0, until - monotonic()))
            except Empty:
                break
            if after_s is None:
                return
            until = min(until, monotonic() + after_s)
        words = threading.Thread(target=self._last_words, daemon=True)
        words.start()
        words.join(LAST_WORDS_S)
        os._exit(self.code)

    def _last_words(self) -> None:
        with suppress(Exception):
            if self.code:
                logger.error(
                    "the worker could not stop in time and is ended; "
                    "jobs it still holds come back when their leases end. It was still at:\n%s",
                    "\n".join(_whereabouts(self.loop)),
                    extra={"event": "worker.stopped"},
                )
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            logging.shutdown()


def _whereabouts(loop: asyncio.AbstractEventLoop | None) -> Iterator[str]:
    """Where every thread and every task of the loop is, a line each: the outermost call first."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        calls = traceback.extract_stack(frame)[-DEPTH:] if frame is not None else []
        yield f"{thread.name}: " + " > ".join(f"{call.name}:{call.lineno}" for call in calls)
    for task in () if loop is None else asyncio.all_tasks(loop):
        yield f"{task.get_name()}: " + " > ".join(_awaited(task.get_coro()))


def _awaited(awaitable: object) -> Iterator[str]:
    """What a coroutine awaits, down to what is no coroutine."""
    while (frame := getattr(awaitable, "cr_frame", None)) is not None:
        yield f"{frame.f_code.co_qualname}:{frame.f_lineno}"
        awaitable = getattr(awaitable, "cr_await", None)
