"""Whether what is not to be run slows a worker down: finished and future jobs, blocked ones, busy keys."""

from __future__ import annotations

from dataclasses import replace

from holdfast.bench import crew, tasks
from holdfast.bench.arena import Arena
from holdfast.bench.compared import Compared
from holdfast.bench.report import Figure, Finding

PART = 10
"""The worker runs this part of so many jobs."""


def measure(arena: Arena) -> Finding:
    """A worker on clean tables, among the dirt, and on clean tables again."""
    concurrency, good = arena.options["concurrency"], max(1, arena.jobs // PART)
    arena.say(f"A worker drains {good:,} jobs, clean tables")
    before = crew.drain(arena, good, concurrency=concurrency)
    tasks.clear(arena.conn)
    arena.say(f"Filling in {arena.jobs:,} finished, as many future, a tenth blocked, a tenth on busy keys")
    arena.conn.execute("select holdfast_bench.fill_dirt(%s, %s)", (arena.jobs, "default"))
    arena.bench.let_settle()
    arena.say(f"A worker drains {good:,} jobs among them")
    among = crew.drain(arena, good, concurrency=concurrency, clear=False)
    row = arena.conn.execute("select holdfast_bench.dirt_is_there(%s)", (arena.jobs,)).fetchone()
    arena.say(f"A worker drains {good:,} jobs, clean tables again")
    again = crew.drain(arena, good, concurrency=concurrency)
    found = Compared((among,), (before, again)).finding(
        arena, "a worker, dirty tables", "a worker, clean tables", [Figure("good_jobs", good, "jobs it ran")]
    )
    return replace(found, exactly_once=found.exactly_once and bool(row and row[0]))
