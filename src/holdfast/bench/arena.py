"""Where a scenario runs: a scratch database with the engine and the bare queue in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import psycopg

from holdfast.bench.contenders import Bench
from holdfast.bench.costs import Meter
from holdfast.bench.pgbench import find_pgbench
from holdfast.bench.registry import Scenario
from holdfast.bench.report import Finding, Report
from holdfast.bench.scratch import Say, scratch_database
from holdfast.engine.connect import connect


@dataclass(frozen=True, slots=True)
class Arena:
    """The database and what measures it, and what was asked for."""

    database: str
    conn: psycopg.Connection[Any]
    bench: Bench
    meter: Meter
    jobs: int
    options: Mapping[str, Any]
    say: Say


Measure = Callable[[Arena], Finding]


def run(scenario: Scenario, jobs: int, options: Mapping[str, Any], dsn: str | None, say: Say) -> Report:
    """Run a scenario in a scratch database, which is dropped at the end."""
    began_s = time.monotonic()
    measure: Measure = import_module(scenario.module).measure
    with _arena(dsn, jobs, options, say) as arena:
        version, durable = arena.bench.server()
        if not durable:
            say("This server does not wait for the disk at a commit (fsync or synchronous_commit is off).")
        finding = measure(arena)
    return Report(scenario.name, scenario.goal, finding, version, durable, time.monotonic() - began_s)


@contextmanager
def beside(arena: Arena) -> Generator[Arena]:
    """Another one on the same server, for what is there to stay while both are measured in turns."""
    with _arena(arena.database, arena.jobs, arena.options, arena.say) as other:
        yield other


@contextmanager
def _arena(dsn: str | None, jobs: int, options: Mapping[str, Any], say: Say) -> Generator[Arena]:
    program = find_pgbench()
    with scratch_database(dsn, say) as database, connect(database, "holdfast bench") as conn:
        meter = Meter(conn)
        bench = Bench(conn, database, program, meter)
        bench.install()
        yield Arena(database, conn, bench, meter, jobs, options, say)
