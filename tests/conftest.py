"""A PostgreSQL for the tests, and a fresh database with Holdfast in it for each of them.

HOLDFAST_TEST_DATABASE_URL names a server to use instead of an embedded one; its role must be a superuser.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import config, embedded
from holdfast.engine import installer
from tests.clock import TEST_CLOCK, Clock
from tests.databases import Databases
from tests.pgbouncer import PgBouncer

Connect = Callable[..., psycopg.Connection[Any]]

SERVER_SETTINGS = {
    # Nothing here outlives the tests.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    # Nobody but a test is to touch its database.
    "autovacuum": "off",
    # The embedded role is named as the schema, so "$user" would find what nobody qualified.
    "search_path": "public",
}


# Whoever is started in the background of a shell ignores Ctrl-C, and so would every program a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

GIVE_UP_S = 20.0
"""How long before its time is over a coroutine is cancelled: what it has opened must be closed by then."""


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """End a test on the event loop in time.

    pytest-timeout interrupts the loop, not the coroutine: that goes on as soon as a fixture needs the loop to
    clean up, and the fixture waits for it, for ever if need be, with nobody left to look at the clock.
    """
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = _in_time(pyfuncitem.obj, _time_of(pyfuncitem) - GIVE_UP_S)
    return (yield)


def _time_of(item: pytest.Function) -> float:
    marker = item.get_closest_marker("timeout")
    named = marker.args[0] if marker is not None else item.config.getoption("timeout")
    return float(named or item.config.getini("timeout"))


def _in_time(test: Callable[..., Coroutine[Any, Any, None]], within_s: float) -> Callable[..., Any]:
    @wraps(test)
    async def run(*args: Any, **options: Any) -> None:
        async with asyncio.timeout(within_s):
            await test(*args, **options)

    return run


@pytest.fixture(scope="session")
def server_dsn() -> Generator[str]:
    """A PostgreSQL server, by the address of a database that tests leave alone."""
    if named := os.environ.get("HOLDFAST_TEST_DATABASE_URL"):
        yield named
        return
    with _open_directory() as directory, embedded.start(directory / "pg", settings=SERVER_SETTINGS) as server:
        yield server.dsn


@pytest.fixture
def open_directory() -> Generator[Path]:
    """A directory that a server's own user can reach, which those of `tmp_path` are not."""
    with _open_directory() as directory:
        yield directory


@contextmanager
def _open_directory() -> Generator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="holdfast-tests-", dir=_quick_place()))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _quick_place() -> Path | None:
    """Memory, if there is enough: to copy the 300 files of a database took 8 ms there, and 100 on a disk."""
    memory = Path("/dev/shm")  # noqa: S108
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 * 1024**3
    return memory if roomy else None


@pytest.fixture(scope="session")
def pgbouncer(server_dsn: str) -> Generator[PgBouncer]:
    """A pgbouncer in transaction mode for all databases of the server; skips where there is none."""
    with _open_directory() as directory:
        running = PgBouncer(directory, server_dsn)
        yield running
        running.stop()


@pytest.fixture(scope="session")
def databases(server_dsn: str) -> Generator[Databases]:
    """The maker of databases, for tests that need more than one."""
    maker = Databases(server_dsn)
    yield maker
    maker.close()


@pytest.fixture(scope="session")
def template(databases: Databases) -> Generator[str]:
    """The name of a database with Holdfast and the tests' clock in it. Nobody may be connected to it."""
    name = databases.create(f"holdfast_template_{os.getpid()}")
    with psycopg.connect(databases.dsn(name), autocommit=True) as conn:
        installer.install(conn)
        conn.execute(TEST_CLOCK)
    yield name
    databases.drop_later(name)


@pytest.fixture
def database(databases: Databases, template: str) -> Generator[str]:
    """The address of a fresh database with Holdfast in it."""
    name = databases.create(template=template)
    yield databases.dsn(name)
    databases.drop_later(name)


@pytest.fixture
def blank_database(databases: Databases) -> Generator[str]:
    """The address of a fresh database with nothing in it."""
    name = databases.create()
    yield databases.dsn(name)
    databases.drop_later(name)


@pytest.fixture
def connect(request: pytest.FixtureRequest) -> Generator[Connect]:
    """Open connections in autocommit mode, to `database` unless another is named; closed at the end."""
    opened: list[psycopg.Connection[Any]] = []

    def open_connection(dsn: str | None = None, **options: Any) -> psycopg.Connection[Any]:
        target: str = dsn or request.getfixturevalue("database")
        conn: psycopg.Connection[Any] = psycopg.connect(target, **{"autocommit": True, **options})
        opened.append(conn)
        return conn

    yield open_connection
    for conn in opened:
        conn.close()


@pytest.fixture
def conn(database: str, connect: Connect) -> psycopg.Connection[Any]:
    """A connection to `database` in autocommit mode; its search_path is the server's."""
    return connect(database)


@pytest.fixture
def clock(database: str, connect: Connect) -> Clock:
    """The engine's clock in `database`."""
    return Clock(connect(database))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_database_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests never touch the database of whoever runs them."""
    for variable in config.DATABASE_URL_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
