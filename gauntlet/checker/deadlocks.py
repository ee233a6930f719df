"""Nobody ever waited for somebody who waited for him."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    if history.deadlocks:
        yield "-", f"{history.deadlocks} deadlocks in the server's log"
