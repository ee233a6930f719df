"""What follows from a query before any job is looked at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.domain.search.terms import Field, Matches, Query, Text
from holdfast.domain.states import JobState

EVERY_STATE: Final = frozenset(JobState)


def possible_states(query: Query) -> frozenset[JobState]:
    """The states a job must be in to match; all of them where the query says nothing about states."""
    possible = EVERY_STATE
    for term in query.terms:
        if isinstance(term, Matches) and term.field is Field.STATE:
            named = frozenset(JobState(value.text) for value in term.values)
            possible = possible - named if term.negated else possible & named
    return possible


def with_states(query: Query, states: Iterable[JobState]) -> Query:
    """The query, of jobs in one of these states only."""
    return Query((*query.terms, Matches(Field.STATE, tuple(Text(state.value) for state in states))))
