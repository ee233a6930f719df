"""Calls on the caller's own connection, in the caller's transaction, whatever the caller made of it."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import psycopg
import psycopg.errors
import pytest
from psycopg.rows import dict_row

from holdfast.domain.job import NewJob
from holdfast.domain.outcome import Completed
from holdfast.errors import InvalidArgument, JobExists, WrongState
from holdfast.store import Store, SyncStore
from tests.conftest import Connect


def test_a_job_exists_only_if_its_transaction_commits(store: SyncStore, connect: Connect) -> None:
    conn = connect(autocommit=False)

    store.using(conn).submit_jobs([NewJob(job_id="a")])
    assert store.get_job("a") is None
    conn.rollback()
    assert store.get_job("a") is None

    store.using(conn).submit_jobs([NewJob(job_id="a")])
    conn.commit()
    assert store.get_job("a") is not None


@pytest.mark.anyio
async def test_a_job_of_a_coroutine_exists_only_if_its_transaction_commits(
    async_store: Store, database: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database) as conn:
        await async_store.using(conn).submit_jobs([NewJob(job_id="a")])
        await conn.rollback()
        await async_store.using(conn).submit_jobs([NewJob(job_id="b")])
        await conn.commit()

        assert await async_store.get_job("a") is None
        assert await async_store.get_job("b") is not None
        with pytest.raises(JobExists):
            await async_store.using(conn).submit_jobs([NewJob(job_id="b")])


def test_work_and_its_completion_commit_together(store: SyncStore, connect: Connect) -> None:
    store.submit_jobs([NewJob()])
    (job,) = store.claim_jobs("w", ["default"])
    conn = connect(autocommit=False)
    conn.execute("create table public.ledger (entry text)")

    conn.execute("insert into public.ledger values ('paid')")
    store.using(conn).complete_job(job.job_id, job.lease_id, "w")
    conn.commit()

    conn.execute("insert into public.ledger values ('paid twice')")
    with pytest.raises(WrongState, match="COMPLETED"):
        store.using(conn).complete_job(job.job_id, job.lease_id, "w")
    conn.rollback()
    assert conn.execute("select entry from public.ledger").fetchall() == [("paid",)]


def test_the_callers_ways_with_rows_and_cursors_do_not_matter(store: SyncStore, connect: Connect) -> None:
    conn = connect(row_factory=dict_row, cursor_factory=psycopg.ClientCursor, prepare_threshold=None)
    conn.execute("set timezone = 'Asia/Kathmandu'; set datestyle = 'German'")
    theirs = store.using(conn)
    theirs.submit_jobs([NewJob(payload={"n": 2**70}, tags=["x"])])

    (job,) = theirs.claim_jobs("w", ["default"])
    (verdict,) = theirs.settle_jobs([(job.job_id, job.lease_id, Completed(b"\0"))])

    assert (job.payload, job.tags, job.available_at.tzinfo) == ({"n": 2**70}, ("x",), UTC)
    assert verdict.ok
    conn.execute("reset datestyle")
    row: Any = conn.execute("select now() as now").fetchone()
    assert row["now"].tzinfo is not UTC


def test_errors_that_concern_the_transaction_stay_the_drivers_own(store: SyncStore, connect: Connect) -> None:
    conn = connect(autocommit=False)
    conn.execute("set transaction read only")

    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        store.using(conn).submit_jobs([NewJob()])
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        store.using(conn).get_job_stats()


def test_a_refused_value_leaves_the_callers_transaction_alone(store: SyncStore, connect: Connect) -> None:
    conn = connect(autocommit=False)
    store.using(conn).submit_jobs([NewJob(job_id="a")])

    with pytest.raises(InvalidArgument):
        store.using(conn).submit_jobs([NewJob(job_id="\0")])

    conn.commit()
    assert store.get_job("a") is not None


def test_get_work_leaves_only_the_callers_own_session_listening(store: SyncStore, connect: Connect) -> None:
    conn = connect()

    store.using(conn).get_work("w", ["cook"])
    store.get_work("w", ["cook"])

    assert conn.execute("select pg_listening_channels()").fetchall() == [("holdfast.need.cook",)]
    store.submit_jobs([NewJob(queue="cook")])
    assert [notice.channel for notice in conn.notifies(timeout=5, stop_after=1)] == ["holdfast.need.cook"]


def test_no_session_of_a_store_listens(database: str, connect: Connect) -> None:
    with SyncStore(database, max_size=1) as store:
        conn = connect()
        conn.execute("create table public.heard (channel text)")
        store.get_work("w", ["cook"])
        conn.execute(
            "create or replace function holdfast.is_notify_enabled() returns boolean language plpgsql as "
            "'begin insert into public.heard select pg_listening_channels(); return true; end'"
        )
        store.is_notify_enabled()

        assert conn.execute("select from public.heard").rowcount == 0
