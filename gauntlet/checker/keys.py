"""A key has no more holders than its capacity, and jobs with one singleton key never run together.

When everything is over, nobody holds anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gauntlet.history import HELD, Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    yield from _check_holds(history)
    yield from _check_singletons(history)
    for key, job in history.held_at_end:
        yield job, f"still holds {key} at the end"


def _check_holds(history: History) -> Found:
    holders: defaultdict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for hold in history.holds:
        place = holders[hold.kind, hold.key]
        if not hold.taken:
            place.discard((hold.job, hold.lease))
            continue
        place.add((hold.job, hold.lease))
        most = history.resources.get(hold.key, 1) if hold.kind == "resource" else 1
        if len(place) > most:
            yield (
                hold.job,
                f"is number {len(place)} to hold {hold.kind} {hold.key}, with room for {most} ({hold.seq})",
            )


def _check_singletons(history: History) -> Found:
    running: defaultdict[str, set[str]] = defaultdict(set)
    for change in history.changes:
        if change.key is None:
            continue
        if change.state not in HELD:
            running[change.key].discard(change.job)
            continue
        running[change.key].add(change.job)
        if len(running[change.key]) > 1:
            yield (
                change.job,
                f"runs together with others of singleton key {change.key}: {sorted(running[change.key])}",
            )
