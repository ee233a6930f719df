"""What handlers saw, written where all processes of a measurement can read it: a file in their memory."""

from __future__ import annotations

import mmap
import time
from pathlib import Path
from typing import Any

_COUNT = 8
_STAMP = 8


class Ledger:
    """Per process a count and a mark for each job; and for each job when it began, where that is asked for.

    Every process writes its own part only, so nobody needs a lock.
    """

    def __init__(
        self, path: Path, jobs: int, processes: int, mine: int = 0, *, stamped: bool = False
    ) -> None:
        self.jobs = jobs
        self._mine = mine
        self._stamped = stamped
        stamps = jobs * _STAMP if stamped else 0
        size = processes * _COUNT + stamps + processes * jobs
        if not path.exists():
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            whole = memoryview(mmap.mmap(file.fileno(), size))
        counts = processes * _COUNT
        self._counts: Any = whole[:counts].cast("Q")
        self._stamps: Any = whole[counts : counts + stamps].cast("d")
        self._marks = [
            whole[counts + stamps + part * jobs : counts + stamps + (part + 1) * jobs]
            for part in range(processes)
        ]

    def mark(self, number: int) -> None:
        """A handler began job `number`."""
        if self._stamped:
            self._stamps[number] = time.monotonic()
        self._marks[self._mine][number] += 1
        self._counts[self._mine] += 1

    def total(self) -> int:
        """How many handlers have begun, in all processes."""
        return sum(self._counts)

    def each_once(self) -> bool:
        """Whether every job began once, in one process."""
        return all(sum(marks) == 1 for marks in zip(*self._marks, strict=True))

    def began_s(self) -> list[float]:
        """When each job began, by the clock all processes of a machine share."""
        return list(self._stamps)
