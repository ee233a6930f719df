"""While a queue is paused, no transaction that began since claims a job of it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping

from gauntlet.history import OK, Call, Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    pauses = _pauses(history)
    if not pauses:
        return
    for story in stories.values():
        for claim in story.claims():
            spans = pauses.get(claim.queue, [])
            place = bisect_right(spans, (claim.began, float("inf"))) - 1
            if place >= 0 and spans[place][0] < claim.began and claim.at < spans[place][1]:
                yield claim.job, f"was claimed (change {claim.seq}) while queue {claim.queue} was paused"


def _pauses(history: History) -> dict[str, list[tuple[float, float]]]:
    """By queue: from when everybody must know that it is paused, to when somebody asked to resume it."""
    found: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    begun: dict[tuple[str, str], Call] = {}
    for call in sorted(
        (call for call in history.calls if call.op in ("pause", "resume")), key=lambda call: call.begun
    ):
        if call.op == "pause":
            begun[call.who, call.job] = call
            continue
        pause = begun.pop((call.who, call.job), None)
        if pause is not None and pause.said == OK:
            found[call.job].append((pause.ended, call.begun))
    return {queue: sorted(spans) for queue, spans in found.items()}
