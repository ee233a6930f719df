"""An attempt is counted when an execution is reported as failed, and only then.

Every counted one has its error kept, nobody has more than it may, and nothing runs without a claim.
"""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import Change, Found, History, Story

COUNTED = frozenset(
    (source, target) for source in ("RUNNING", "UNKNOWN_RETRY") for target in ("FAILED_RETRY", "DEAD")
) | {("CANCELLING", "STOPPED")}


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job, story in stories.items():
        counted = 0
        for before, change in story.steps():
            added = change.attempts - (before.attempts if before else 0)
            if change.state == "GONE" or (before is not None and before.state == "GONE"):
                counted = 0
            elif added and not _is_revival(before, change):
                counted += 1
                if added != 1 or before is None or (before.state, change.state) not in COUNTED:
                    yield (
                        job,
                        f"{added} attempts were counted at the step to {change.state} (change {change.seq})",
                    )
            most = change.max_attempts
            if most is not None and (
                change.attempts > most or (change.attempts == most and change.state == "FAILED_RETRY")
            ):
                yield (
                    job,
                    f"has {change.attempts} attempts and may have {change.max_attempts} ({change.seq})",
                )
            if _should_count(before, change) and added == 0:
                yield job, f"failed, and no attempt was counted (change {change.seq})"
        if story.last is not None and story.last.state != "GONE" and history.errors.get(job, 0) != counted:
            yield job, f"{counted} failures were counted, and {history.errors.get(job, 0)} errors are kept"
        claims = sum(1 for _ in story.claims())
        if len(story.runs) > claims:
            yield job, f"was executed {len(story.runs)} times and claimed {claims} times"


def _is_revival(before: Change | None, change: Change) -> bool:
    return (
        before is not None
        and before.state == "DEAD"
        and change.state == "RESCHEDULED"
        and change.attempts == 0
    )


def _should_count(before: Change | None, change: Change) -> bool:
    """Streams by hand end undelivered jobs as FAILED_RETRY without counting."""
    return before is not None and before.state == "RUNNING" and change.state == "DEAD"
