"""A job ends once.

After an end comes nothing, except what the model names: a revival or a cancellation of a dead job, the late
word of a worker of whom nobody knew what it had done, and being deleted.
"""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import ARCHIVED, Found, History, Story

AFTER = {("UNKNOWN_STOPPED", "COMPLETED"), ("DEAD", "RESCHEDULED"), ("DEAD", "STOPPED")}


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job, story in stories.items():
        for before, change in story.steps():
            if before is None or change.state == "GONE" or (before.state, change.state) in AFTER:
                continue
            if before.state == "DEAD" and change.state == "DEAD" and change.waiting_on < before.waiting_on:
                continue  # dead while it waited: what it waits for may still end
            if before.state in ARCHIVED or before.state == "DEAD":
                yield job, f"had ended ({before.state}) and then was {change.state} (change {change.seq})"
                break
