"""Sessions whose statements a test starts, sees waiting, and lets go on: interleavings without sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from tests.engine.sql import Connection, Rows, call, column

Answer = TypeVar("Answer")

PATIENCE_S = 20.0
TELLS_AT_ONCE_SINCE = 150000


class Session:
    """A connection with a thread of its own."""

    def __init__(self, conn: Connection, observer: Connection) -> None:
        self.conn = conn
        self.pid = conn.info.backend_pid
        self._observer = observer
        self._thread = ThreadPoolExecutor(1)
        self._started: Future[Any] | None = None

    def begin(self, isolation: str = "read committed") -> None:
        self.conn.execute(f"begin isolation level {isolation}".encode())

    def commit(self) -> None:
        self.conn.execute("commit")

    def rollback(self) -> None:
        self.conn.execute("rollback")

    def call(self, function: str, **arguments: object) -> Rows:
        return call(self.conn, function, **arguments)

    def start(self, act: Callable[[Connection], Answer]) -> Future[Answer]:
        """Begin an act on this session's connection, in its thread."""
        future = self._thread.submit(act, self.conn)
        self._started = future
        return future

    def start_blocked(self, act: Callable[[Connection], Answer]) -> Future[Answer]:
        """Begin an act that must wait for another session; return when it waits."""
        future = self.start(act)
        wait_until_blocked(self._observer, self.pid, future)
        return future

    @contextmanager
    def impatient(self) -> Iterator[Connection]:
        """Inside, waiting for a lock is an error: what succeeds has not waited."""
        self.conn.execute("set lock_timeout = '20ms'")
        yield self.conn
        self.conn.execute("set lock_timeout = 0")

    def finish(self) -> None:
        """End what still runs, after a test that failed half-way, and the transaction."""
        if self._started is not None and not self._started.done():
            self.conn.cancel_safe()
        self._thread.shutdown()
        self.rollback()


def wait_until_blocked(observer: Connection, pid: int, future: Future[Answer]) -> None:
    """Return when the session with this process id waits for another one's lock."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if column(observer, "select cardinality(pg_blocking_pids(%s)) > 0", pid) == [True]:
            return
        if future.done():
            raise AssertionError(f"it did not wait, but answered {future.result()!r}")
    raise AssertionError("it never came to wait")


def answer(future: Future[Answer]) -> Answer:
    """What a started act came to; its error, if it came to one."""
    return future.result(timeout=PATIENCE_S)


def deadlocks(observer: Connection, sessions: list[Connection]) -> int:
    """How many deadlocks were found in this database; each session first tells what it has seen."""
    for session in sessions:
        if session.info.server_version >= TELLS_AT_ONCE_SINCE:
            session.execute("select pg_stat_force_next_flush()")
    (count,) = column(observer, "select deadlocks from pg_stat_database where datname = current_database()")
    return int(count)
