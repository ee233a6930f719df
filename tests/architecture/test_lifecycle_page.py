"""The page that shows the lifecycle is drawn from the transitions, and the committed one is current."""

from __future__ import annotations

from pathlib import Path

from holdfast.domain.drawing import render_lifecycle
from holdfast.domain.lifecycle import TRANSITIONS, Operation
from holdfast.domain.states import JobState

PAGE = Path(__file__).parents[2] / "docs" / "lifecycle.md"


def test_the_committed_page_is_the_one_the_transitions_draw() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_lifecycle(), (
        "docs/lifecycle.md is out of date: python -m holdfast.domain.drawing > docs/lifecycle.md"
    )


def test_the_page_shows_every_state_and_every_operation() -> None:
    page = render_lifecycle()

    assert all(f"`{state}`" in page for state in JobState)
    assert all(f"| {operation} |" in page for operation in Operation)


def test_the_diagram_has_an_arrow_for_every_change_of_state() -> None:
    page = render_lifecycle()

    for step in TRANSITIONS:
        if step.source != step.target:
            assert f"{step.source or '[*]'} --> {step.target or '[*]'} : " in page
