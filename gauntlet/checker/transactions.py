"""What was enqueued or completed together with something else is there if and only if that is."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job, story in stories.items():
        together = [call for call in story.calls if call.op == "submit" and call.spec.get("order")]
        if together and bool(story.changes) is not (job in history.orders):
            yield (
                job,
                "is there without its order" if story.changes else "is not there, and its order is",
            )
        effects, last = history.ledger.get(job, 0), story.last
        if last is None or last.queue != "sql":
            continue
        completed = any(change.state == "COMPLETED" for change in story.changes)
        if effects != int(completed):
            yield job, f"has {effects} effects, and {'has' if completed else 'has not'} completed"
