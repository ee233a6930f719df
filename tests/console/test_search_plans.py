"""No search reads a whole table, among 1,000,000 archived, 200,000 waiting and 10,000 dead jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.console import dead, views
from holdfast.console.health import health
from holdfast.console.search import MOST_LOOKED, count, light_page, page
from holdfast.console.walks import RARE
from holdfast.domain.search import parse
from holdfast.engine import installer
from holdfast.store import SyncStore
from holdfast.store.base import Sql
from holdfast.store.calls.counting import count_ends, count_events, last_event
from holdfast.store.calls.searching import SLICES
from holdfast.store.steps import Pause, Steps, ask
from tests.conftest import Connect
from tests.databases import Databases, tidy
from tests.engine.plans import Plans, Reading

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

MOMENT = datetime.now(UTC)
MONTHS = (Path(__file__).parent / "months.sql").read_bytes()


@pytest.fixture(scope="module")
def crowded(databases: Databases) -> Generator[str]:
    name = databases.create()
    with psycopg.connect(databases.dsn(name), autocommit=True) as conn:
        installer.install(conn)
        conn.execute("set search_path = holdfast")
        conn.execute(MONTHS)
        tidy(conn)
    yield databases.dsn(name)
    databases.drop_later(name)


class Spy:
    """Goes through steps and notes what each call reads."""

    def __init__(self, store: SyncStore, plans: Plans) -> None:
        self._plans = plans
        self._store = store
        self._sql = Sql("holdfast")
        self.readings: list[Reading] = []

    def run(self, steps: Steps[Any]) -> Any:
        answer: Any = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value
            assert not isinstance(step, Pause)
            with self._plans.undone():
                sql = self._sql.of(step.statement).decode()
                self.readings.append(self._plans.read(sql, *step.parameters))
            answer = self._store.run(step)

    def excess(self) -> list[str]:
        """Whole tables that were read, and more rows than the longest look has."""
        said = [f"scanned {table}" for reading in self.readings for table in reading.scanned]
        most = max(*SLICES, RARE) + 1000
        return said + [
            f"{table}: {rows} rows"
            for each in self.readings
            for table, rows in each.fetched.items()
            if rows > most
        ]

    @property
    def fetched(self) -> int:
        return sum(sum(reading.fetched.values()) for reading in self.readings)


@pytest.fixture
def spy(crowded: str, connect: Connect) -> Generator[Spy]:
    with SyncStore(crowded) as store:
        yield Spy(store, Plans(connect(crowded)))


QUERIES = [
    "",
    "state:DEAD",
    'state:DEAD error:"timed out"',
    'state:DEAD queue:"queue 3" task:nobody',
    "state:RUNNING",
    "state:COMPLETED",
    "state:INITIAL_PENDING task:nobody",
    "tag:rare",
    "tag:common",
    "tag:nobody",
    "tag:common task:nobody",
    'queue:"queue 3"',
    "args.user:42",
    "id:j1011",
    "id:order*7",
    "worker:worker-3",
    'key:"key 7"',
    "status:READY",
    "age<1h",
    "finished<1h",
    "-state:COMPLETED -queue:nobody nothinglikeit",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_page_and_a_count_read_no_whole_table(spy: Spy, query: str) -> None:
    spy.run(page(parse(query)))
    assert spy.excess() == []
    assert spy.fetched < MOST_LOOKED + 2 * SLICES[-1]
    spy.run(count(parse(query)))
    assert spy.excess() == []


@pytest.mark.parametrize(
    "look",
    [
        # Ten queues: so many due and delayed jobs of each, and the dead and the blocked of all.
        lambda: views.queues(1000),
        lambda: views.stats(1000),
        views.glance,
        views.workers,
        views.resources,
        lambda: views.job_view("j1011"),
        lambda: light_page(parse("state:COMPLETED")),
        dead.groups,
        health,
        lambda: ask(count_ends(MOMENT - timedelta(minutes=1), MOMENT)),
        lambda: ask(count_events(299_000)),
        lambda: ask(last_event()),
    ],
)
def test_what_people_see_reads_no_whole_table(spy: Spy, look: Callable[[], Steps[Any]]) -> None:
    spy.run(look())
    assert spy.excess() == []


def test_a_queue_is_counted_no_further_than_ten_thousand(spy: Spy) -> None:
    seen = spy.run(views.queues())
    assert [reading.scanned for reading in spy.readings] == [frozenset(), frozenset()]
    read = Counter[str]()
    for step in (step for reading in spy.readings for step in reading.steps):
        read[step.table] += round(step.rows + step.in_vain)
    # The waiting of each queue; of all, the dead, the blocked, and for each of these what it waits for.
    most = views.MOST_COUNTED
    assert read["jobs"] < (len(seen.queues) + 2) * most + 1000
    assert read["job_waits"] <= most
    assert spy.fetched < (len(seen.queues) + 3) * most + 1000


def test_a_deep_page_reads_no_more_than_the_first(spy: Spy) -> None:
    first = spy.run(page(parse("state:COMPLETED")))
    top, spy.readings = spy.fetched, []
    deep = first.next
    for _ in range(3):
        deep = spy.run(page(parse("state:COMPLETED"), 1000, deep)).next
    spy.readings = []
    spy.run(page(parse("state:COMPLETED"), after=deep))
    assert spy.fetched < top + 200
