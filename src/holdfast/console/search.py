"""Jobs by a query: a page of them, and how many there are.

The latest submitted come first; dead ones by their end, if the query is about dead ones only. Where no index
helps, the latest jobs are looked at one by one, and the answer says where it stopped looking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from holdfast.console.walks import Cursor, walk
from holdfast.domain.job import Job
from holdfast.domain.search import Query
from holdfast.errors import InvalidArgument
from holdfast.store.calls import searching
from holdfast.store.calls.searching import Snapshot
from holdfast.store.steps import Steps, ask

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


def page(query: Query, limit: int = 100, after: Cursor | None = None) -> Steps[Page]:
    """The jobs that match, the latest first, from behind the cursor on."""
    if not 1 <= limit <= LARGEST_PAGE:
        raise InvalidArgument(f"a page has 1 to {LARGEST_PAGE} jobs, not {limit}")
    way = yield from walk(query, after)
    found: list[Cursor] = []
    while not way.ended and len(found) <= limit and way.looked < MOST_LOOKED:
        found += yield from way.take(limit + 1 - len(found))
    shown = found[:limit]
    jobs = tuple((yield from ask(searching.details([each.number for each in shown])))) if shown else ()
    if len(found) > limit:
        return Page(jobs, shown[-1])
    return Page(jobs, None) if way.ended else Page(jobs, way.cursor, way.looked)


def count(
    query: Query, most: int = MOST_COUNTED, *, thorough: bool = False, until: Snapshot | None = None
) -> Steps[Count]:
    """How many jobs match, counted no further than this; thorough: however many have to be looked at.

    As of now, or as of a moment before.
    """
    snapshot = until or (yield from ask(searching.snapshot()))
    way = yield from walk(query, until=snapshot)
    total = 0
    while not way.ended and total <= most and (thorough or way.looked < MOST_LOOKED):
        total += yield from way.count()
    stopped = None if way.ended or total > most else way.looked
    return Count(min(total, most), total > most, stopped, snapshot)
