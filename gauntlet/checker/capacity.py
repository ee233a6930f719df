"""No stream ever holds more jobs than it may.

Only the owner of a stream claims for it, and only when it knows of room: whatever made room has a lower
number than the claim that used it, so counting by number never counts too many.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gauntlet.history import HELD, Change, Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    where: dict[str, int] = {}
    holds: defaultdict[int, set[str]] = defaultdict(set)
    for change in history.changes:
        last = where.pop(change.job, None)
        if last is not None:
            holds[last].discard(change.job)
        if change.state not in HELD or change.stream is None:
            continue
        where[change.job] = change.stream
        holds[change.stream].add(change.job)
        most = capacity_of(history, change)
        if most is not None and len(holds[change.stream]) > most:
            number = len(holds[change.stream])
            yield change.job, f"is number {number} in a stream of {change.assignee} for {most} ({change.seq})"


def capacity_of(history: History, change: Change) -> int | None:
    """That of a stream by hand, else of a worker's queue."""
    return history.capacities.get(change.assignee or "", history.capacities.get(f"queue {change.queue}"))
