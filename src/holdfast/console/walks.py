"""Ways through the jobs that match a query: from the latest backwards, as far as somebody wants to go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from holdfast.domain.search import Field, Matches, Query, possible_states
from holdfast.domain.states import ARCHIVED, HELD, JobState
from holdfast.errors import InvalidArgument
from holdfast.store.calls import reading, searching
from holdfast.store.calls.searching import PAGES, SLICES, Place, Snapshot
from holdfast.store.steps import Steps, ask

RARE: Final = 10_000
"""A tag that fewer jobs have is looked up; a more common one is met soon enough among the latest jobs."""

TOP: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a list of jobs, behind the one it names. Text for addresses: `str`, and `read`."""

    number: int
    ended_at: datetime | None = None

    def __str__(self) -> str:
        return str(self.number) if self.ended_at is None else f"{self.number}~{self.ended_at.isoformat()}"

    @classmethod
    def read(cls, text: str) -> Cursor:
        """The place this text names; raise InvalidArgument."""
        number, tilde, moment = text.partition("~")
        try:
            cursor = cls(int(number), datetime.fromisoformat(moment) if tilde else None)
        except ValueError:
            raise InvalidArgument(f"{text!r} is no place in a list of jobs") from None
        if not 0 <= cursor.number <= TOP or (cursor.ended_at and cursor.ended_at.tzinfo is None):
            raise InvalidArgument(f"{text!r} is no place in a list of jobs")
        return cursor


class Walk(ABC):
    """One way. `looked` counts jobs read one by one, which is what a search must not do without end."""

    def __init__(self, query: Query, after: Cursor | None, until: Snapshot | None) -> None:
        self.cursor = after
        self.looked = 0
        self.ended = False
        self._query = query
        self._until = until

    @abstractmethod
    def take(self, most: int) -> Steps[list[Cursor]]:
        """The next jobs that match, at most so many; none does not mean that there are no more."""

    def count(self) -> Steps[int]:
        """How many match in the next part of the way."""
        return len((yield from self.take(PAGES[-1])))


class Nowhere(Walk):
    """No job can match."""

    def take(self, most: int) -> Steps[list[Cursor]]:
        self.ended = True
        yield from ()
        return []


class Latest(Walk):
    """Through all jobs there are, the latest first, a slice at a time; the slices grow."""

    def __init__(
        self, query: Query, after: Cursor | None, until: Snapshot | None, places: Sequence[Place]
    ) -> None:
        super().__init__(query, after, until)
        self._places = places
        self._size = 0

    def take(self, most: int) -> Steps[list[Cursor]]:
        seen = yield from self._look(most)
        found = [Cursor(number) for number in seen.numbers]
        if seen.matching > len(found):
            # The rest of the slice is looked at again, from behind the last one taken; so make it shorter.
            self.ended = False
            self.cursor = found[-1]
            self._size = 0
        return found

    def count(self) -> Steps[int]:
        seen = yield from self._look(0)
        return seen.matching

    def _look(self, most: int) -> Steps[searching.Seen]:
        size = SLICES[min(self._size, len(SLICES) - 1)]
        below = self.cursor.number if self.cursor else TOP
        seen = yield from ask(
            searching.look(self._query, self._places, below=below, slice_=size, most=most, until=self._until)
        )
        self._size += 1
        self.looked += seen.looked
        self.ended = seen.looked < size
        if seen.lowest is not None:
            self.cursor = Cursor(seen.lowest)
        return seen


class Dead(Walk):
    """Through the dead, those that died last first."""

    def take(self, most: int) -> Steps[list[Cursor]]:
        page = next(size for size in PAGES if size >= most)
        place = self.cursor
        below = (place.ended_at, place.number) if place and place.ended_at else None
        answer = yield from ask(searching.dead_jobs(self._query, below=below, page=page, until=self._until))
        found = [Cursor(number, ended_at) for ended_at, number in answer[:most]]
        self.ended = len(answer) < page and len(answer) <= most
        self.cursor = found[-1] if found else place
        return found

    def count(self) -> Steps[int]:
        if self.cursor is None:
            jobs = yield from ask(searching.count_dead_jobs(self._query, until=self._until))
            if jobs < PAGES[-1]:
                self.ended = True
                return jobs
        # Too many for one statement: page by page.
        return (yield from super().count())


class Among(Walk):
    """Through jobs that an index has found."""

    def __init__(
        self, query: Query, after: Cursor | None, until: Snapshot | None, numbers: Sequence[int]
    ) -> None:
        super().__init__(query, after, until)
        self._numbers = numbers
        self._left: list[int] | None = None

    def take(self, most: int) -> Steps[list[Cursor]]:
        if self._left is None:
            below = self.cursor.number if self.cursor else TOP
            matching = yield from ask(searching.among(self._query, self._numbers, until=self._until))
            self._left = [number for number in matching if number < below]
        found, self._left = self._left[:most], self._left[most:]
        self.ended = not self._left
        if found:
            self.cursor = Cursor(found[-1])
        return [Cursor(number) for number in found]


def walk(query: Query, after: Cursor | None = None, until: Snapshot | None = None) -> Steps[Walk]:
    """The shortest way that is known."""
    states = possible_states(query)
    if not states:
        return Nowhere(query, after, until)
    if job_ids := _only_values(query, Field.ID):
        return Among(query, after, until, (yield from ask(searching.numbers_of(job_ids[0]))))
    if states <= {JobState.DEAD}:
        return Dead(query, after, until)
    if states <= HELD:
        return Among(query, after, until, (yield from ask(reading.held_jobs())))
    for tags in _only_values(query, Field.TAG):
        numbers = yield from _tagged(tags)
        if numbers is not None:
            return Among(query, after, until, numbers)
    return Latest(query, after, until, _places(states))


def _only_values(query: Query, field: Field) -> list[list[str]]:
    """The alternatives of each term about this field that asks for certain values."""
    return [
        [value.text for value in term.values]
        for term in query.terms
        if isinstance(term, Matches)
        and term.field is field
        and not term.negated
        and not any(value.glob for value in term.values)
    ]


def _tagged(tags: list[str]) -> Steps[list[int] | None]:
    """Jobs that have one of these tags; None if there are many."""
    numbers: set[int] = set()
    for tag in tags:
        numbers.update((yield from ask(reading.tagged_jobs([tag], RARE))))
        if len(numbers) >= RARE:
            return None
    return sorted(numbers)


def _places(states: frozenset[JobState]) -> list[Place]:
    places: list[Place] = []
    if states - ARCHIVED:
        places.append("live")
    if states & ARCHIVED:
        places.append("archived")
    return places
