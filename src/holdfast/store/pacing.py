"""The pace of connecting: rarer while it fails, so that no fleet storms a server that comes back."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, cast

import psycopg

SHORTEST_S: Final = 0.1
LONGEST_S: Final = 5.0


def jitter(attempt: int, shortest_s: float, longest_s: float, chance: Callable[[], float]) -> float:
    """A pause of any length up to a limit that doubles with each attempt."""
    return chance() * min(longest_s, shortest_s * 2.0 ** min(attempt, 30))


class Pacing:
    """How connecting goes, what the last failure said, and the way to stop it."""

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self.failures = 0
        self.last_error: str | None = None
        self.under_way = 0
        self.closing = threading.Event()
        self._chance = chance
        self._tasks: set[asyncio.Task[Any]] = set()

    def pause_s(self) -> float:
        """How long to wait before the next attempt."""
        return jitter(self.failures, SHORTEST_S, LONGEST_S, self._chance) if self.failures else 0.0

    def obstacle(self) -> str:
        """Why there is no connection to be had."""
        if self.last_error is not None:
            return f"{self.last_error} (tried {self.failures} times)"
        return "the server does not answer" if self.under_way else "every connection is in use"

    @contextmanager
    def attempt(self) -> Generator[None]:
        """Count an attempt to connect and remember why it failed."""
        if self.closing.is_set():
            raise psycopg.OperationalError("the store is closed")
        self.under_way += 1
        try:
            yield
        except psycopg.Error as error:
            self.failures += 1
            self.last_error = " ".join(str(error).split())
            raise
        finally:
            self.under_way -= 1
        self.failures = 0
        self.last_error = None

    @contextmanager
    def abortable(self) -> Generator[None]:
        """Let `close` end what this task waits for."""
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if not self.closing.is_set():
                raise
            task.uncancel()
            raise psycopg.OperationalError("the store was closed") from None
        finally:
            self._tasks.discard(task)

    def close(self) -> None:
        """End attempts under way as far as possible; no other begins."""
        self.closing.set()
        for task in self._tasks:
            task.cancel()
