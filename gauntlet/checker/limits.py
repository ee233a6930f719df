"""No queue with a limit has more jobs held than that, over all workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gauntlet.history import HELD, Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    held: defaultdict[str, set[str]] = defaultdict(set)
    for change in history.changes:
        limit = history.limits.get(change.queue)
        if limit is None:
            continue
        if change.state not in HELD:
            held[change.queue].discard(change.job)
            continue
        held[change.queue].add(change.job)
        if len(held[change.queue]) > limit:
            yield (
                change.job,
                f"is number {len(held[change.queue])} of {limit} in {change.queue} ({change.seq})",
            )
