"""Sessions for these tests. None of them may ever have seen a deadlock.

Whatever holds of jobs that leave the line when they are claimed holds of those that stay in it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from tests.concurrency.sessions import Session, deadlocks
from tests.conftest import Connect
from tests.databases import Databases
from tests.engine.sql import Connection, let_all_stay_in_line

OpenSession = Callable[[], Session]


@pytest.fixture(params=["leave the line", "stay in line"])
def database(
    request: pytest.FixtureRequest, databases: Databases, template: str, connect: Connect
) -> Generator[str]:
    """The address of a fresh database with Holdfast in it, where claimed jobs do one or the other."""
    name = databases.create(template=template)
    if request.param == "stay in line":
        let_all_stay_in_line(connect(databases.dsn(name)))
    yield databases.dsn(name)
    databases.drop_later(name)


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
