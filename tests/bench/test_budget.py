"""What ten thousand jobs may cost, in counts, which do not depend on how quick the machine is.

Rows that come and go are counted exactly; a claim updates each job once, and the keeper may extend what is
held when it first looks. Statements of a worker depend on how many jobs have gathered when it speaks: 30 to
70 for ten thousand jobs, so the budget leaves room for a busy machine, and none for a statement per job.
The one row more is the worker's own, in which it says that it is there. Claims of many jobs are rows, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import psycopg
import pytest

from holdfast.app import Holdfast
from holdfast.bench import tasks
from holdfast.bench.costs import Costs, Meter
from tests.conftest import Connect

JOBS = 10_000
CALL = 1_000


EXTENDED = 2_000
"""How many jobs may be held, in all, when a worker's keeper looks for the first time, and again."""


CLAIMS = 200
"""How many claims a worker may write down: none is for less than twenty jobs."""


class Budget(NamedTuple):
    """Of each phase. Rows inserted and deleted are exact but for claims, rows updated at least this, the rest
    at most."""

    inserted: int
    deleted: int
    updated: int
    queries: int
    commits: int
    signals: int


BUDGETS = {
    #                                    inserted  deleted  updated  queries  commits  signals
    "enqueue a thousand a call": Budget(JOBS, 0, 0, 10, 12, 10),
    "enqueue one by one": Budget(100, 0, 0, 100, 102, 100),
    "enqueue by a hundred tasks": Budget(100, 0, 0, 10, 12, 10),
    "run by a worker": Budget(JOBS + 1, JOBS, JOBS, 200, 210, 0),
    "run by a worker, with keys": Budget(2 * JOBS + 1, 2 * JOBS, JOBS, 200, 210, 0),
}


@pytest.fixture
def app(database: str) -> Holdfast:
    app = Holdfast(database)
    tasks.define_noop(app)
    app.database()
    return app


@pytest.fixture
def listener(database: str, connect: Connect) -> psycopg.Connection[Any]:
    conn = connect(database)
    conn.execute('listen "holdfast.need.default"')
    return conn


def spent(
    conn: psycopg.Connection[Any], listener: psycopg.Connection[Any], act: Callable[[], None]
) -> tuple[Costs, int]:
    """The costs of an act, and how many signals it sent."""
    meter = Meter(conn)
    meter.staying.append(listener.info.backend_pid)
    with meter.over(JOBS) as phase:
        act()
    return phase.costs, len(list(listener.notifies(timeout=0.1)))


def excess(costs: Costs, signals: int, budget: Budget) -> list[str]:
    """What was spent that the budget does not have, in words."""
    runs = bool(budget.updated)
    most = budget._asdict() | {
        "inserted": budget.inserted + runs * CLAIMS,
        "deleted": budget.deleted + runs * CLAIMS,
        "updated": budget.updated + runs * (EXTENDED + CLAIMS),
    }
    least = {"inserted": budget.inserted, "deleted": budget.deleted, "updated": budget.updated}
    found = {name: getattr(costs, name) for name in most if name != "signals"} | {"signals": signals}
    return [
        f"{name}: {found[name]}, not {least.get(name, 0)} to {most[name]}"
        for name in most
        if not least.get(name, 0) <= found[name] <= most[name]
    ]


def run_all(app: Holdfast) -> None:
    """A worker runs what is there. Its leases are long: none is extended, however slow the machine."""

    async def work() -> None:
        async with app.worker({"default": 500}, lease=600) as worker:
            await worker.drain()
        await app.aclose()

    asyncio.run(work())


def enqueue_many(app: Holdfast) -> None:
    task = tasks.noop_of(app)
    for start in range(0, JOBS, CALL):
        app.enqueue_many([task.job(number) for number in range(start, start + CALL)], returning=False)
    app.close()


def enqueue_one_by_one(app: Holdfast) -> None:
    task = tasks.noop_of(app)
    for number in range(100):
        task.enqueue(number)
    app.close()


def enqueue_by_tasks(app: Holdfast) -> None:
    """The first goes at once, and all others together when it is over, however slow the machine."""
    task = tasks.noop_of(app)

    async def enqueue() -> None:
        async with app:
            await asyncio.gather(*(task.aenqueue(number) for number in range(100)))

    asyncio.run(enqueue())


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("enqueue a thousand a call", enqueue_many),
        ("enqueue one by one", enqueue_one_by_one),
        ("enqueue by a hundred tasks", enqueue_by_tasks),
    ],
)
def test_enqueueing_stays_within_its_budget(
    name: str,
    act: Callable[[Holdfast], None],
    app: Holdfast,
    conn: psycopg.Connection[Any],
    listener: psycopg.Connection[Any],
) -> None:
    costs, signals = spent(conn, listener, lambda: act(app))
    assert excess(costs, signals, BUDGETS[name]) == []


@pytest.mark.parametrize("keys", [0, 1_000])
def test_running_ten_thousand_jobs_stays_within_its_budget(
    keys: int, app: Holdfast, conn: psycopg.Connection[Any], listener: psycopg.Connection[Any]
) -> None:
    tasks.enqueue(app, JOBS, (lambda number: {"singleton_key": f"key {number % keys}"}) if keys else None)
    app.close()
    list(listener.notifies(timeout=0.1))

    costs, signals = spent(conn, listener, lambda: run_all(app))

    budget = BUDGETS["run by a worker, with keys" if keys else "run by a worker"]
    assert excess(costs, signals, budget) == []
    assert conn.execute("select count(*) from holdfast.archived_jobs").fetchone() == (JOBS,)
