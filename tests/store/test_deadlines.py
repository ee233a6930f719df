"""A call ends at its deadline, whatever the server does, and leaves nothing half done in the pool."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic
from typing import Any

import psycopg
import pytest

from holdfast.domain.job import NewJob
from holdfast.errors import DatabaseUnavailable
from holdfast.store import Action, Store, SyncStore, action_for
from tests.conftest import Connect
from tests.store.trouble import backend_pids, black_hole, frozen, locked, named, wait_until_blocked

pytestmark = pytest.mark.skipif(
    "HOLDFAST_TEST_DATABASE_URL" in os.environ, reason="needs the server's processes on this machine"
)

DEADLINE_S = 0.4
SLACK_S = 1.5  # a cancel request that nobody takes, a step of the wait, and a busy machine


@contextmanager
def within(seconds: float) -> Generator[None]:
    started = monotonic()
    yield
    assert monotonic() - started < seconds


def no_session_waits(conn: psycopg.Connection[Any], application_name: str) -> bool:
    query = "select from pg_stat_activity where application_name = %s and wait_event_type = 'Lock'"
    for _ in range(200):
        if conn.execute(query, [application_name]).rowcount == 0:
            return True
        conn.execute("select pg_sleep(0.01)")
    return False


def test_a_call_to_a_frozen_session_ends_at_its_deadline(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    with SyncStore(named(database, "victim"), max_size=1) as store:
        store.get_job_stats()
        (pid,) = backend_pids(conn, "victim")

        with frozen(pid), within(DEADLINE_S + SLACK_S), pytest.raises(DatabaseUnavailable, match="no answer"):
            store.get_job_stats(timeout_s=DEADLINE_S)

        store.get_job_stats()
        assert pid not in backend_pids(conn, "victim")


@pytest.mark.anyio
async def test_a_coroutine_waiting_for_a_frozen_session_ends_at_its_deadline(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    async with Store(named(database, "victim"), max_size=1) as store:
        await store.get_job_stats()
        (pid,) = backend_pids(conn, "victim")

        with frozen(pid), within(DEADLINE_S + SLACK_S), pytest.raises(DatabaseUnavailable, match="no answer"):
            await store.get_job_stats(timeout_s=DEADLINE_S)

        await store.get_job_stats()
        assert pid not in backend_pids(conn, "victim")


@pytest.mark.anyio
async def test_get_work_in_its_transaction_of_two_statements_ends_at_its_deadline_too(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    dsn = named(database, "victim")
    async with Store(dsn, max_size=1) as store:
        with SyncStore(dsn, max_size=1) as blocking:
            await store.get_work("w", ["cook"])
            blocking.get_work("w", ["cook"])

            with frozen(*backend_pids(conn, "victim")), within(2 * (DEADLINE_S + SLACK_S)):
                with pytest.raises(DatabaseUnavailable, match="no answer"):
                    await store.get_work("w", ["cook"], timeout_s=DEADLINE_S)
                with pytest.raises(DatabaseUnavailable, match="no answer"):
                    blocking.get_work("w", ["cook"], timeout_s=DEADLINE_S)

            assert await store.get_work("w", ["cook"]) == blocking.get_work("w", ["cook"]) == []


@pytest.mark.anyio
async def test_the_event_loop_runs_on_while_a_call_waits_for_a_frozen_session(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    async with Store(named(database, "victim"), max_size=1) as store:
        await store.get_job_stats()
        with frozen(*backend_pids(conn, "victim")):
            call = asyncio.create_task(store.get_job_stats(timeout_s=DEADLINE_S))
            with within(DEADLINE_S):
                for _ in range(10):
                    await asyncio.sleep(0.01)
            with pytest.raises(DatabaseUnavailable):
                await call


def test_a_write_that_reached_its_deadline_says_that_its_outcome_is_not_known(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    with SyncStore(named(database, "victim")) as store:
        store.get_job_stats()
        with frozen(*backend_pids(conn, "victim")), pytest.raises(DatabaseUnavailable) as raised:
            store.submit_jobs([NewJob()], timeout_s=DEADLINE_S)

    assert "submit_plain_job gave up on" in str(raised.value)
    assert "not known whether it took effect" in str(raised.value)
    assert action_for(raised.value) is Action.SHRINK


@pytest.mark.skipif(not psycopg.capabilities.has_cancel_safe(), reason="libpq is too old to cancel in time")
def test_a_statement_that_waits_for_a_lock_is_cancelled_at_its_deadline(
    database: str, conn: psycopg.Connection[Any], connect: Connect
) -> None:
    with SyncStore(named(database, "victim")) as store, locked(connect(database)):
        with within(DEADLINE_S + SLACK_S), pytest.raises(DatabaseUnavailable):
            store.submit_jobs([NewJob(job_id="late")], timeout_s=DEADLINE_S)

        assert no_session_waits(conn, "victim")
    assert conn.execute("select from holdfast.jobs").rowcount == 0


def test_waiting_for_a_connection_counts_towards_the_deadline(
    database: str, conn: psycopg.Connection[Any], connect: Connect
) -> None:
    with (
        SyncStore(named(database, "victim"), max_size=1) as store,
        ThreadPoolExecutor() as threads,
        locked(connect(database)),
    ):
        first = threads.submit(store.get_job_stats, timeout_s=5)
        wait_until_blocked(conn, "victim")

        with (
            within(DEADLINE_S + SLACK_S),
            pytest.raises(DatabaseUnavailable, match="every connection is in use"),
        ):
            store.get_job_stats(timeout_s=DEADLINE_S)

        assert not first.done()


def test_a_server_that_never_answers_is_given_up_at_the_deadline_without_showing_the_password() -> None:
    with black_hole() as dsn:
        store = SyncStore(dsn)
        with within(DEADLINE_S + SLACK_S), pytest.raises(DatabaseUnavailable, match="not answer") as raised:
            store.get_job_stats(timeout_s=DEADLINE_S)

        with within(5):
            store.close()
    assert "host=127.0.0.1" in str(raised.value)
    assert "sesame" not in str(raised.value) + repr(store)


@pytest.mark.anyio
async def test_closing_does_not_wait_for_a_connection_that_is_never_made() -> None:
    with black_hole() as dsn:
        store = Store(dsn)
        with within(DEADLINE_S + SLACK_S), pytest.raises(DatabaseUnavailable):
            await store.get_job_stats(timeout_s=DEADLINE_S)

        with within(0.5):
            await store.close()
        assert [task for task in asyncio.all_tasks() if "holdfast" in task.get_name()] == []


@pytest.mark.anyio
async def test_a_cancelled_call_ends_soon_and_gives_its_connection_up(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    async with Store(named(database, "victim"), max_size=1) as store:
        await store.get_job_stats()
        (pid,) = backend_pids(conn, "victim")
        with frozen(pid):
            call = asyncio.create_task(store.get_job_stats())
            await asyncio.sleep(0.05)
            call.cancel()
            with within(SLACK_S), pytest.raises(asyncio.CancelledError):
                await call

        assert (await store.get_job_stats()).total_jobs == 0


def test_threads_share_a_store(store: SyncStore) -> None:
    ready = threading.Barrier(8)

    def work(number: int) -> list[str]:
        ready.wait()
        store.submit_jobs([NewJob(queue="shared") for _ in range(20)])
        return [job.job_id for _ in range(10) for job in store.claim_jobs(f"w{number}", ["shared"], 3)]

    with ThreadPoolExecutor(8) as threads:
        claimed = [job_id for ids in threads.map(work, range(8)) for job_id in ids]

    assert len(claimed) == len(set(claimed)) > 0
