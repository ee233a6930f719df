"""Those who asked for a look at the queues of a stream, and wait for what it brings."""

from __future__ import annotations

from concurrent.futures import Future
from threading import RLock


class Looks:
    """Thread-safe, under the lock of the stream."""

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._asked: list[Future[int]] = []

    def __bool__(self) -> bool:
        return bool(self._asked)

    def ask(self) -> Future[int]:
        """Done when the feeder has looked, with how many jobs that brought."""
        looked: Future[int] = Future()
        with self._lock:
            self._asked.append(looked)
        return looked

    def take(self) -> list[Future[int]]:
        """Those to be answered by the call that begins now."""
        with self._lock:
            taken, self._asked = self._asked, []
        return taken

    def put_back(self, looks: list[Future[int]]) -> None:
        """The call came to nothing: the next one is to answer."""
        with self._lock:
            self._asked = looks + self._asked

    def answer(self, found: int, looks: list[Future[int]] | None = None) -> None:
        """Tell these, or all who have asked, what a look brought."""
        for look in self.take() if looks is None else looks:
            if not look.done():
                look.set_result(found)
