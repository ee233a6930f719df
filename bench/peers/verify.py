"""Did every job run, each once?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was seen of the jobs that were enqueued."""

    missing: int
    """Enqueued, and no handler saw it."""
    repeated: int
    """Runs beyond the first of a job."""
    strange: int
    """Runs of jobs that were not enqueued."""

    @property
    def exactly_once(self) -> bool:
        return self.missing == self.repeated == self.strange == 0

    def __str__(self) -> str:
        if self.exactly_once:
            return "each exactly once"
        return f"{self.missing} missing, {self.repeated} repeated, {self.strange} never enqueued"


def judge(enqueued: range, seen: Iterable[int]) -> Verdict:
    """Compare the numbers that were enqueued with those that handlers saw."""
    runs = Counter(seen)
    known = sum(1 for number in runs if number in enqueued)
    return Verdict(
        missing=len(enqueued) - known,
        repeated=sum(runs.values()) - len(runs),
        strange=len(runs) - known,
    )
