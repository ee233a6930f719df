"""A store for one caller after the other keeps its connection between calls, and no longer than is good."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from holdfast.errors import JobNotFound
from holdfast.store import Store, SyncStore, base
from tests.store.trouble import backend_pids, named

NAME = "one after the other"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows whenever a connection is taken out of a pool."""
    times: list[str] = []
    for kind in (ConnectionPool, AsyncConnectionPool):

        def getconn(pool: Any, timeout: float | None = None, take: Any = kind.getconn) -> Any:
            times.append(type(pool).__name__)
            return take(pool, timeout)

        monkeypatch.setattr(kind, "getconn", getconn)
    return times


def end(conn: psycopg.Connection[Any]) -> int:
    """End the store's session, which is to be its only one."""
    (pid,) = backend_pids(conn, NAME)
    conn.execute("select pg_terminate_backend(%s, 5000)", [pid])
    return pid


def is_gone(conn: psycopg.Connection[Any]) -> bool:
    """Whether the store's sessions end, if only a moment after they were closed."""
    for _ in range(1000):
        if not backend_pids(conn, NAME):
            return True
        conn.execute("select pg_sleep(0.01)")
    return False


def test_one_call_after_the_other_takes_one_connection(
    database: str, conn: psycopg.Connection[Any], taken: list[str]
) -> None:
    with SyncStore(named(database, NAME), serial=True) as store:
        answers = [store.is_notify_enabled() for _ in range(3)]
        sessions = backend_pids(conn, NAME)

    assert (answers, taken, len(sessions)) == ([True] * 3, ["ConnectionPool"], 1)
    assert is_gone(conn)


@pytest.mark.anyio
async def test_one_await_after_the_other_takes_one_connection(
    database: str, conn: psycopg.Connection[Any], taken: list[str]
) -> None:
    async with Store(named(database, NAME), serial=True) as store:
        answers = [await store.is_notify_enabled() for _ in range(3)]
        sessions = backend_pids(conn, NAME)

    assert (answers, taken, len(sessions)) == ([True] * 3, ["AsyncConnectionPool"], 1)
    assert is_gone(conn)


def test_that_a_kept_session_was_ended_is_not_noticed(database: str, conn: psycopg.Connection[Any]) -> None:
    with SyncStore(named(database, NAME), serial=True) as store:
        store.is_notify_enabled()
        ended = end(conn)

        assert store.is_notify_enabled() is True
        assert ended not in backend_pids(conn, NAME)


@pytest.mark.anyio
async def test_that_a_kept_session_was_ended_is_not_noticed_by_a_coroutine(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    async with Store(named(database, NAME), serial=True) as store:
        await store.is_notify_enabled()
        ended = end(conn)

        assert await store.is_notify_enabled() is True
        assert ended not in backend_pids(conn, NAME)


def test_an_old_connection_goes_back_to_the_pool_which_replaces_it(
    database: str, taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "KEPT_S", 0.0)
    with SyncStore(database, serial=True) as store:
        store.is_notify_enabled()
        store.is_notify_enabled()

    assert len(taken) == 2


def test_the_connection_of_a_call_that_failed_goes_back_to_the_pool(database: str, taken: list[str]) -> None:
    with SyncStore(database, serial=True) as store:
        with pytest.raises(JobNotFound):
            store.revive_job("nobody")
        assert store.is_notify_enabled() is True

    assert len(taken) == 2
