"""A database as it looks after a busy month: millions of rows that no call has any business reading.

    line        600,000 due, 1,000,000 due tomorrow, 100,000 blocked, each by one of the due
    ranked      200,000 due, at ten priorities
    tagged      100,000 due, all tagged "common", ten of them also "rare"
    second      100,000 due
    stale       100,000 that expired while they waited, and behind them 1,000 good ones
    keyed       100,000 whose singleton keys are held, and behind them 1,000 good ones
    dead 0…9    100,000 dead letters, with 300,000 errors
    the archive 1,000,000 completed, every fifth under a name of its own; and 300,000 rows of trace

Autovacuum is off where tests run, so statistics are made here. It takes 16 seconds.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg

from holdfast.engine import installer
from tests.databases import tidy

HERE = Path(__file__).parent


def fill(dsn: str) -> None:
    """Install Holdfast in an empty database, with its own clock, and let the crowd in."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        installer.install(conn)
        with ThreadPoolExecutor() as pool:
            list(pool.map(_run, [dsn, dsn], ["jobs.sql", "history.sql"]))
        conn.execute("select setval('holdfast.jobs_id_seq', 10000000)")
        tidy(conn)


def _run(dsn: str, file: str) -> None:
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=holdfast") as conn:
        conn.execute((HERE / file).read_bytes())
