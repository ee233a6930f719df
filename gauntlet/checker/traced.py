"""The trace, at its fullest, has an event for every claim and every completion that the witness saw."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job in history.untraced:
        yield job, "its trace does not tell all of its claims and completions"
