"""When everybody has stopped, no session, no process and no key is left over (keys: see that invariant)."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    if history.sessions:
        yield "-", f"{history.sessions} sessions are left over"
    for process in history.processes:
        yield "-", f"a process is left over: {process}"
