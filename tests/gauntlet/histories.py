"""Histories to doctor: a job's life told in a few words, with times and numbers that fit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from gauntlet.history import OK, Call, Change, History, Hold, Run

LEASE_S = 2.0


class Life:
    """Tells of jobs step by step; every step is a second later than the last."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.holds: list[Hold] = []
        self.calls: list[Call] = []
        self.runs: list[Run] = []
        self.now = 100.0

    def asked(self, job: str, op: str = "submit", said: str = OK, **more: Any) -> Life:
        """Somebody asked for something, and was answered at once."""
        self.now += 1
        self.calls.append(
            Call("somebody", op, job, said, self.now - 0.5, self.now, more.pop("lease", None), more)
        )
        return self

    def step(self, job: str, state: str, **more: Any) -> Life:
        """The database did something; what is not said stays as it was."""
        self.now += 1
        before = next((each for each in reversed(self.changes) if each.job == job), Change(0, 0.0, job, ""))
        self.changes.append(
            before._replace(
                seq=len(self.changes) + len(self.holds) + 1, at=self.now, began=self.now, state=state, **more
            )
        )
        return self

    def claimed(self, job: str, lease: str, **more: Any) -> Life:
        more = {"assignee": "w", "stream": 1, "lease_ends": self.now + 1 + LEASE_S, **more}
        return self.step(job, "RUNNING", lease=lease, **more)

    def held(self, kind: str, key: str, job: str, *, taken: bool = True) -> Life:
        self.holds.append(
            Hold(len(self.changes) + len(self.holds) + 1, self.now, kind, key, job, f"lease of {job}", taken)
        )
        return self

    def ran(self, job: str, attempt: int = 1, how: str | None = "returned") -> Life:
        self.runs.append(Run("handlers", job, attempt, self.now, self.now, how))
        return self

    def completed(self, job: str, lease: str = "l1") -> Life:
        """From the beginning to a good end."""
        return (
            self.asked(job)
            .step(job, "INITIAL_PENDING")
            .claimed(job, lease)
            .ran(job)
            .step(job, "COMPLETED", stream=None)
        )

    def history(self, **more: Any) -> History:
        """The history of a run that has come to rest; `more` puts in what is to be wrong."""
        last = {change.job: change for change in self.changes}
        errors = {
            job: sum(1 for before, after in _pairs(self.changes, job) if after.attempts > before.attempts)
            for job in last
        }
        told: dict[str, Any] = {
            "changes": self.changes,
            "holds": self.holds,
            "calls": self.calls,
            "runs": self.runs,
            "places": {job: 1 for job, change in last.items() if change.state != "GONE"},
            "errors": {job: count for job, count in errors.items() if count},
            "capacities": {"w": 2},
            "unfinished_after_s": 1.0,
            "bound_s": 10.0,
            **more,
        }
        return History(**told)


def _pairs(changes: list[Change], job: str) -> list[tuple[Change, Change]]:
    mine = [change for change in changes if change.job == job]
    return list(pairwise(mine))
