"""Counters and histograms by dotted names, counted where things happen and read when somebody asks.

Counting costs a lock that nobody holds for long and an addition: no I/O, and nothing grows with the number of
jobs.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

BOUNDS_S: Final[tuple[float, ...]] = tuple(0.0001 * 1.2**step for step in range(92))
"""Upper bounds of the buckets of a histogram, in seconds: 0.1 ms to half an hour, in steps of a fifth."""

_SHOWN: Final = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))


class Histogram:
    """How often values fell between which bounds; their number, sum, smallest and largest."""

    __slots__ = ("buckets", "count", "largest", "smallest", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        self.count = 0
        self.total = 0.0
        self.smallest = 0.0
        self.largest = 0.0

    def add(self, values: Sequence[float]) -> None:
        """Put in at least one."""
        smallest, largest = min(values), max(values)
        if smallest < self.smallest or self.count == 0:
            self.smallest = smallest
        if largest > self.largest:
            self.largest = largest
        buckets = self.buckets
        for value in values:
            buckets[bisect_left(BOUNDS_S, value)] += 1
        self.count += len(values)
        self.total += sum(values)

    def quantile(self, share: float) -> float:
        """An upper estimate: the bound below which so many of the values lie, or the largest of them."""
        wanted, seen = share * self.count, 0
        for bound, found in zip(BOUNDS_S, self.buckets, strict=False):
            seen += found
            if found and seen >= wanted:
                return min(bound, self.largest)
        return self.largest


class Metrics:
    """What happened so far in this process. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: dict[str, float] = {}
        self._histograms: defaultdict[str, Histogram] = defaultdict(Histogram)

    def count(self, name: str, by: float = 1) -> None:
        """Add to a counter, which is 0 before."""
        with self._lock:
            self._counters[name] = self._counters.get(name, 0) + by

    def observe(self, name: str, value: float) -> None:
        """Put a value into a histogram; durations in seconds."""
        with self._lock:
            self._histograms[name].add((value,))

    def observe_all(self, name: str, values: Sequence[float]) -> None:
        """Put values into a histogram, at the price of one lock."""
        if values:
            with self._lock:
                self._histograms[name].add(values)

    def snapshot(self) -> dict[str, float]:
        """Every counter by its name; of each histogram `.count`, `.sum`, `.min`, `.max`, `.p50` to `.p99`."""
        with self._lock:
            shown = {name: float(value) for name, value in self._counters.items()}
            for name, histogram in self._histograms.items():
                shown[f"{name}.count"] = float(histogram.count)
                shown[f"{name}.sum"] = histogram.total
                shown[f"{name}.min"] = histogram.smallest
                shown[f"{name}.max"] = histogram.largest
                for label, share in _SHOWN:
                    shown[f"{name}.{label}"] = histogram.quantile(share)
        return dict(sorted(shown.items()))
