"""What a call really reads: the blocks it touched, the rows it fetched, and the plans of its statements.

Three witnesses, because each sees something else. EXPLAIN counts the blocks of the whole call. The counters
of the transaction tell how many rows of each table were fetched. auto_explain, where the server has it, shows
the plan of every statement that a function ran.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

# The tables that grow. The others have a few rows, and are read as a whole for good reason.
GROWING = ("jobs", "archived_jobs", "job_names", "job_waits", "job_errors", "jobs_trace", "holds")

_AUTO_EXPLAIN = """
load 'auto_explain';
set auto_explain.log_min_duration = 0;
set auto_explain.log_nested_statements = on;
set auto_explain.log_analyze = on;
set auto_explain.log_buffers = on;
set auto_explain.log_timing = off;
set auto_explain.log_format = json;
"""

# The parts of a table are that table. To scan an empty part is to read nothing, and no harm.
_FETCHED = """
select
  coalesce(whole.relname, counted.relname) as relname,
  sum(case when counted.seq_tup_read > 0 then counted.seq_scan else 0 end)::integer,
  sum(counted.seq_tup_read + coalesce(counted.idx_tup_fetch, 0))::integer
from pg_stat_xact_user_tables counted
left join pg_inherits part on part.inhrelid = counted.relid
left join pg_class whole on whole.oid = part.inhparent
where counted.schemaname = 'holdfast' and coalesce(whole.relname, counted.relname) = any (%s)
group by 1
"""

_FORGET_STATISTICS = """
delete from pg_statistic
where starelid in (select oid from pg_class where relnamespace = 'holdfast'::regnamespace);
update pg_class
set relpages = 0, reltuples = -1, relallvisible = 0
where relnamespace = 'holdfast'::regnamespace and relkind in ('r', 'i');
"""


@dataclass(frozen=True, slots=True)
class Step:
    """One node of a plan: how many rows it gave in all its loops, and how many it read in vain."""

    kind: str
    table: str
    index: str
    rows: float
    in_vain: float
    statement: str

    def __str__(self) -> str:
        where = " ".join(word for word in (self.kind, self.table, self.index) if word)
        return f"{where}: {self.rows:.0f} rows, {self.in_vain:.0f} in vain; {self.statement}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one call read. `scanned` are the growing tables it read from one end to the other."""

    rows: int
    blocks: int
    fetched: Mapping[str, int]
    scanned: frozenset[str]
    steps: tuple[Step, ...]

    @property
    def sorted(self) -> float:
        """The most rows that a step had to put in order."""
        return max((step.rows for step in self.steps if "Sort" in step.kind), default=0)

    @property
    def in_vain(self) -> float:
        """The most rows that a step read and threw away."""
        return max((step.in_vain for step in self.steps), default=0)

    @property
    def widest(self) -> float:
        """The most rows that came out of one step."""
        return max((step.rows for step in self.steps), default=0)


class Plans:
    """Read calls over one connection, which it takes for itself."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self._logged: list[dict[str, Any]] = []
        self.shown = self._load()

    def _load(self) -> bool:
        """Ask for the plans inside; False if the server has no auto_explain."""
        try:
            self.conn.execute(_AUTO_EXPLAIN.encode())
        except psycopg.Error:
            return False
        self.conn.add_notice_handler(self._keep)
        return True

    def _keep(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        _, found, plan = (diagnostic.message_primary or "").partition("plan:")
        if found:
            self._logged.append(json.loads(plan))

    def read(self, call: str, *parameters: object) -> Reading:
        """Make a call and say what it read. What it did stays done: see `undone`."""
        before = self._fetched()
        self._logged.clear()
        with self._told():
            query = f"explain (analyze, buffers, timing off, format json) {call}"
            row = self.conn.execute(query.encode(), parameters or None).fetchone()
        assert row is not None
        plan: dict[str, Any] = row[0][0]["Plan"]
        after = self._fetched()
        return Reading(
            rows=round(plan["Actual Rows"]),
            blocks=_blocks(plan),
            fetched={table: after[table][1] - before.get(table, (0, 0))[1] for table in after},
            scanned=frozenset(table for table in after if after[table][0] > before.get(table, (0, 0))[0]),
            steps=tuple(step for logged in self._logged for step in _steps(logged)),
        )

    def _fetched(self) -> dict[str, tuple[int, int]]:
        rows = self.conn.execute(_FETCHED.encode(), [list(GROWING)]).fetchall()
        return {table: (scans, fetched) for table, scans, fetched in rows}

    @contextmanager
    def _told(self) -> Generator[None]:
        self.conn.execute("set local client_min_messages = log")
        yield
        self.conn.execute("set local client_min_messages = notice")

    @contextmanager
    def undone(self) -> Generator[None]:
        """A part of a transaction that leaves nothing behind."""
        with self.conn.transaction(force_rollback=True):
            yield

    def forget_statistics(self) -> None:
        """Let the planner guess, as after a bulk load that nobody analysed; until the transaction ends."""
        self.conn.execute(_FORGET_STATISTICS.encode())


def _blocks(plan: Mapping[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])


def _steps(logged: Mapping[str, Any]) -> Iterator[Step]:
    statement = " ".join(str(logged["Query Text"]).split())[:120]
    waiting = [logged["Plan"]]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.get("Plans", ()))
        if loops := node["Actual Loops"]:
            in_vain = sum(count for name, count in node.items() if name.startswith("Rows Removed by"))
            table, index = node.get("Relation Name", ""), node.get("Index Name", "")
            yield Step(
                node["Node Type"], table, index, node["Actual Rows"] * loops, in_vain * loops, statement
            )
