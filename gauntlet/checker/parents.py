"""No child is claimed before each of its parents has ended in the way it waits for."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import ARCHIVED, Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job, story in stories.items():
        specs = [call.spec for call in story.calls if call.op == "submit" and call.spec.get("wait_for")]
        first = next(story.claims(), None)
        if not specs or first is None:
            continue
        enough = ARCHIVED | {"DEAD"} if specs[0].get("if_parent_fails") == "run" else {"COMPLETED"}
        for parent in specs[0]["wait_for"]:
            known = stories.get(parent)
            if known is None or not known.changes:
                continue
            if not any(
                change.state in enough | {"GONE"} and change.seq < first.seq for change in known.changes
            ):
                yield job, f"was claimed (change {first.seq}) before its parent {parent} had ended"
