"""What becomes of calls when connections are lost, servers go and come, and transactions collide."""

from __future__ import annotations

import logging
import os
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from holdfast.domain.job import NewJob
from holdfast.domain.outcome import Completed, Failed, Reason
from holdfast.errors import DatabaseUnavailable, HoldfastError, InvalidArgument, SchemaMissing
from holdfast.store import Action, Settlement, Store, SyncStore, action_for
from holdfast.store.calls.claiming import claim_terms
from holdfast.store.trial import CONFLICTS
from tests.conftest import Connect
from tests.store.ears import wait_until
from tests.store.servers import OwnServer
from tests.store.trouble import Trouble, backend_pids, frozen, locked, named, wait_until_blocked

local = pytest.mark.skipif(
    "HOLDFAST_TEST_DATABASE_URL" in os.environ, reason="needs the server's processes on this machine"
)


def terminate(conn: psycopg.Connection[Any], application_name: str) -> None:
    conn.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = %s",
        [application_name],
    )


def test_sessions_that_were_ended_while_idle_are_not_noticed(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    with SyncStore(named(database, "victim"), max_size=3) as store, ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda _: store.get_job_stats(), range(20)))
        terminate(conn, "victim")

        assert store.submit_jobs([NewJob()]) == ["j1"]


@pytest.mark.anyio
async def test_coroutines_do_not_notice_that_their_idle_sessions_were_ended(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    async with Store(named(database, "victim")) as store:
        await store.get_job_stats()
        terminate(conn, "victim")

        assert await store.submit_jobs([NewJob()]) == ["j1"]


def test_a_read_whose_session_is_ended_is_asked_again(
    database: str, conn: psycopg.Connection[Any], connect: Connect
) -> None:
    with SyncStore(named(database, "victim")) as store, ThreadPoolExecutor(1) as thread:
        with locked(connect(database)):
            reading = thread.submit(store.get_job_stats)
            wait_until_blocked(conn, "victim")
            terminate(conn, "victim")
            wait_until_blocked(conn, "victim")

        assert reading.result().total_jobs == 0


def test_a_submit_whose_session_is_ended_is_not_repeated_and_says_what_is_not_known(
    database: str, conn: psycopg.Connection[Any], connect: Connect
) -> None:
    with SyncStore(named(database, "victim")) as store, ThreadPoolExecutor(1) as thread:
        with locked(connect(database)):
            submitting = thread.submit(store.submit_jobs, [NewJob()])
            wait_until_blocked(conn, "victim")
            terminate(conn, "victim")

        with pytest.raises(DatabaseUnavailable, match="not known whether it took effect") as raised:
            submitting.result()

    assert action_for(raised.value) is Action.RECONNECT
    assert conn.execute("select from holdfast.jobs").rowcount == 0


def test_a_settle_under_a_lease_whose_session_is_ended_is_written_all_the_same(
    database: str, conn: psycopg.Connection[Any], connect: Connect
) -> None:
    with SyncStore(named(database, "victim")) as store, ThreadPoolExecutor(1) as thread:
        store.submit_jobs([NewJob()])
        (job,) = store.claim_jobs("w", ["default"])
        with locked(connect(database)):
            settling = thread.submit(store.settle_jobs, [(job.job_id, job.lease_id, Completed())])
            wait_until_blocked(conn, "victim")
            terminate(conn, "victim")

        assert [verdict.ok for verdict in settling.result()] == [True]


def test_a_settle_without_a_lease_is_not_repeated(
    database: str, conn: psycopg.Connection[Any], connect: Connect
) -> None:
    with SyncStore(named(database, "victim")) as store, ThreadPoolExecutor(1) as thread:
        store.submit_jobs([NewJob()])
        (job,) = store.claim_jobs("w", ["default"])
        with locked(connect(database)):
            settling = thread.submit(store.settle_jobs, [(job.job_id, None, Completed())])
            wait_until_blocked(conn, "victim")
            terminate(conn, "victim")

        with pytest.raises(DatabaseUnavailable, match="not known"):
            settling.result()


def test_the_second_answer_to_a_settle_is_as_good_as_the_first(store: SyncStore) -> None:
    store.submit_jobs([NewJob(), NewJob()])
    done, failed = store.claim_jobs("w", ["default"], 2)
    settlements: list[Settlement] = [
        (done.job_id, done.lease_id, Completed()),
        (failed.job_id, failed.lease_id, Failed("no")),
    ]
    store.settle_jobs(settlements)

    again = store.settle_jobs(settlements)

    assert [(verdict.ok, verdict.reason) for verdict in again] == [
        (True, Reason.ALREADY),
        (False, Reason.LEASE_LOST),
    ]
    assert store.settle_and_claim(settlements[:1], claim_terms("w", ["default"]), 0).refused == []


@pytest.mark.parametrize("sqlstate", ["40001", "40P01", "55P03"])
def test_a_collision_is_tried_again(store: SyncStore, trouble: Trouble, sqlstate: str) -> None:
    trouble.fail(3, sqlstate)

    assert store.is_notify_enabled() is True
    assert trouble.tries() == 4


def test_a_function_that_is_made_anew_while_it_is_called_is_called_again(
    store: SyncStore, trouble: Trouble
) -> None:
    trouble.fail(2, "XX000", "cache lookup failed for function 17334")

    assert store.is_notify_enabled() is True
    assert trouble.tries() == 3


def test_a_prepared_call_finds_the_function_that_was_made_anew_or_says_that_it_is_gone(
    store: SyncStore, conn: psycopg.Connection[Any]
) -> None:
    for _ in range(3):  # from the second call on it is prepared
        assert store.is_notify_enabled() is True
    conn.execute("drop function holdfast.is_notify_enabled() cascade")
    with pytest.raises(SchemaMissing, match="holdfast migrate up"):
        store.is_notify_enabled()

    conn.execute("create function holdfast.is_notify_enabled() returns boolean language sql return false")
    assert store.is_notify_enabled() is False


def test_collisions_are_given_up_after_five_repetitions(store: SyncStore, trouble: Trouble) -> None:
    trouble.fail(100, "40001")

    with pytest.raises(DatabaseUnavailable, match="tried 6 times") as raised:
        store.is_notify_enabled()

    assert trouble.tries() == CONFLICTS + 1
    assert action_for(raised.value) is Action.RETRY


def test_collisions_are_not_tried_beyond_the_deadline(store: SyncStore, trouble: Trouble) -> None:
    trouble.fail(100, "40001")
    started = monotonic()

    with pytest.raises(DatabaseUnavailable):
        store.is_notify_enabled(timeout_s=0.05)

    assert monotonic() - started < 1


@pytest.mark.anyio
async def test_a_collision_of_a_coroutine_is_tried_again(async_store: Store, trouble: Trouble) -> None:
    trouble.fail(2, "40P01")

    assert await async_store.is_notify_enabled() is True


@pytest.mark.parametrize("sqlstate", ["53100", "53200", "57014"])
def test_a_server_without_resources_is_left_in_peace(
    store: SyncStore, trouble: Trouble, sqlstate: str
) -> None:
    trouble.fail(1, sqlstate)

    with pytest.raises(DatabaseUnavailable, match="trouble") as raised:
        store.is_notify_enabled()

    assert trouble.tries() == 1
    assert action_for(raised.value) is action_for(raised.value.__cause__ or raised.value)
    assert "not known" not in str(raised.value)


def test_an_error_that_nobody_could_avoid_is_said_aloud_and_not_repeated(
    store: SyncStore, trouble: Trouble
) -> None:
    trouble.fail(1, "23505")

    with pytest.raises(HoldfastError, match=r"is_notify_enabled .*23505.*trouble") as raised:
        store.is_notify_enabled()

    assert trouble.tries() == 1
    assert not isinstance(raised.value, DatabaseUnavailable)


def test_a_server_that_only_reads_is_left_for_one_that_writes(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    name = conn.info.dbname
    conn.execute(f"alter database {name} set default_transaction_read_only = on".encode())
    with SyncStore(named(database, "victim"), max_size=2) as store:
        store.get_job_stats()
        (standby,) = backend_pids(conn, "victim")
        conn.execute(f"alter database {name} reset default_transaction_read_only".encode())

        assert store.submit_jobs([NewJob()]) == ["j1"]
        assert standby not in backend_pids(conn, "victim")


def test_a_database_without_holdfast_is_told_from_one_that_is_away(blank_database: str) -> None:
    with (
        SyncStore(blank_database, schema="elsewhere") as store,
        pytest.raises(SchemaMissing, match=r"elsewhere.*holdfast migrate up --schema elsewhere$"),
    ):
        store.submit_jobs([NewJob()])


def test_a_role_that_may_not_is_told_what(database: str) -> None:
    dsn = make_conninfo(database, options="-c role=holdfast_viewer")
    with SyncStore(dsn) as store:
        assert store.get_job_stats().total_jobs == 0
        with pytest.raises(HoldfastError, match=r"submit_plain_job .*42501.*permission denied"):
            store.submit_jobs([NewJob()])


@local
def test_a_store_outlives_its_server(server: OwnServer) -> None:
    with SyncStore(server.dsn) as store:
        store.get_job_stats()
        server.stop()
        with pytest.raises(
            DatabaseUnavailable, match=r"no connection to host=\S+ .* within 0\.\d s: .*tried"
        ):
            store.get_job_stats(timeout_s=0.5)

        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(store.submit_jobs, [NewJob()], timeout_s=60)
            server.start()
            assert waiting.result() == ["j1"]


@local
@pytest.mark.anyio
async def test_a_store_for_coroutines_outlives_a_killed_server(server: OwnServer) -> None:
    async with Store(server.dsn) as store:
        await store.get_job_stats()
        server.kill()
        with pytest.raises(DatabaseUnavailable):
            await store.get_job_stats(timeout_s=0.5)

        server.start()

        assert await store.submit_jobs([NewJob()], timeout_s=60) == ["j1"]


@local
@pytest.mark.anyio
async def test_stores_close_while_their_server_is_frozen(server: OwnServer) -> None:
    blocking, asynchronous = SyncStore(server.dsn), Store(server.dsn)
    blocking.get_job_stats()
    await asynchronous.get_job_stats()

    with frozen(*server.pids()):
        with pytest.raises(DatabaseUnavailable):
            blocking.get_job_stats(timeout_s=0.3)
        with pytest.raises(DatabaseUnavailable):
            await asynchronous.get_job_stats(timeout_s=0.3)
        started = monotonic()
        blocking.close()
        await asynchronous.close()
        assert monotonic() - started < 5


@local
def test_idle_connections_are_given_up_with_the_one_that_found_nobody_there(server: OwnServer) -> None:
    with SyncStore(named(server.dsn, "victim"), max_size=4) as store, ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: store.get_job_stats(), range(40)))
        before = server.pids()
        with frozen(*before), pytest.raises(DatabaseUnavailable):
            store.get_job_stats(timeout_s=0.3)

        store.get_job_stats()

        with psycopg.connect(server.dsn, autocommit=True) as conn:
            # A session that is closed is over when its process, thawed just now, has seen it.
            wait_until(lambda: not set(before) & set(backend_pids(conn, "victim")))


def test_a_closed_store_says_so(database: str) -> None:
    store = SyncStore(database)
    store.get_job_stats()
    store.close()
    store.close()

    with pytest.raises(InvalidArgument, match="is closed"):
        store.get_job_stats()
    with pytest.raises(InvalidArgument, match="is closed"):
        store.open()


def test_lost_prepared_statements_are_done_without(
    store: SyncStore, trouble: Trouble, caplog: pytest.LogCaptureFixture
) -> None:
    trouble.execute("deallocate all")

    with caplog.at_level(logging.WARNING, "holdfast.store"):
        assert all(store.is_notify_enabled() for _ in range(20))

    assert [record.name for record in caplog.records] == ["holdfast.store"]
    assert "pgbouncer 1.21" in caplog.text
    assert "prepare=" not in caplog.text, "a Queue has no such parameter"


@pytest.mark.parametrize("sqlstate", ["26000", "42P05"])
def test_a_statement_that_a_pooler_mixed_up_is_executed_all_the_same(
    store: SyncStore, trouble: Trouble, caplog: pytest.LogCaptureFixture, sqlstate: str
) -> None:
    trouble.fail(1, sqlstate)

    with caplog.at_level(logging.WARNING, "holdfast.store"):
        assert store.is_notify_enabled() is True

    assert len(caplog.records) == 1


def test_no_two_connections_prepare_statements_under_the_same_name(
    database: str, conn: psycopg.Connection[Any], trouble: Trouble
) -> None:
    conn.execute("create table public.seen (name text, pid integer)")
    trouble.execute("insert into public.seen select name, pg_backend_pid() from pg_prepared_statements")
    for _ in range(3):
        with SyncStore(database, max_size=1) as store:
            for _ in range(10):
                store.is_notify_enabled()

    rows = conn.execute("select count(distinct name), count(distinct pid) from public.seen").fetchone()
    assert rows == (3, 3)


def test_a_store_told_so_prepares_nothing(database: str, trouble: Trouble) -> None:
    trouble.execute("deallocate all")
    with SyncStore(database, prepare=False) as store:
        assert all(store.is_notify_enabled() for _ in range(20))


def test_statements_are_prepared_unless_told_otherwise(
    store: SyncStore, conn: psycopg.Connection[Any], trouble: Trouble
) -> None:
    conn.execute("create table public.seen (statements bigint)")
    trouble.execute("insert into public.seen select count(*) from pg_prepared_statements")
    for _ in range(20):
        store.is_notify_enabled()

    assert conn.execute("select max(statements) from public.seen").fetchone() == (1,)
