"""How quickly jobs are enqueued one by one, beside a bare prepared insert of the same row.

Both wait for the disk at every job, which hides what they cost: so the same without that wait, too.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from itertools import count

from holdfast.app import Holdfast
from holdfast.bench import tasks
from holdfast.bench.arena import Arena
from holdfast.bench.costs import Costs
from holdfast.bench.percentiles import percentile
from holdfast.bench.pgbench import with_options
from holdfast.bench.report import Figure, Finding
from holdfast.engine.connect import connect

ROUNDS = 20
NO_WAIT = "-c synchronous_commit=off"

_INSERT = """
insert into holdfast_bench.twin (queue, task, payload, available_at, created_at)
values (%s, %s, %s::jsonb, clock_timestamp(), clock_timestamp())
returning id
"""


def measure(arena: Arena) -> Finding:
    """In turns: enqueue and the bare insert, each with and without the disk; then many tasks at once."""
    tasks.clear(arena.conn)
    arena.conn.execute("select holdfast_bench.make_twin()")
    each = max(1, arena.jobs // ROUNDS)
    numbers = count()
    ours: dict[str, list[float]] = {"": [], NO_WAIT: []}
    bare: dict[str, list[float]] = {"": [], NO_WAIT: []}
    costs = Costs()
    arena.say(f"{ROUNDS} times {each} jobs one by one, and bare inserts, with and without the disk")
    for _ in range(ROUNDS):
        for options in ("", NO_WAIT):
            dsn = with_options(arena.database, options)
            with arena.meter.over(1 + each) as phase:
                ours[options] += _enqueued_ms(dsn, each, numbers)
            costs = costs + phase.costs if options == "" else costs
            bare[options] += _inserted_ms(dsn, each)
    at_once = arena.options["tasks"]
    arena.say(f"{arena.jobs} jobs by {at_once} tasks at once")
    together_s = asyncio.run(_together(arena.database, at_once, arena.jobs, numbers))
    together = arena.jobs / together_s
    total = next(numbers)
    arena.say("Running them, to see that all are there")
    arena.bench.take_all_with_floor(total, 1_000)
    undurable, bare_undurable = _rate(ours[NO_WAIT]), _rate(bare[NO_WAIT])
    return Finding(
        jobs=ROUNDS * each,
        jobs_per_s=_rate(ours[""]),
        reference_jobs_per_s=_rate(bare[""]),
        exactly_once=tasks.all_completed(arena.conn, total),
        costs=costs,
        measured="enqueue, one after the other",
        reference="a prepared insert",
        figures=[
            Figure("without_disk_jobs_per_s", undurable, "enqueue, not waiting for the disk", "jobs/s"),
            Figure("without_disk_reference_jobs_per_s", bare_undurable, "an insert, likewise", "jobs/s"),
            Figure("without_disk_ratio", undurable / bare_undurable, "their ratio", digits=3),
            Figure("enqueue_p50_ms", percentile(ours[""], 50), "enqueue, p50", "ms", 3),
            Figure("enqueue_p99_ms", percentile(ours[""], 99), "enqueue, p99", "ms", 3),
            Figure("together_jobs_per_s", together, f"{at_once} tasks at once, aenqueue", "jobs/s"),
            Figure("tasks", at_once),
        ],
    )


def _rate(took_ms: list[float]) -> float:
    """Jobs per second of the median: one commit that waited for somebody else's does not count for ten."""
    return 1e3 / percentile(took_ms, 50)


def _enqueued_ms(dsn: str, jobs: int, numbers: count[int]) -> list[float]:
    with Holdfast(dsn) as app:
        task = tasks.define_noop(app)
        return _timed_ms(jobs, lambda: task.enqueue(next(numbers)))


def _inserted_ms(dsn: str, jobs: int) -> list[float]:
    with connect(dsn, "holdfast bench") as conn:

        def insert() -> None:
            payload = json.dumps({"args": [1], "kwargs": {}})
            conn.execute(_INSERT, ("default", tasks.NAME, payload), prepare=True).fetchone()

        return _timed_ms(jobs, insert)


async def _together(dsn: str, at_once: int, jobs: int, numbers: count[int]) -> float:
    async with Holdfast(dsn) as app:
        task = tasks.define_noop(app)
        wanted = iter([next(numbers) for _ in range(jobs)])
        await (await app.stores.asynchronous()).resource_capacity("none")

        async def enqueue() -> None:
            for number in wanted:
                await task.aenqueue(number)

        began_s = time.perf_counter()
        await asyncio.gather(*(enqueue() for _ in range(at_once)))
        return time.perf_counter() - began_s


def _timed_ms(jobs: int, act: Callable[[], object]) -> list[float]:
    act()  # it connects, and plans
    found: list[float] = []
    for _ in range(jobs):
        began_s = time.perf_counter()
        act()
        found.append((time.perf_counter() - began_s) * 1e3)
    return found
