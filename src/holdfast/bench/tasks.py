"""The task that does nothing, and backlogs of it, enqueued as any user would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import psycopg

from holdfast.app import Holdfast
from holdfast.tasks.options import Options
from holdfast.tasks.task import AsyncTask

NAME = "bench.noop"
CHUNK = 10_000

Noop = AsyncTask[[int], None]
OptionsOf = Callable[[int], Options]


def define_noop(app: Holdfast, begun: Callable[[int], None] = lambda _: None) -> Noop:
    """Give an app the task; each job says its number when it begins."""

    @app.task(name=NAME)
    async def noop(number: int) -> None:
        begun(number)

    return noop


def noop_of(app: Holdfast) -> Noop:
    """The task that `define_noop` gave an app."""
    task: Any = app.registry.get(NAME)
    return cast("Noop", task)


def enqueue(app: Holdfast, jobs: int, options_of: OptionsOf | None = None) -> None:
    """Enqueue jobs 0 to `jobs` of the app's task, with options for each."""
    task = noop_of(app)
    for start in range(0, jobs, CHUNK):
        numbers = range(start, min(jobs, start + CHUNK))
        if options_of is None:
            specs = [task.job(number) for number in numbers]
        else:
            specs = [task.using(**options_of(number)).job(number) for number in numbers]
        app.enqueue_many(specs, returning=False)


def clear(conn: psycopg.Connection[Any]) -> None:
    """Forget every job."""
    conn.execute("truncate holdfast.jobs, holdfast.archived_jobs, holdfast.holds, holdfast.job_waits")


def forget_done(conn: psycopg.Connection[Any]) -> None:
    """Forget what the task's jobs came to, and leave everything else as it is."""
    conn.execute("delete from holdfast.archived_jobs where task = %s", (NAME,))


def settle_down(conn: psycopg.Connection[Any]) -> None:
    """As autovacuum leaves a backlog that has been there for a minute; without it plans are made blind."""
    conn.execute("vacuum (analyze) holdfast.jobs")


def all_completed(conn: psycopg.Connection[Any], jobs: int) -> bool:
    """Whether jobs 0 to `jobs` were completed, each once and at the first attempt, and none is left."""
    row = conn.execute("select holdfast_bench.tasks_ran_each_once(%s, %s)", (NAME, jobs)).fetchone()
    return bool(row and row[0])
