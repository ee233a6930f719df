"""The judge of a run must find out what is not exactly once, else its verdict is worth nothing."""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg
import pytest

from holdfast.bench.contenders import NAMES, Bench, Name, Setting
from holdfast.bench.pgbench import find_pgbench
from tests.conftest import Connect

CLAIM = "select array_agg(job_id), array_agg(lease_id) from holdfast.claim_jobs('w', array['bench'], %s)"
COMPLETE = "select from holdfast.settle_jobs(%s, %s, %s)"


@pytest.fixture
def conn(blank_database: str, connect: Connect) -> psycopg.Connection[Any]:
    return connect(blank_database)


@pytest.fixture
def bench(conn: psycopg.Connection[Any], blank_database: str) -> Bench:
    bench = Bench(conn, blank_database, find_pgbench())
    bench.install()
    return bench


@pytest.mark.parametrize("clients", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_a_drain_runs_each_job_once(bench: Bench, name: Name, clients: int) -> None:
    run = bench.drain(name, Setting(batch=7, clients=clients), turns=5)
    assert run.exactly_once
    assert run.jobs == clients * (10 + 5 * 7)
    assert run.jobs_per_s > 0
    assert run.wal_bytes_per_job > 100


@pytest.mark.parametrize("name", ["engine", "bare"])
def test_claims_alone_are_timed_and_settled_afterwards(bench: Bench, name: Name) -> None:
    claims = bench.claim_one_by_one(name, 20)
    assert claims.exactly_once
    assert len(claims.latencies_ms) == 20


def test_claims_that_do_not_wait_for_the_disk_are_timed_too(bench: Bench) -> None:
    claims = bench.claim_one_by_one("engine", 20, wait_for_disk=False)
    assert claims.exactly_once
    assert len(claims.latencies_ms) == 20


def test_a_queue_that_hands_out_jobs_twice_is_found_out(bench: Bench, conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        """
        create or replace function holdfast_bench.claim(
          p_worker_id text, p_queue text, p_limit integer, p_lease_seconds double precision
        ) returns setof holdfast_bench.jobs language sql as $$
          select job.*
          from (select * from holdfast_bench.jobs order by id limit p_limit) job, generate_series(1, 2)
        $$
        """
    )
    assert not bench.drain("bare", Setting(batch=3, clients=1), turns=2).exactly_once
    assert _count(conn, "holdfast_bench.jobs") == 0, "every job was settled: only what was handed out tells"


def test_a_settle_that_is_refused_is_found_out(bench: Bench, conn: psycopg.Connection[Any]) -> None:
    _claim_and_complete(conn, jobs=3)
    assert _ran_each_once(conn, jobs=3)
    conn.execute("insert into holdfast_bench.mismatches values ('engine', 3, 2)")
    assert not _ran_each_once(conn, jobs=3)


def test_a_job_that_is_left_is_found_out(bench: Bench, conn: psycopg.Connection[Any]) -> None:
    _claim_and_complete(conn, jobs=4, claimed=3)
    assert not _ran_each_once(conn, jobs=4)


def test_a_job_that_is_missing_is_found_out(bench: Bench, conn: psycopg.Connection[Any]) -> None:
    _claim_and_complete(conn, jobs=3)
    conn.execute("delete from holdfast.archived_jobs where payload ->> 'n' = '2'")
    assert not _ran_each_once(conn, jobs=3)


def test_a_job_whose_lease_lapsed_on_the_way_is_found_out(
    bench: Bench, conn: psycopg.Connection[Any]
) -> None:
    conn.execute("select holdfast_bench.fill_engine(1)")
    conn.execute(CLAIM, (1,))
    conn.execute("update holdfast.jobs set lease_expires_at = clock_timestamp()")
    _complete(conn, 1)
    assert not _ran_each_once(conn, jobs=1)


def _claim_and_complete(conn: psycopg.Connection[Any], jobs: int, claimed: int | None = None) -> None:
    conn.execute("select holdfast_bench.fill_engine(%s::integer)", (jobs,))
    _complete(conn, claimed or jobs)


def _complete(conn: psycopg.Connection[Any], jobs: int) -> None:
    row = conn.execute(CLAIM, (jobs,)).fetchone()
    assert row
    ids, leases = row
    conn.execute(COMPLETE, (ids, ["complete"] * len(ids), leases))


def _count(conn: psycopg.Connection[Any], table: LiteralString) -> int:
    row = conn.execute(f"select count(*) from {table}").fetchone()
    assert row
    return int(row[0])


def _ran_each_once(conn: psycopg.Connection[Any], jobs: int) -> bool:
    row = conn.execute("select holdfast_bench.engine_ran_each_once(%s::integer)", (jobs,)).fetchone()
    assert row
    return bool(row[0])
