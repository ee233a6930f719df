"""Everything the store does it does through a pgbouncer in transaction mode as well."""

from __future__ import annotations

import logging
import shutil
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from holdfast.domain.job import NewJob
from holdfast.domain.outcome import Completed, Failed
from holdfast.domain.states import JobState
from holdfast.store import Hold, Store, SyncStore
from holdfast.store.calls.claiming import claim_terms
from tests.pgbouncer import KNOWS_PREPARED_STATEMENTS, OLDEST, PgBouncer, find_pgbouncer, version_of

ROUNDS = 12
"""More than the driver waits for before it prepares a statement."""


def test_it_is_new_enough_and_shares_its_sessions(pgbouncer: PgBouncer, database: str) -> None:
    conns = [psycopg.connect(pgbouncer.dsn(database), autocommit=True) for _ in range(5)]
    pids = [conn.execute("select pg_backend_pid()").fetchone() for conn in conns]
    for conn in conns:
        conn.close()

    assert version_of(find_pgbouncer()) >= OLDEST
    assert len(set(pids)) == 1


def test_without_it_the_tests_are_skipped_and_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)

    with pytest.raises(pytest.skip.Exception, match="not installed: apt-get install pgbouncer"):
        find_pgbouncer()


def test_a_jobs_whole_life_from_a_thread(pgbouncer: PgBouncer, database: str) -> None:
    with SyncStore(pgbouncer.dsn(database)) as store:
        parent, child = store.submit_jobs([NewJob(job_id="p"), NewJob(wait_for=["p"], payload={"n": 1})])
        (first,) = store.claim_jobs("w", ["default"], 5)
        (kept,) = store.extend_leases([(first.job_id, first.lease_id)], 60)
        (failed,) = store.settle_jobs([(first.job_id, first.lease_id, Failed("once"))])
        (again,) = store.claim_jobs("w", ["default"], 5)
        beat = store.settle_and_claim(
            [(again.job_id, again.lease_id, Completed({"ok": True}))], claim_terms("w", ["default"]), 5
        )
        (last,) = beat.claimed
        store.settle_jobs([(last.job_id, last.lease_id, Completed())])
        job, stats = store.get_job(parent), store.get_job_stats()

    assert (kept.hold, failed.ok, beat.refused, last.job_id) == (Hold.EXTENDED, True, [], child)
    assert job is not None
    assert (job.state, job.result) == (JobState.COMPLETED, {"ok": True})
    assert (stats.total_jobs, stats.completed_jobs) == (2, 2)


@pytest.mark.anyio
async def test_a_jobs_whole_life_from_a_coroutine(pgbouncer: PgBouncer, database: str) -> None:
    async with Store(pgbouncer.dsn(database)) as store:
        parent, child = await store.submit_jobs([NewJob(job_id="p"), NewJob(wait_for=["p"])])
        (first,) = await store.claim_jobs("w", ["default"], 5)
        await store.extend_leases([(first.job_id, first.lease_id)], 60)
        await store.settle_jobs([(first.job_id, first.lease_id, Failed("once"))])
        (again,) = await store.claim_jobs("w", ["default"], 5)
        settled = (again.job_id, again.lease_id, Completed({"ok": True}))
        beat = await store.settle_and_claim([settled], claim_terms("w", ["default"]), 5)
        (last,) = beat.claimed
        await store.settle_jobs([(last.job_id, last.lease_id, Completed())])
        job, stats = await store.get_job(parent), await store.get_job_stats()

    assert (beat.refused, last.job_id) == ([], child)
    assert job is not None
    assert (job.state, job.result) == (JobState.COMPLETED, {"ok": True})
    assert (stats.total_jobs, stats.completed_jobs) == (2, 2)


def test_statements_that_are_prepared_do_not_lose_a_job(
    pgbouncer: PgBouncer, database: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Two stores and many threads: each connection is given many sessions, each session many connections."""
    with (
        SyncStore(pgbouncer.dsn(database)) as one,
        SyncStore(pgbouncer.dsn(database)) as other,
        ThreadPoolExecutor(8) as threads,
        caplog.at_level(logging.WARNING, "holdfast.store"),
    ):

        def live(number: int) -> int:
            store = (one, other)[number % 2]
            store.submit_jobs([NewJob()])
            jobs = store.claim_jobs(f"w{number}", ["default"])
            verdicts = store.settle_jobs([(job.job_id, job.lease_id, Completed()) for job in jobs])
            return sum(verdict.ok for verdict in verdicts)

        done = sum(threads.map(live, range(8 * ROUNDS)))
        stats = one.get_job_stats()

    assert stats.total_jobs == 8 * ROUNDS
    assert (stats.completed_jobs, stats.running_jobs) == (done, 0)
    if version_of(find_pgbouncer()) < KNOWS_PREPARED_STATEMENTS:
        assert {record.levelname for record in caplog.records} == {"WARNING"}
        assert all("going on without them" in record.getMessage() for record in caplog.records)
    else:
        assert caplog.records == []


def test_no_session_is_left_listening_by_a_call_that_listens(pgbouncer: PgBouncer, database: str) -> None:
    with SyncStore(pgbouncer.dsn(database)) as store:
        store.get_work("w", ["default"])
    with psycopg.connect(pgbouncer.dsn(database), autocommit=True) as conn:
        assert conn.execute("select * from pg_listening_channels()").fetchall() == []


def test_a_pooler_that_was_restarted_is_not_noticed(pgbouncer: PgBouncer, database: str) -> None:
    with SyncStore(pgbouncer.dsn(database)) as store:
        store.submit_jobs([NewJob()])
        pgbouncer.stop()
        pgbouncer.start()

        assert [job.job_id for job in store.claim_jobs("w", ["default"])] == ["j1"]
