"""No job is claimed before its time, by the database's clock."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import HELD, Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job, story in stories.items():
        for before, change in story.steps():
            claimed = before is not None and before.state not in HELD and change.state == "RUNNING"
            if claimed and before is not None and change.at < before.due:
                yield job, f"was claimed {before.due - change.at:.3f} s before its time (change {change.seq})"
