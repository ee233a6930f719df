"""How quickly many jobs are enqueued at once, beside the bare statement: insert … select … from unnest."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

from holdfast.app import Holdfast
from holdfast.bench import tasks
from holdfast.bench.arena import Arena
from holdfast.bench.costs import Costs
from holdfast.bench.report import Figure, Finding

# The rows enqueue_many makes, into a table like its own. Whoever does this writes the JSON as well.
_INSERT = """
insert into holdfast_bench.twin (queue, task, payload, available_at, created_at)
select given.queue, given.task, given.payload, clock_timestamp(), clock_timestamp()
from unnest(%s::text[], %s::text[], %s::jsonb[]) as given (queue, task, payload)
"""


def measure(arena: Arena) -> Finding:
    """In turns, call by call: enqueue_many without handles, the bare insert, enqueue_many with handles."""
    batch = min(arena.options["batch"], arena.jobs)
    tasks.clear(arena.conn)
    arena.conn.execute("select holdfast_bench.make_twin()")
    arena.say(f"{arena.jobs:,} jobs in calls of {batch:,}, with and without handles, and by a bare insert")
    costs, quiet_s, bare_s, handles_s = Costs(), 0.0, 0.0, 0.0
    for turn, start in enumerate(range(0, arena.jobs, batch)):
        numbers = range(start, min(arena.jobs, start + batch))
        # Whoever comes first finds another cache and disk than the last: everyone is first sometimes.
        for place in range(3):
            match (turn + place) % 3:
                case 0:
                    with _app(arena) as app, arena.meter.over(len(numbers)) as phase:
                        quiet_s += _timed(partial(_enqueue, app, numbers, handles=False))
                        app.close()
                    costs += phase.costs
                case 1:
                    bare_s += _timed(partial(_insert, arena, numbers))
                case _:
                    others = range(arena.jobs + numbers.start, arena.jobs + numbers.stop)
                    with _app(arena) as app:
                        handles_s += _timed(partial(_enqueue, app, others, handles=True))
    arena.say("Running them, to see that all are there")
    arena.bench.take_all_with_floor(2 * arena.jobs, 1_000)
    return Finding(
        jobs=arena.jobs,
        jobs_per_s=arena.jobs / quiet_s,
        reference_jobs_per_s=arena.jobs / bare_s,
        exactly_once=tasks.all_completed(arena.conn, 2 * arena.jobs),
        costs=costs,
        measured="enqueue_many(..., returning=False)",
        reference="insert … select … from unnest",
        figures=[
            Figure("handles_jobs_per_s", arena.jobs / handles_s, "enqueue_many, with handles", "jobs/s"),
            Figure("handles_ratio", bare_s / handles_s, "its ratio", digits=3),
            Figure("batch", batch, "jobs of a call"),
        ],
    )


def _app(arena: Arena) -> Holdfast:
    """An app that has connected."""
    app = Holdfast(arena.database)
    tasks.define_noop(app)
    app.stores.blocking().resource_capacity("none")
    return app


def _enqueue(app: Holdfast, numbers: range, *, handles: bool) -> None:
    task = tasks.noop_of(app)
    if handles:
        app.enqueue_many(task.job(number) for number in numbers)
    else:
        app.enqueue_many((task.job(number) for number in numbers), returning=False)


def _insert(arena: Arena, numbers: range) -> None:
    payloads = [json.dumps({"args": [number], "kwargs": {}}) for number in numbers]
    count = len(payloads)
    arena.conn.execute(_INSERT, (["default"] * count, [tasks.NAME] * count, payloads))


def _timed(act: Callable[[], None]) -> float:
    began_s = time.perf_counter()
    act()
    return time.perf_counter() - began_s
