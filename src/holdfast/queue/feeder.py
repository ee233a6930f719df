"""The one thread of a process that claims for all its streams on one database, and the only one that polls.

When it claims, and for whom, is in `feeding`.
"""

from __future__ import annotations

import os
import threading
from math import inf
from typing import Final

from holdfast.queue.feeding import CALL_S, Feeding
from holdfast.store import SyncStore
from holdfast.store.steps import run_blocking


class Feeder(Feeding):
    """Shared by all queues of this process on one database and schema. Thread-safe."""

    _shared: Final[dict[tuple[str, str], Feeder]] = {}
    _sharing = threading.Lock()

    def __init__(self, dsn: str, schema: str) -> None:
        super().__init__(dsn, schema)
        self._key = (dsn, schema)
        self._pid = os.getpid()
        self._users = 0
        self._store = SyncStore(dsn, schema=schema, max_size=1, serial=True)
        self._wake = threading.Condition(self._lock)
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

    def _ring(self) -> None:
        self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._lock:
                while (turn := self._next_turn()) is None:
                    if self._is_over:
                        return
                    idle_s = self._idle_s()
                    self._wake.wait(None if idle_s == inf else idle_s)
            run_blocking(self._store, turn)
