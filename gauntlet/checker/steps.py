"""Every change of state is a step of the model's table of transitions."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import Found, History, Story
from holdfast.domain.lifecycle import TRANSITIONS

ALLOWED = frozenset(
    (None if step.source is None else str(step.source), None if step.target is None else str(step.target))
    for step in TRANSITIONS
)


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job, story in stories.items():
        for before, change in story.steps():
            source = None if before is None or before.state == "GONE" else before.state
            target = None if change.state == "GONE" else change.state
            if source != target and (source, target) not in ALLOWED:
                yield job, f"went from {source} to {target} (change {change.seq})"
                break
