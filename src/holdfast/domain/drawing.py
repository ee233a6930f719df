"""Draw `docs/lifecycle.md` from the transitions: `python -m holdfast.domain.drawing > docs/lifecycle.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from holdfast.domain.lifecycle import COLUMNS, TRANSITIONS, Operation, Transition, When
from holdfast.domain.states import ARCHIVED, HELD, MEANING, WAITING, JobState

_INTRODUCTION = """\
# The lifecycle of a job

<!-- Drawn from src/holdfast/domain/lifecycle.py; do not edit.
     Draw it again with: python -m holdfast.domain.drawing > docs/lifecycle.md -->

Every change of a job is one of the steps below, made by a SQL function in one statement. What is not here is
refused, and then nothing changes. A test tries every operation from every state and holds the SQL to it.
"""

_ABOUT_TOUCHES = """\
A step may change the columns it names and no others. Beyond the state there are guards: whoever names a lease
must name the job's own, and a lapsed lease cannot be extended.
"""


def render_lifecycle() -> str:
    """The page as Markdown: the states, a diagram, and a table of every step."""
    parts = (
        _INTRODUCTION,
        "## States\n",
        *_states(),
        "\n## Diagram\n\nSteps that leave the state as it is are only in the table.\n",
        "```mermaid\nstateDiagram-v2",
        *_arrows(),
        "```\n\n## Steps\n",
        _ABOUT_TOUCHES,
        *_table(),
    )
    return "\n".join(parts) + "\n"


def _states() -> Iterator[str]:
    yield "| group | state | means |\n|---|---|---|"
    for state in JobState:
        yield f"| {_group(state)} | `{state}` | {MEANING[state]} |"


def _group(state: JobState) -> str:
    if state in WAITING:
        return "waiting"
    if state in HELD:
        return "held"
    return "finished, archived" if state in ARCHIVED else "finished"


def _arrows() -> Iterator[str]:
    """One arrow for each pair of states, carrying every operation that goes that way."""
    labels: dict[tuple[JobState | None, JobState | None], dict[Operation, None]] = {}
    for step in TRANSITIONS:
        if step.source != step.target:
            labels.setdefault((step.source, step.target), {})[step.operation] = None
    for (source, target), operations in labels.items():
        yield f"    {source or '[*]'} --> {target or '[*]'} : {', '.join(operations)}"


def _table() -> Iterator[str]:
    yield "| operation | from | to | when | may change |\n|---|---|---|---|---|"
    rows: dict[tuple[Operation, When, JobState | None, frozenset[str]], list[Transition]] = {}
    for step in TRANSITIONS:
        unchanged = step.source is not None and step.source == step.target
        goal = None if unchanged else step.target
        rows.setdefault((step.operation, step.when, goal, step.touches), []).append(step)
    for (operation, when, _, touches), steps in rows.items():
        sources = ", ".join(f"`{step.source}`" if step.source else "–" for step in steps)
        yield f"| {operation} | {sources} | {_goal(steps)} | {when} | {_touched(touches)} |"


def _goal(steps: Iterable[Transition]) -> str:
    first = next(iter(steps))
    if first.target is None:
        return "gone"
    return "unchanged" if first.source == first.target else f"`{first.target}`"


def _touched(touches: frozenset[str]) -> str:
    if len(touches) == len(COLUMNS):
        return "the whole row"
    return ", ".join(column for column in COLUMNS if column in touches) or "nothing"


if __name__ == "__main__":
    sys.stdout.write(render_lifecycle())
