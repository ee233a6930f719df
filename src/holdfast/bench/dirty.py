"""Whether what is not to be run slows a worker down: finished and future jobs, blocked ones, busy keys."""

from __future__ import annotations

from dataclasses import replace

from holdfast.bench.arena import Arena, beside
from holdfast.bench.compared import Compared
from holdfast.bench.report import Figure, Finding

PART = 5
"""The worker runs this part of so many jobs, each time."""


def measure(arena: Arena) -> Finding:
    """A worker on clean tables, and one among the dirt in a database of its own, in turns."""
    good = max(1, arena.jobs // PART)
    with beside(arena) as dirty:
        arena.say(
            f"Filling in {arena.jobs:,} finished, as many future, a tenth blocked, a tenth on busy keys"
        )
        dirty.conn.execute("select holdfast_bench.fill_dirt(%s, %s)", (arena.jobs, "default"))
        dirty.bench.let_settle()
        compared = Compared.in_both(arena, dirty, good, ("among them", "clean tables"))
        row = dirty.conn.execute("select holdfast_bench.dirt_is_there(%s)", (arena.jobs,)).fetchone()
    found = compared.finding(
        arena,
        "a worker, dirty tables",
        "a worker, clean tables",
        [Figure("good_jobs", good, "jobs it ran, each time")],
    )
    return replace(found, exactly_once=found.exactly_once and bool(row and row[0]))
