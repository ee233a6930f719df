"""Sessions for these tests. None of them may ever have seen a deadlock."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from tests.concurrency.sessions import Session, deadlocks
from tests.conftest import Connect
from tests.engine.sql import Connection

OpenSession = Callable[[], Session]


@pytest.fixture
def open_session(database: str, connect: Connect, conn: Connection) -> Generator[OpenSession]:
    """Open sessions of the same database; at the end, no deadlock has been counted in it."""
    opened: list[Session] = []

    def open_one() -> Session:
        session = Session(connect(database), conn)
        session.conn.execute("set deadlock_timeout = '50ms'")
        opened.append(session)
        return session

    yield open_one
    for session in opened:
        session.finish()
    assert deadlocks(conn, [session.conn for session in opened]) == 0


@pytest.fixture
def first(open_session: OpenSession) -> Session:
    return open_session()


@pytest.fixture
def second(open_session: OpenSession) -> Session:
    return open_session()


@pytest.fixture
def third(open_session: OpenSession) -> Session:
    return open_session()
