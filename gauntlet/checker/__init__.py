"""What must be true of every run, whatever happened in it. Pure: a history in, violations out.

One file per invariant; each has a `check` that answers jobs and what is wrong with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from gauntlet.checker import (
    accounting,
    cancels,
    capacity,
    deadlocks,
    ends,
    fence,
    keys,
    leaks,
    leases,
    limits,
    liveness,
    lost,
    parents,
    pauses,
    phantoms,
    schedule,
    steps,
    stranded,
    traced,
    transactions,
)
from gauntlet.history import Found, History, Story, Violation

Check = Callable[[History, Mapping[str, Story]], Found]

INVARIANTS: Final[dict[str, Check]] = {
    "no acknowledged job is lost": lost.check,
    "no job that nobody asked for, and none twice": phantoms.check,
    "every job ends in exactly one finished state": ends.check,
    "every step is one the model allows": steps.check,
    "never two live leases": leases.check,
    "nothing is taken from a former holder": fence.check,
    "attempts and errors equal the failures": accounting.check,
    "no stream holds more than its capacity": capacity.check,
    "no queue has more jobs held than its limit": limits.check,
    "no key is held twice, nor by a job that is not running": keys.check,
    "no child before its parents": parents.check,
    "no child is stranded": stranded.check,
    "what is cancelled is not tried again": cancels.check,
    "transactions are all or nothing": transactions.check,
    "no job before its time": schedule.check,
    "no job of a paused queue is claimed": pauses.check,
    "the trace tells what happened": traced.check,
    "everything ends": liveness.check,
    "nothing leaks": leaks.check,
    "no deadlocks": deadlocks.check,
}

MOST: Final = 25
"""Violations of one invariant that are told; all are counted."""


class Verdict:
    """What was found."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.counts: Counter[str] = Counter()

    @property
    def is_clean(self) -> bool:
        return not self.counts


def check(history: History) -> Verdict:
    """Look at everything."""
    verdict = Verdict()
    stories = history.stories()
    for name, invariant in INVARIANTS.items():
        for job, why in invariant(history, stories):
            verdict.counts[name] += 1
            if verdict.counts[name] <= MOST:
                verdict.violations.append(Violation(name, job, why))
    return verdict
