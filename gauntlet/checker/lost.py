"""Whoever was told that a job is enqueued finds it, live or archived, once; unless somebody deleted it."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import NO, OK, Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job, story in stories.items():
        if not any(call.op == "submit" and call.said == OK for call in story.calls):
            continue
        if not story.changes:
            yield job, "its enqueue was acknowledged, and the database never had it"
        elif history.places.get(job, 0) == 0 and not _was_deleted(story):
            yield job, "its enqueue was acknowledged, and it is neither live nor archived"


def _was_deleted(story: Story) -> bool:
    return any(call.op == "delete" and call.said != NO for call in story.calls)
