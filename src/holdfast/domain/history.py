"""Times that were counted in buckets, and how long a share of the jobs took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BOUNDS_S: Final = tuple(0.001 * 2 ** (step / 2) for step in range(60))
"""Where each bucket but the first begins, in seconds: the engine's `_history_bounds()`."""


def quantile_s(counts: Sequence[int], share: float) -> float | None:
    """The time within which this share of jobs was done, read from the counts by bucket; None: of no job.

    Within a bucket times are taken as evenly spread. The last has no end: its beginning is the answer.
    """
    total = sum(counts)
    if not total:
        return None
    wanted, before = share * total, 0
    for place, count in enumerate(counts):
        if count and before + count >= wanted:
            begin = BOUNDS_S[place - 1] if place else 0.0
            end = BOUNDS_S[place] if place < len(BOUNDS_S) else begin
            return begin + (end - begin) * (wanted - before) / count
        before += count
    return BOUNDS_S[-1]
