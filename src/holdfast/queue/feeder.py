"""The one thread of a process that claims for all its streams on one database, and the only one that polls.

When it claims, and for whom, is in `feeding`.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from holdfast.queue.feeding import CALL_S, Feeding
from holdfast.store import SyncStore
from holdfast.store.alarm import Alarm
from holdfast.store.steps import run_blocking


class Feeder(Feeding):
    """Shared by all queues of this process on one database and schema. Thread-safe."""

    _shared: Final[dict[tuple[str, str], Feeder]] = {}
    _sharing = threading.Lock()

    def __init__(self, dsn: str, schema: str) -> None:
        self._key = (dsn, schema)
        self._pid = os.getpid()
        self._users = 0
        self._alarm = Alarm()
        self._is_idle = False
        self._watching = threading.Lock()
        self._watched: tuple[int, Callable[[], None]] | None = None
        self._unwatched: list[int] = []
        self._has_ended = False
        super().__init__(dsn, schema, self)
        self._store = SyncStore(dsn, schema=schema, max_size=1)
        self._thread = threading.Thread(target=self._run, name="holdfast feeder", daemon=True)
        self._thread.start()

    @classmethod
    def share(cls, dsn: str, schema: str) -> Feeder:
        """The feeder of this process for a database and schema; give it back with `release`."""
        with cls._sharing:
            feeder = cls._shared.get((dsn, schema))
            if feeder is None or feeder._pid != os.getpid():
                feeder = cls._shared[dsn, schema] = cls(dsn, schema)
            feeder._users += 1
            return feeder

    def release(self, timeout_s: float = CALL_S) -> None:
        """The counterpart of `share`; the last one stops the thread."""
        with self._sharing:
            self._users -= 1
            if self._users:
                return
            if self._shared.get(self._key) is self:
                del self._shared[self._key]
        self._stop()
        self._thread.join(timeout_s)
        self._stop_listening()
        self._store.close()

    # A host of signals

    def watch(self, descriptor: int, hear: Callable[[], None]) -> bool:
        """Read signals from there: at once when there is nothing to do, else between two calls."""
        with self._watching:
            if self._has_ended:
                return False
            self._watched = (descriptor, hear)
        self._alarm.ring()
        return True

    def unwatch(self, descriptor: int) -> None:
        """Read no more from there, and close it: in the thread, which may wait for it just now."""
        with self._watching:
            self._watched = None
            if not self._has_ended:
                self._unwatched.append(descriptor)
                self._alarm.ring()
                return
        os.close(descriptor)

    # The thread

    def _ring(self) -> None:
        if self._is_idle:
            self._alarm.ring()

    def _run(self) -> None:
        while True:
            with self._lock:
                turn = self._next_turn()
                if turn is None and self._is_over:
                    break
                idle_s = 0.0 if turn else self._idle_s()
                self._is_idle = turn is None
            if turn is not None:
                run_blocking(self._store, turn)
            self._hear(monotonic() + idle_s)
        with self._watching:
            self._has_ended = True
            self._close_unwatched()
        self._alarm.close()

    def _hear(self, until: float) -> None:
        """Wait so long for something to do, and pass on the signals that are there."""
        with self._watching:
            self._close_unwatched()
            descriptor, hear = self._watched or (None, None)
        has_signals, _ = self._alarm.poll(descriptor, select.POLLIN, until)
        self._is_idle = False
        if has_signals and hear is not None:
            hear()

    def _close_unwatched(self) -> None:
        while self._unwatched:
            os.close(self._unwatched.pop())
