"""When everything is over, a child waits only for a parent that may still come to the end it waits for."""

from __future__ import annotations

from collections.abc import Mapping

from gauntlet.history import ARCHIVED, CANCELLED, Found, History, Story


def check(history: History, stories: Mapping[str, Story]) -> Found:
    for job, waits in history.waits.items():
        story = stories.get(job)
        if story is None or story.last is None or story.last.state == "DEAD":
            continue
        specs = [call.spec for call in story.calls if call.op == "submit"]
        failing = specs[0].get("if_parent_fails") if specs else None
        for parent in waits:
            known = stories.get(parent)
            state = known.last.state if known is not None and known.last is not None else "GONE"
            over = {
                "run": ARCHIVED | {"DEAD"},
                "wait": frozenset({"COMPLETED"}),
                "cancel": ARCHIVED | {"DEAD"},
            }.get(failing or "", CANCELLED | {"COMPLETED"})
            if state in over:
                yield job, f"still waits for {parent}, which is {state}"
    for job, story in stories.items():
        last = story.last
        if (
            last is not None
            and last.waiting_on > 0
            and last.state not in ARCHIVED
            and job not in history.waits
        ):
            yield job, f"counts {last.waiting_on} parents and waits for none"
