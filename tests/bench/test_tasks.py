"""The judge of what workers ran must find out what is not exactly once, else its verdict is worth nothing."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from holdfast.app import Holdfast
from holdfast.bench import tasks
from holdfast.bench.contenders import Bench
from holdfast.bench.pgbench import find_pgbench
from tests.conftest import Connect

JOBS = 50


@pytest.fixture
def conn(blank_database: str, connect: Connect) -> psycopg.Connection[Any]:
    """A database in which all jobs of a backlog were run once."""
    conn = connect(blank_database)
    bench = Bench(conn, blank_database, find_pgbench())
    bench.install()
    with Holdfast(blank_database) as app:
        tasks.define_noop(app)
        tasks.enqueue(app, JOBS)
    assert not tasks.all_completed(conn, JOBS)
    bench.take_all_with_floor(JOBS, 20)
    return conn


def test_a_backlog_that_was_run_once_is_said_to_be(conn: psycopg.Connection[Any]) -> None:
    assert tasks.all_completed(conn, JOBS)
    assert not tasks.all_completed(conn, JOBS - 1)
    assert not tasks.all_completed(conn, JOBS + 1)


@pytest.mark.parametrize(
    "fault",
    [
        "delete from holdfast.archived_jobs where payload #>> '{args,0}' = '7'",
        "update holdfast.archived_jobs set payload = '{\"args\": [8]}' where payload #>> '{args,0}' = '7'",
        "update holdfast.archived_jobs set attempts = 1 where payload #>> '{args,0}' = '7'",
        "update holdfast.archived_jobs set lease_expiration_count = 1 where payload #>> '{args,0}' = '7'",
        "update holdfast.archived_jobs set state = 'STOPPED' where payload #>> '{args,0}' = '7'",
        "select holdfast.submit_job('left', 'w', 'default', p_task => 'bench.noop')",
    ],
)
def test_a_job_that_was_not_run_once_is_found_out(conn: psycopg.Connection[Any], fault: str) -> None:
    conn.execute(fault.encode())
    assert not tasks.all_completed(conn, JOBS)
