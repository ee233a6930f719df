"""Whether a snapshot that somebody holds slows workers down: dead rows stay, and a claim may step over them.

The jobs that the snapshot sees come and go are run by pgbench, which is quicker; the worker then begins where
they left the table, and has to find out for itself where the line begins.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace

from psycopg import IsolationLevel

from holdfast.bench.arena import Arena, beside
from holdfast.bench.compared import Compared
from holdfast.bench.report import Figure, Finding
from holdfast.engine.connect import connect

BATCH = 1_000
SHARE = 0.4
"""The worker runs this share of the jobs afterwards, each time: so many that it takes seconds, because it
looks from the beginning when it begins, when it ends, and in between every five seconds at most."""


def measure(arena: Arena) -> Finding:
    """A worker without the snapshot, and one where it is held, in a database of its own, in turns."""
    after = max(1, int(arena.jobs * SHARE))
    with beside(arena) as holding, _snapshot(holding):
        arena.say(f"A snapshot is held while {arena.jobs:,} jobs come and go")
        holding.bench.fill_line(arena.jobs, "default")
        holding.bench.take_all_with_floor(arena.jobs, BATCH)
        holding.bench.let_settle()
        once = holding.bench.ran_each_once("engine", arena.jobs)
        compared = Compared.in_both(arena, holding, after, ("the snapshot still held", "no snapshot"))
    found = compared.finding(
        arena,
        "a worker, the snapshot held",
        "a worker, no snapshot",
        [Figure("after_jobs", after, "jobs it ran, each time")],
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
