"""Says what blocks the event loop: the stack of the loop's thread, taken while it hangs."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable
from time import monotonic
from typing import Final

BLOCKED_S: Final = 1.0
"""A loop that does nothing for so long is blocked."""


class Watchdog:
    """A thread that looks at a loop now and then. Reports each hang once."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        report: Callable[[float, str], None],
        blocked_s: float = BLOCKED_S,
    ) -> None:
        self._loop = loop
        self._report = report
        self._blocked_s = blocked_s
        self._loop_thread = threading.get_ident()
        self._stopping = threading.Event()
        self._alive = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch; call it on the loop's own thread."""
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._alive.set()

    def _run(self) -> None:
        while not self._stopping.wait(self._blocked_s / 2):
            self._alive.clear()
            if self._stopping.is_set():
                return
            asked_at = monotonic()
            try:
                self._loop.call_soon_threadsafe(self._alive.set)
            except RuntimeError:
                return
            if not self._alive.wait(self._blocked_s):
                self._report(monotonic() - asked_at, self._stack())
                while not (self._alive.wait(self._blocked_s) or self._stopping.is_set()):
                    pass

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._loop_thread)  # pyright: ignore[reportPrivateUsage]
        return "".join(traceback.format_stack(frame)) if frame is not None else "(the thread is gone)"
