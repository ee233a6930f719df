"""A job is claimed only when nobody holds it, under a lease that never was before.

A lease lapses only when it is over, and no extension makes it shorter.
"""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import HELD, Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job, story in stories.items():
        leases: set[str | None] = set()
        for before, change in story.steps():
            if before is None:
                continue
            held = before.state in HELD
            if change.state == "RUNNING" and change.lease != before.lease and held:
                yield (
                    job,
                    f"was claimed by {change.assignee} while {before.assignee} held it (change {change.seq})",
                )
            if change.state == "RUNNING" and not held:
                if change.lease is None or change.lease in leases:
                    yield job, f"lease {change.lease} was given twice (change {change.seq})"
                leases.add(change.lease)
            if (
                change.lapses > before.lapses
                and before.lease_ends is not None
                and change.at < before.lease_ends
            ):
                yield (
                    job,
                    f"its lease lapsed {before.lease_ends - change.at:.3f} s too early (change {change.seq})",
                )
            if (
                held
                and change.state in HELD
                and change.lease == before.lease
                and _is_shorter(before.lease_ends, change.lease_ends)
            ):
                yield job, f"its lease was made shorter (change {change.seq})"


def _is_shorter(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and after < before
