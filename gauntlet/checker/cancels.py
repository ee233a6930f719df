"""A job that was cancelled is not tried again: whoever runs it may say how it ended, and that is all."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import OK, Found, History, Story

AFTERWARDS = frozenset({"CANCELLING", "COMPLETED", "STOPPED", "UNKNOWN_STOPPED", "GONE"})


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job, story in stories.items():
        for before, change in story.steps():
            if before is not None and before.state == "CANCELLING" and change.state not in AFTERWARDS:
                yield job, f"was being cancelled and then was {change.state} (change {change.seq})"
        for call in story.calls:
            if call.op != "cancel" or call.said != OK:
                continue
            for claim in story.claims():
                # A transaction that began after the answer has seen the cancellation.
                if claim.began > call.ended:
                    yield (
                        job,
                        f"was cancelled, and claimed {claim.began - call.ended:.3f} s later ({claim.seq})",
                    )
                    break
