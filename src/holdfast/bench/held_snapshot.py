"""Whether a snapshot that somebody holds slows workers down: dead rows stay, and a claim may step over them.

The jobs that the snapshot sees come and go are run by pgbench, which is quicker; the worker then begins where
they left the table, and has to find out for itself where the line begins.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from psycopg import IsolationLevel

from holdfast.bench import crew, tasks
from holdfast.bench.arena import Arena
from holdfast.bench.compared import Compared
from holdfast.bench.report import Figure, Finding
from holdfast.engine.connect import connect

BATCH = 1_000
PART = 5
"""The worker runs this part of the jobs afterwards."""


def measure(arena: Arena) -> Finding:
    """A worker without the snapshot, with it, and without it again."""
    concurrency, after = arena.options["concurrency"], max(1, arena.jobs // PART)
    arena.say(f"A worker drains {after:,} jobs")
    before = crew.drain(arena, after, concurrency=concurrency)
    tasks.clear(arena.conn)
    with _snapshot(arena):
        arena.say(f"A snapshot is held while {arena.jobs:,} jobs come and go")
        arena.bench.fill_line(arena.jobs, "default")
        arena.bench.take_all_with_floor(arena.jobs, BATCH)
        arena.bench.let_settle()
        once = arena.bench.ran_each_once("engine", arena.jobs)
        arena.say(f"A worker drains {after:,} jobs, the snapshot still held")
        held = crew.drain(arena, after, concurrency=concurrency, clear=False)
    arena.say(f"A worker drains {after:,} jobs, the snapshot gone")
    again = crew.drain(arena, after, concurrency=concurrency)
    found = Compared((held,), (before, again)).finding(
        arena,
        "a worker, the snapshot held",
        "a worker, no snapshot",
        [Figure("after_jobs", after, "jobs it ran")],
    )
    return replace(found, exactly_once=found.exactly_once and once)


@contextmanager
def _snapshot(arena: Arena) -> Generator[None]:
    """Hold a snapshot and no lock. Its session is not waited for when a phase is over."""
    with connect(arena.database, "holdfast bench snapshot") as holder:
        holder.autocommit = False
        holder.isolation_level = IsolationLevel.REPEATABLE_READ
        holder.execute("select 1")
        arena.meter.staying.append(holder.info.backend_pid)
        yield
