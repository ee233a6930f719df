"""What others can do inside the database: hold locks, pin the horizon, rebuild, limit, send signals."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from random import Random

import psycopg
from psycopg.sql import SQL, Identifier, Literal

from gauntlet.arena.arena import Arena
from gauntlet.arena.fleet import ROOT
from gauntlet.faults.registry import fault

ENDED = "the session ends"


def _limit(arena: Arena, setting: str, value: str, seconds: float) -> Generator[float]:
    """For sessions that begin from now on; so everybody is made to begin anew, before and after."""
    name = Identifier(arena.database)
    turn = SQL(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
        "and pid <> pg_backend_pid() and application_name <> 'gauntlet'"
    )
    try:
        with arena.connect() as conn:
            conn.execute(
                SQL("alter database {} set {} = {}").format(name, Identifier(setting), Literal(value))
            )
            conn.execute(turn)
        yield seconds
    finally:
        with arena.connect() as conn:
            conn.execute(SQL("alter database {} reset {}").format(name, Identifier(setting)))
            conn.execute(turn)


@fault(
    "statements limited",
    "statement_timeout of 30 ms for everybody",
    undone="it is reset",
    weight=0.5,
    is_alone=True,
)
def limit_statements(arena: Arena, rng: Random) -> Generator[float]:
    yield from _limit(arena, "statement_timeout", "30ms", rng.uniform(0.5, 2))


@fault("locks limited", "lock_timeout of 1 ms for everybody", undone="it is reset", weight=0.5, is_alone=True)
def limit_locks(arena: Arena, rng: Random) -> Generator[float]:
    yield from _limit(arena, "lock_timeout", "1ms", rng.uniform(0.5, 2))


@fault(
    "read only",
    "transactions are read only, as on a standby",
    undone="it is reset",
    weight=0.4,
    is_alone=True,
)
def read_only(arena: Arena, rng: Random) -> Generator[float]:
    yield from _limit(arena, "default_transaction_read_only", "on", rng.uniform(0.5, 1.5))


@fault(
    "serializable",
    "every transaction is serializable for a while",
    undone="it is reset",
    weight=0.4,
    is_alone=True,
)
def serializable(arena: Arena, rng: Random) -> Generator[float]:
    yield from _limit(arena, "default_transaction_isolation", "serializable", rng.uniform(0.5, 2))


@fault("long transaction", "one that has written something, so that no dead row can be cleared", undone=ENDED)
def long_transaction(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn:
        conn.execute("begin")
        conn.execute("select pg_current_xact_id()")
        yield rng.uniform(2, 8)
        conn.execute("rollback")


@fault("held snapshot", "a repeatable read that looks at everything, slowly", undone=ENDED)
def held_snapshot(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn:
        conn.execute("begin isolation level repeatable read")
        conn.execute("select count(*) from holdfast.jobs")
        yield rng.uniform(2, 8)
        conn.execute("rollback")


@fault("rows locked by a stranger", "select for update of a few hundred jobs, held", undone=ENDED)
def lock_rows(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn:
        conn.execute("begin")
        conn.execute("select from holdfast.jobs order by id limit 300 for update skip locked")
        yield rng.uniform(0.2, 3)
        conn.execute("rollback")


@fault("table locked", "lock table jobs in access exclusive mode", undone=ENDED, weight=0.5, is_alone=True)
def lock_table(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn:
        conn.execute("set lock_timeout = '2s'")
        conn.execute("begin")
        conn.execute("lock table holdfast.jobs in access exclusive mode")
        yield rng.uniform(0.2, 2.5)
        conn.execute("rollback")


@fault(
    "vacuum full",
    "the table of jobs is written anew under an exclusive lock",
    undone="it is over",
    weight=0.4,
)
def vacuum_full(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn, suppress(psycopg.Error):
        conn.execute("set lock_timeout = '3s'")
        conn.execute("vacuum full holdfast.jobs")
    yield 0


@fault("index rebuilt", "reindex concurrently of the line of each queue", undone="it is over", weight=0.4)
def reindex(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn, suppress(psycopg.Error):
        conn.execute("set statement_timeout = '10s'")
        conn.execute("reindex index concurrently holdfast.jobs_ready")
    yield 0


@fault("index locked", "reindex of the line of each queue, with its locks", undone="it is over", weight=0.4)
def reindex_with_locks(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn, suppress(psycopg.Error):
        conn.execute("set lock_timeout = '3s'")
        conn.execute("reindex index holdfast.jobs_ready")
    yield 0


@fault(
    "analyzed", "vacuum and analyze: plans are made anew from other figures", undone="it is over", weight=0.7
)
def analyze(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn, suppress(psycopg.Error):
        conn.execute("vacuum (analyze) holdfast.jobs")
    yield 0


@fault("plans forgotten", "every session plans its statements anew", undone="nothing to undo", weight=0.5)
def forget_plans(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn, suppress(psycopg.Error):
        conn.execute("set lock_timeout = '2s'")
        conn.execute("comment on table holdfast.jobs is 'gauntlet'")
        conn.execute("alter table holdfast.jobs set (fillfactor = 70)")
    yield 0


@fault(
    "signals pile up",
    "a listener that never reads, and 20,000 signals",
    undone="it goes, and the queue drains",
)
def pile_up_signals(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as deaf, arena.connect() as loud:
        deaf.execute("listen gauntlet")
        deaf.execute("begin")
        deaf.execute("select 1")
        for _ in range(20):
            loud.execute(
                "select pg_notify('gauntlet', repeat('x', 200) || n) from generate_series(1, 1000) as n"
            )
        yield rng.uniform(0.5, 2)
        deaf.execute("rollback")


@fault("signals off", "set_notify(false): everybody has to poll", undone="set_notify(true)", weight=0.7)
def signals_off(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn:
        conn.execute("select holdfast.set_notify(false)")
    try:
        yield rng.uniform(0.5, 3)
    finally:
        with arena.connect() as conn:
            conn.execute("select holdfast.set_notify(true)")


@fault("migrated again", "holdfast migrate up, under load", undone="nothing to undo", weight=0.7)
def migrate_again(arena: Arena, rng: Random) -> Generator[float]:
    subprocess.run(
        [sys.executable, "-m", "holdfast", "migrate", "up"],
        cwd=ROOT,
        env={**arena.environment, "HOLDFAST_DATABASE_URL": arena.dsn},
        capture_output=True,
        timeout=60,
        check=False,
    )
    yield 0


@fault(
    "functions replaced",
    "every function of the engine is created again while it is in use",
    undone="nothing to undo",
    weight=0.4,
)
def replace_functions(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn, suppress(psycopg.Error):
        conn.execute("set lock_timeout = '3s'")
        conn.execute(
            "do $$ declare f record; begin for f in select oid from pg_proc "
            "where pronamespace = 'holdfast'::regnamespace and prokind = 'f' loop "
            "execute pg_get_functiondef(f.oid); end loop; end $$"
        )
    yield 0
