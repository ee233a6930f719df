"""Every job was asked for by a call that was not refused, and every id has one job."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import NO, Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job, story in stories.items():
        if not story.changes:
            continue
        if all(call.said == NO for call in story.calls if call.op == "submit"):
            yield job, "is there, and every call that asked for it was refused or taken back"
        if history.places.get(job, 0) > 1:
            yield job, f"is in {history.places[job]} places at the end"
