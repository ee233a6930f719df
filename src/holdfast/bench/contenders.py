"""What is measured: the engine by two calls, by one call, and the bare queue, each on its own backlog."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg import sql

from holdfast.bench import pgbench
from holdfast.bench.costs import Costs, Meter
from holdfast.engine import installer

Name = Literal["engine", "one_call", "bare"]
NAMES: tuple[Name, ...] = ("engine", "one_call", "bare")

WARM_UP = 10
"""First calls of each session, for one job each, that do not count: it compiles functions and plans."""

_FIRST_TURN = {"turn": 0, "claimed": 0, "ids": "{}", "leases": "{}"}
_QUEUES: dict[Name, Literal["engine", "bare"]] = {"engine": "engine", "one_call": "engine", "bare": "bare"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table of results."""

    batch: int
    clients: int

    def __str__(self) -> str:
        return f"batch={self.batch},clients={self.clients}"


@dataclass(frozen=True, slots=True)
class Run:
    """One drain of one backlog by one contender."""

    jobs: int
    jobs_per_s: float
    costs: Costs
    exactly_once: bool

    @property
    def wal_bytes_per_job(self) -> float:
        return self.costs.wal_bytes / self.jobs


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims of one job each, settled afterwards."""

    latencies_ms: list[float]
    exactly_once: bool


class Bench:
    """The engine and the bare queue in one scratch database, and pgbench to drain them."""

    def __init__(
        self, conn: psycopg.Connection[Any], dsn: str, program: Path, meter: Meter | None = None
    ) -> None:
        self._conn = conn
        self._dsn = dsn
        self._program = program
        self._meter = meter or Meter(conn)

    def install(self) -> None:
        """Put both queues and what fills and judges them into the database."""
        installer.install(self._conn)
        for script in ("create schema holdfast_bench", _read("bare_queue"), _read("harness")):
            self._conn.execute(script.encode())

    def fill_line(self, jobs: int, queue: str) -> None:
        """Make a backlog of very many jobs, and nothing else."""
        self._conn.execute("select holdfast_bench.fill_line(%s, %s)", (jobs, queue))
        self.let_settle()

    def drain(self, name: Name, setting: Setting, turns: int) -> Run:
        """Fill a backlog, let each client claim and settle so many batches, and judge what is there then."""
        jobs = setting.clients * (WARM_UP + turns * setting.batch)
        self.fill(name, jobs)
        jobs_per_s, costs = self.take(name, setting, turns)
        return Run(jobs, jobs_per_s, costs, exactly_once=self.ran_each_once(name, jobs))

    def take(self, name: Name, setting: Setting, turns: int) -> tuple[float, Costs]:
        """Let each client claim and settle so many batches of what is there: jobs per second, and costs."""
        calls = WARM_UP + turns
        jobs = setting.clients * (WARM_UP + turns * setting.batch)
        with self._meter.over(jobs, by_pgbench=True) as phase:
            clients = pgbench.run(
                self._program,
                self._dsn,
                f"{name}.pgbench.sql",
                clients=setting.clients,
                # One call settles what the call before it claimed: there is one more, which does not count.
                transactions=calls + 1 if name == "one_call" else calls,
                variables={"batch": setting.batch, "warm_up": WARM_UP, "turns": calls, **_FIRST_TURN},
            )
        rate = setting.batch * pgbench.per_second([mine[WARM_UP:calls] for mine in clients])
        return rate, phase.costs

    def take_all_with_floor(self, jobs: int, batch: int) -> None:
        """Let one client run all of the workers' queue, each search beginning where the last one began."""
        turns = -(-jobs // batch)
        pgbench.run(
            self._program,
            self._dsn,
            "floored.pgbench.sql",
            transactions=turns + 1,
            variables={"batch": batch, "turns": turns, "floor": "-infinity", **_FIRST_TURN},
        )

    def claim_one_by_one(self, name: Name, claims: int, *, wait_for_disk: bool = True) -> Claims:
        """Let one client claim so many jobs one by one; they are settled when the clock has stopped."""
        jobs = WARM_UP + claims
        self.fill(name, jobs)
        (mine,) = pgbench.run(
            self._program,
            self._dsn,
            f"claim_{name}.pgbench.sql",
            transactions=jobs,
            options="" if wait_for_disk else "-c synchronous_commit=off",
        )
        self._call(f"settle_{_QUEUES[name]}")
        return Claims([done.latency_ms for done in mine[WARM_UP:]], self.ran_each_once(name, jobs))

    def server(self) -> tuple[str, bool]:
        """The server's version, and whether a commit there is on the disk when it is answered."""
        row = self._conn.execute(
            "select current_setting('server_version'), "
            "current_setting('fsync')::boolean and current_setting('synchronous_commit') <> 'off'"
        ).fetchone()
        version, durable = row or ("unknown", False)
        return version.split()[0], durable

    def fill(self, name: Name, jobs: int) -> None:
        """Make a backlog of so many jobs, and nothing else."""
        self._call(f"fill_{_QUEUES[name]}", jobs)
        # As autovacuum leaves a backlog that has been there for a minute; without it plans are made blind.
        self._conn.execute("vacuum (analyze) holdfast.jobs, holdfast_bench.jobs")

    def let_settle(self) -> None:
        """Leave what was filled in as it is a minute later: vacuumed, analysed, and on the disk.

        Else the server writes it out while the clock runs, if it may be asked to do so before.
        """
        self._conn.execute("vacuum (analyze)")
        with suppress(psycopg.errors.InsufficientPrivilege):
            self._conn.execute("checkpoint")

    def ran_each_once(self, name: Name, jobs: int, *left: int) -> bool:
        """Whether so many jobs were claimed once and completed once each, and so many, or none, are left."""
        return bool(self._call(f"{_QUEUES[name]}_ran_each_once", jobs, *left))

    def _call(self, function: str, *arguments: int) -> Any:
        call = sql.SQL("select {}({})").format(
            sql.Identifier("holdfast_bench", function), sql.SQL(", ").join(map(sql.Literal, arguments))
        )
        row = self._conn.execute(call).fetchone()
        return row[0] if row else None


def _read(name: str) -> str:
    return (pgbench.HERE / f"{name}.sql").read_text()
