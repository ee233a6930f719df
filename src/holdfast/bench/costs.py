"""What a phase of a measurement cost: WAL, commits, queries, dead tuples, CPU on both sides, memory.

Counts come from the server's own statistics, CPU of the server from the kernel where the server's processes
are on this machine. WAL and the server's CPU are those of the whole server: on one that serves others too
they are too high.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

import psycopg

from holdfast.bench import statements

GONE_S = 5.0
"""How long the sessions of a phase may take to go after it; a session hands in its counts when it ends."""

COLLECTOR_S = 0.6
"""Before PostgreSQL 15 a session hands in its counts when this long has passed since the last time."""

_COUNTS = """
select
  -- To begin a session is a transaction, too.
  (select xact_commit - sessions from pg_stat_database where datname = current_database()),
  coalesce(sum(n_tup_ins), 0), coalesce(sum(n_tup_upd), 0), coalesce(sum(n_tup_del), 0)
from pg_stat_user_tables
-- What a worker says of itself now and then is no cost of a job.
where schemaname in ('holdfast', 'holdfast_bench') and relname <> 'listeners'
"""

_OTHERS = """
select count(*) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
  and pid <> all (%s::integer[])
"""


@dataclass(frozen=True, slots=True)
class Costs:
    """Sums over a phase. None: nobody here can see it."""

    jobs: int = 0
    wal_bytes: int = 0
    commits: int = 0
    queries: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    python_cpu_s: float = 0.0
    postgres_cpu_s: float | None = 0.0
    peak_memory_mb: float = 0.0

    @property
    def dead_tuples(self) -> int:
        """Row versions that vacuum has to take away: an update or a delete leaves one each."""
        return self.updated + self.deleted

    def per_job(self, value: float | None, jobs: int = 1) -> float | None:
        return None if value is None else value * jobs / max(1, self.jobs)

    def __add__(self, other: Costs) -> Costs:
        known = self.postgres_cpu_s is not None and other.postgres_cpu_s is not None
        return Costs(
            jobs=self.jobs + other.jobs,
            wal_bytes=self.wal_bytes + other.wal_bytes,
            commits=self.commits + other.commits,
            queries=self.queries + other.queries,
            inserted=self.inserted + other.inserted,
            updated=self.updated + other.updated,
            deleted=self.deleted + other.deleted,
            python_cpu_s=self.python_cpu_s + other.python_cpu_s,
            postgres_cpu_s=(self.postgres_cpu_s or 0.0) + (other.postgres_cpu_s or 0.0) if known else None,
            peak_memory_mb=max(self.peak_memory_mb, other.peak_memory_mb),
        )


@dataclass(slots=True)
class Phase:
    """A phase under way. Add what other processes of ours did; `costs` are there when it is over."""

    jobs: int
    others: list[Costs] = field(default_factory=list[Costs])
    costs: Costs = field(default_factory=Costs)

    def add(self, costs: Costs) -> None:
        """What a process of ours reports of itself: CPU, queries and memory."""
        self.others.append(costs)


class Meter:
    """Reads the counters of the database a connection is in; what it asks itself is not counted."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn
        self._asked = 0
        self._flushes = conn.info.server_version >= 150000
        self.staying: list[int] = []
        """Sessions that stay open over the end of a phase, by their process numbers."""
        self._postmaster = _postmaster(conn)

    @contextmanager
    def over(self, jobs: int, *, by_pgbench: bool = False) -> Generator[Phase]:
        """Measure what happens within the block, for so many jobs.

        pgbench puts no statement into a transaction with another, so its queries are its commits.
        """
        phase = Phase(jobs)
        before, wal = self._counts(), self._wal_bytes()
        with statements.counted() as tally:
            cpu, server_cpu = time.process_time(), _cpu_s(self._postmaster)
            yield phase
            cpu, server_cpu = time.process_time() - cpu, _difference(_cpu_s(self._postmaster), server_cpu)
        wal = self._wal_bytes() - wal
        self._wait_for_others()
        commits, inserted, updated, deleted = (
            now - then for now, then in zip(self._counts(), before, strict=True)
        )
        own = Costs(
            jobs=jobs,
            wal_bytes=wal,
            commits=commits,
            queries=commits if by_pgbench else tally.count,
            inserted=inserted,
            updated=updated,
            deleted=deleted,
            python_cpu_s=cpu,
            postgres_cpu_s=server_cpu,
            peak_memory_mb=0.0 if phase.others else peak_mb(),
        )
        phase.costs = sum(phase.others, own)

    def _counts(self) -> list[int]:
        """What this session and those that ended have done so far."""
        if self._flushes:
            self._ask("select pg_stat_force_next_flush()")
        else:
            time.sleep(COLLECTOR_S)
            self._ask("select pg_stat_clear_snapshot()")
            time.sleep(COLLECTOR_S)
        known = self._asked
        commits, *rows = self._ask(_COUNTS)
        return [commits - known, *rows]

    def _wal_bytes(self) -> int:
        (wal_bytes,) = self._ask("select (pg_current_wal_insert_lsn() - '0/0')::bigint")
        return wal_bytes

    def _wait_for_others(self) -> None:
        deadline = time.monotonic() + GONE_S
        while self._ask(_OTHERS, self.staying) != [0] and time.monotonic() < deadline:
            time.sleep(0.005)

    def _ask(self, query: LiteralString, *parameters: object) -> list[int]:
        self._asked += 1
        row = self._conn.execute(query, parameters).fetchone()
        return [int(value) for value in row or () if value not in (None, "")]


def peak_mb() -> float:
    """The most memory this process had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024


def _postmaster(conn: psycopg.Connection[Any]) -> int | None:
    """The server's first process, if it is on this machine.

    A process with the number of our session need not be it: the server may be elsewhere, or in a container.
    It is if its title names our database, whose name nobody else has.
    """
    session = Path(f"/proc/{conn.info.backend_pid}")
    try:
        if conn.info.dbname.encode() not in (session / "cmdline").read_bytes():
            return None
        return int(_stat(session)[1])
    except (OSError, IndexError, ValueError):
        return None


def _cpu_s(postmaster: int | None) -> float | None:
    """Of all the server's processes: those that run, and those that ended, which the first one reaped."""
    if postmaster is None:
        return None
    ticks = 0
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            with suppress(OSError, IndexError, ValueError):
                stat = _stat(process)
                if int(process.name) == postmaster:
                    ticks += sum(map(int, stat[11:15]))
                elif int(stat[1]) == postmaster:
                    ticks += sum(map(int, stat[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(process: Path) -> list[str]:
    """What /proc says of a process after its name: state, parent, … from 11 utime, stime, cutime, cstime."""
    return (process / "stat").read_text().rpartition(")")[2].split()


def _difference(now: float | None, then: float | None) -> float | None:
    return None if now is None or then is None else now - then
