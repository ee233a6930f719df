"""Threads for sync handlers: started on demand, kept for the next, and never in the way of an exit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeAlias

Work: TypeAlias = Callable[[], None]


class Threads:
    """As many daemon threads as there were handlers at once. One that never ends holds its own thread only.

    There is no limit here: a worker claims no more jobs than it may run, and a handler whose job was lost
    must not keep the next one waiting. The standard library's pool joins its threads when the interpreter
    exits, and one stuck handler would keep a worker from ending.
    """

    def __init__(self, name: str = "holdfast handler") -> None:
        self._name = name
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._idle = 0

    def run(self, work: Work) -> None:
        """Run this on some thread, at once. It must not raise."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(target=self._loop, name=f"{self._name} {self._count}", daemon=True).start()
        self._work.put(work)

    def close(self) -> None:
        """Let threads end when they have nothing to do; does not wait for them."""
        for _ in range(self._count):
            self._work.put(None)

    def _loop(self) -> None:
        while (work := self._work.get()) is not None:
            work()
            del work  # or the last job of this thread would be kept until its next
            with self._lock:
                self._idle += 1
