"""Doing something to all jobs that match a query, as they were when they were counted.

Jobs that came or ended after that moment are left alone. It goes in chunks, each its own transaction, so it
can be watched, stopped and begun again; what has been done by then stays done. Before a chunk is changed the
query is asked again of its jobs, because others work on them too.

A submission that had begun by that moment and is committed only later counts as having been there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from holdfast.console.walks import walk
from holdfast.domain.search import Query, possible_states, with_states
from holdfast.domain.states import FINISHED, JobState
from holdfast.errors import InvalidArgument, JobNotFound, WrongState
from holdfast.store import Call
from holdfast.store.calls import searching
from holdfast.store.calls.searching import Changed, Snapshot
from holdfast.store.steps import Steps, ask

CHUNK: Final = 500

CALL_S: Final = 60.0
"""How long a chunk may take: a cancelled job may have thousands that wait for it."""


class Action(StrEnum):
    """What can be done to many jobs at once."""

    CANCEL = "cancel"
    RETRY = "retry"
    DELETE = "delete"


POSSIBLE: Final = {
    Action.CANCEL: frozenset(JobState) - FINISHED | {JobState.DEAD},
    Action.RETRY: frozenset({JobState.DEAD}),
    Action.DELETE: FINISHED,
}
"""The states in which it can be done."""

USUAL: Final = {
    Action.CANCEL: frozenset(JobState) - FINISHED - {JobState.CANCELLING},
    Action.RETRY: POSSIBLE[Action.RETRY],
    Action.DELETE: POSSIBLE[Action.DELETE],
}
"""The states that are meant where the query names none: whoever cancels a queue does not mean its dead."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it has come: the ids of the last chunk, and in all how many were changed or refused."""

    job_ids: tuple[str, ...]
    changed: int
    refused: int


@dataclass(frozen=True, slots=True)
class Done:
    """What it came to. `refused` stood in another state by then, or others wait for them; with one reason."""

    changed: int
    refused: int
    reason: str | None


def meant_by(query: Query, action: Action) -> Query:
    """The jobs of the query to which the action can be done; raise InvalidArgument if there cannot be any."""
    states = possible_states(query)
    if not states & POSSIBLE[action]:
        possible = ", ".join(state for state in JobState if state in POSSIBLE[action])
        raise InvalidArgument(f"no job of this query can be {_PAST[action]}: it must be in {possible}")
    named = states != frozenset(JobState)
    meant = POSSIBLE[action] if named else USUAL[action]
    return with_states(query, [state for state in JobState if state in states & meant])


_PAST: Final = {Action.CANCEL: "cancelled", Action.RETRY: "retried", Action.DELETE: "deleted"}


def act(
    action: Action,
    query: Query,
    until: Snapshot,
    *,
    reason: str | None = None,
    most: int | None = None,
    told: Callable[[Progress], None] = lambda progress: None,
) -> Steps[Done]:
    """Do it to all that match as of that moment, at most so many, and tell of every chunk."""
    meant = meant_by(query, action)
    way = yield from walk(meant, until=until)
    changed = refused = taken = 0
    why: str | None = None
    while not way.ended and (most is None or taken < most):
        found = yield from way.take(CHUNK if most is None else min(CHUNK, most - taken))
        taken += len(found)
        chunk = yield from _change(action, meant, [each.number for each in found], until, reason)
        changed += len(chunk.job_ids)
        refused += chunk.refused
        why = chunk.reason or why
        told(Progress(chunk.job_ids, changed, refused))
    return Done(changed, refused, why)


@dataclass(frozen=True, slots=True)
class _Chunk:
    job_ids: tuple[str, ...]
    refused: int = 0
    reason: str | None = None


def _change(
    action: Action, query: Query, numbers: Sequence[int], until: Snapshot, reason: str | None
) -> Steps[_Chunk]:
    if not numbers:
        return _Chunk(())
    try:
        answer = yield from ask(_call(action, query, numbers, until, reason))
    except (WrongState, JobNotFound) as error:
        if len(numbers) == 1:
            return _Chunk((), 1, str(error))
    else:
        return _Chunk(answer.job_ids)
    # One of them stands in the way of all: in halves, until it is found.
    half = len(numbers) // 2
    first = yield from _change(action, query, numbers[:half], until, reason)
    second = yield from _change(action, query, numbers[half:], until, reason)
    return _Chunk(
        first.job_ids + second.job_ids, first.refused + second.refused, first.reason or second.reason
    )


def _call(
    action: Action, query: Query, numbers: Sequence[int], until: Snapshot, reason: str | None
) -> Call[Changed]:
    match action:
        case Action.CANCEL:
            return searching.cancel_found(query, numbers, until, reason, timeout_s=CALL_S)
        case Action.RETRY:
            return searching.revive_found(query, numbers, until, timeout_s=CALL_S)
        case Action.DELETE:
            return searching.delete_found(query, numbers, until, timeout_s=CALL_S)
        case _:
            assert_never(action)
