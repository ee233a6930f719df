"""Jobs by a query: a page of them, and how many there are.

The latest submitted come first; dead ones by their end, if the query is about dead ones only. Where no index
helps, the latest jobs are looked at one by one, and the answer says where it stopped looking.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Final

from holdfast.console.walks import Cursor, walk
from holdfast.domain.job import Job
from holdfast.domain.search import Query
from holdfast.errors import InvalidArgument
from holdfast.store.calls import searching
from holdfast.store.calls.searching import Snapshot
from holdfast.store.steps import Steps, ask
from holdfast.store.values import LightJob

MOST_LOOKED: Final = 100_000
"""How many jobs a search goes through before it stops and says so."""

MOST_COUNTED: Final = 10_000
LARGEST_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Page:
    """Some jobs, and where the next page begins; None: that was all.

    `stopped_after`: so many jobs were looked at, then the search stopped; there may be more further back.
    """

    jobs: tuple[Job, ...]
    next: Cursor | None
    stopped_after: int | None = None


@dataclass(frozen=True, slots=True)
class LightPage:
    """The same for lists, in which jobs come without what is large."""

    jobs: tuple[LightJob, ...]
    next: Cursor | None
    stopped_after: int | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """How many jobs match, and as of when. Whoever acts on them names that moment.

    `at_least`: there are more, counting ended. `stopped_after`: looking ended after so many jobs.
    """

    jobs: int
    at_least: bool
    stopped_after: int | None
    snapshot: Snapshot

    @property
    def is_capped(self) -> bool:
        """Whether there may be more."""
        return self.at_least or self.stopped_after is not None

    def __str__(self) -> str:
        return f"{self.jobs:,}{'+' if self.at_least else ''}"


@dataclass(frozen=True, slots=True)
class _Found:
    """Where the jobs of a page are, and where the next begins."""

    numbers: list[int]
    next: Cursor | None
    stopped_after: int | None = None


def page(query: Query, limit: int = 100, after: Cursor | None = None) -> Steps[Page]:
    """The jobs that match, the latest first, from behind the cursor on."""
    found = yield from _find(query, limit, after, inf)
    jobs = (yield from ask(searching.details(found.numbers))) if found.numbers else []
    return Page(tuple(jobs), found.next, found.stopped_after)


def light_page(
    query: Query, limit: int = 100, after: Cursor | None = None, *, patience_s: float = inf
) -> Steps[LightPage]:
    """The same for whoever looks at a list: without what is large, and without looking for long."""
    found = yield from _find(query, limit, after, patience_s)
    jobs = (yield from ask(searching.light_details(found.numbers))) if found.numbers else []
    return LightPage(tuple(jobs), found.next, found.stopped_after)


def _find(query: Query, limit: int, after: Cursor | None, patience_s: float) -> Steps[_Found]:
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidArgument(f"a page has 1 to {LARGEST_PAGE} jobs, not {limit}")
    until = monotonic() + patience_s
    way = yield from walk(query, after)
    found: list[Cursor] = []
    while not way.ended and len(found) <= limit and way.looked < MOST_LOOKED:
        found += yield from way.take(limit + 1 - len(found))
        if monotonic() > until:
            break
    numbers = [each.number for each in found[:limit]]
    if len(found) > limit:
        return _Found(numbers, found[limit - 1])
    return _Found(numbers, None) if way.ended else _Found(numbers, way.cursor, way.looked)


def count(
    query: Query,
    most: int = MOST_COUNTED,
    *,
    thorough: bool = False,
    until: Snapshot | None = None,
    patience_s: float = inf,
) -> Steps[Count]:
    """How many jobs match, counted no further than this; thorough: however many have to be looked at.

    As of now, or as of a moment before. Looking ends when patience does.
    """
    over = monotonic() + patience_s
    snapshot = until or (yield from ask(searching.snapshot()))
    way = yield from walk(query, until=snapshot)
    total = 0
    while not way.ended and total <= most and (thorough or way.looked < MOST_LOOKED):
        total += yield from way.count()
        if monotonic() > over:
            break
    stopped = None if way.ended or total > most else way.looked
    return Count(min(total, most), total > most, stopped, snapshot)
