"""When faults have stopped, everything ends: within a bound, and nobody is left in line without a reason."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import FINISHED, Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    if history.unfinished_after_s is None:
        yield "-", f"not everything had ended {history.bound_s:.0f} s after the last fault"
    elif history.unfinished_after_s > history.bound_s:
        yield (
            "-",
            f"it took {history.unfinished_after_s:.1f} s until all had ended, of {history.bound_s:.0f}",
        )
    for job, story in stories.items():
        last = story.last
        if last is None or last.state in FINISHED or last.state == "GONE":
            continue
        if job not in history.waits and job not in history.set_aside:
            yield job, f"is {last.state} at the end (change {last.seq}), and nothing keeps it from running"
