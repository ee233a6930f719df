"""Dead letters by what they died of."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from holdfast.domain.search import Field, Matches, Query, Text
from holdfast.domain.states import JobState
from holdfast.store.calls import searching
from holdfast.store.calls.searching import DeadGroup
from holdfast.store.steps import Steps, ask

MOST_GROUPED: Final = 10_000
"""Of so many that died last."""

MOST_GROUPS: Final = 200


@dataclass(frozen=True, slots=True)
class DeadGroups:
    """Dead jobs by task and first line of the error; `capped`: there are more that died earlier."""

    groups: tuple[DeadGroup, ...]
    capped: bool


def groups() -> Steps[DeadGroups]:
    """What the latest dead jobs died of, the most frequent first."""
    found, looked = yield from ask(searching.dead_groups(MOST_GROUPED, MOST_GROUPS))
    return DeadGroups(tuple(found), looked >= MOST_GROUPED)


def query_of(group: DeadGroup) -> Query:
    """Finds the jobs of a group: those whose error has the line somewhere."""
    return Query(
        (
            Matches(Field.STATE, (Text(JobState.DEAD),)),
            _having(Field.TASK, group.task),
            _having(Field.ERROR, group.error),
        )
    )


def fingerprint(group: DeadGroup) -> str:
    """The same for the same task and line, here and tomorrow."""
    return sha256(f"{group.task or ''}\0{group.error or ''}".encode(errors="replace")).hexdigest()[:16]


def _having(field: Field, value: str | None) -> Matches:
    return Matches(field, (Text(value),)) if value else Matches(field, (Text("*", glob=True),), negated=True)
