"""The blocking store, for threads: a pool of connections, and every call within its deadline."""

from __future__ import annotations

from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import psycopg
from psycopg.rows import TupleRow, tuple_row
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from holdfast.store import adapters
from holdfast.store.base import CLOSE_S, SLICE_S, PooledStore, Sql
from holdfast.store.call import Call, Rows, Unread, parsed
from holdfast.store.connections import DeadlineConnection, is_stale
from holdfast.store.grouping import Submission
from holdfast.store.sqlstates import refusal
from holdfast.store.sync_calls import SyncCalls
from holdfast.store.sync_group import SyncGroup
from holdfast.store.trial import Trial

R = TypeVar("R")


class SyncStore(PooledStore[ConnectionPool[DeadlineConnection]], SyncCalls):
    """The engine's functions as blocking calls, each on a pooled connection, in a transaction of its own.

    Threads may share it. Opens itself at the first call. In everything else it is as `Store`.
    """

    def _new_pool(self, **options: Any) -> ConnectionPool[DeadlineConnection]:
        self._kept: DeadlineConnection | None = None
        self._group = SyncGroup(self._run)
        return ConnectionPool(connection_class=DeadlineConnection, **options)

    def open(self) -> None:
        """Let connections be made, without waiting for one. The first call does it too."""
        self._refuse_if_closed()
        self._pool.open()

    def close(self) -> None:
        """Close all connections, those in use as their calls end, within five seconds, server or not."""
        self._closed = True
        self._pacing.close()
        if self._kept is not None:
            self._kept.close()
        self._pool.close(timeout=CLOSE_S)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def using(self, conn: psycopg.Connection[Any]) -> SyncStoreOnConnection:
        """The same calls on the caller's own connection, in whatever transaction it is in."""
        return SyncStoreOnConnection(conn, schema=self._sql.schema)

    def run(self, call: Call[R]) -> R:
        trial = self._begin(call)
        if call.joins:
            return cast("R", self._group.submit(cast("Submission", trial)))
        return self._run(trial)

    def _run(self, trial: Trial[R]) -> R:
        if self._pool.closed:
            self.open()
        while True:
            try:
                answer = self._attempt(trial)
            except psycopg.Error as error:
                pause_s = self._pause_s(trial, error)
            else:
                return parsed(trial.call, answer)
            sleep(pause_s)

    def _attempt(self, trial: Trial[Any]) -> Rows | Unread:
        conn = self._connection(trial)
        try:
            conn.deadline = trial.deadline
            answer = self._execute(conn, trial.call)
            if self._may_keep(conn):
                self._kept = conn
            return answer
        except psycopg.Error as error:
            self._distrust_idle_connections(conn, error)
            raise
        finally:
            if conn is not self._kept:
                self._pool.putconn(conn)

    def _connection(self, trial: Trial[Any]) -> DeadlineConnection:
        while True:
            conn, self._kept = self._kept, None
            try:
                conn = conn or self._pool.getconn(timeout=min(SLICE_S, trial.deadline - monotonic()))
            except PoolTimeout:
                trial.go_on_without_connection(monotonic(), self._pacing)
                continue
            except PoolClosed:
                self._refuse_if_closed()
                raise
            if conn.made_at >= self._trusted_since and not is_stale(conn):
                return conn
            conn.close()
            self._pool.putconn(conn)

    def _execute(self, conn: DeadlineConnection, call: Call[Any]) -> Rows | Unread:
        if call.listens:
            with conn.transaction():
                answer = self._answer(conn, call)
                conn.execute("unlisten *")
                return answer
        return self._answer(conn, call)

    def _answer(self, conn: DeadlineConnection, call: Call[Any]) -> Rows | Unread:
        answer = conn.wait(self._asking(conn.statements, call))
        return answer.read() if call.parse_unread is None else answer


class SyncStoreOnConnection(SyncCalls):
    """The engine's functions on a connection of the caller, in the caller's transaction.

    What they change exists when the caller commits, and not before. Nothing is tried again and there is no
    deadline: both are up to whoever owns the transaction. What the engine refuses is raised as our own
    exceptions, other errors as the driver's, because they concern the transaction.
    """

    def __init__(self, conn: psycopg.Connection[Any], *, schema: str) -> None:
        self._conn = conn
        self._sql = Sql(schema)

    def run(self, call: Call[R]) -> R:
        # A cursor of our own making: the connection's may bind on the client, or make other rows.
        cursor = psycopg.Cursor(self._conn, row_factory=tuple_row)
        cursor.format = psycopg.pq.Format.BINARY
        adapters.register(cursor.adapters)
        try:
            cursor.execute(self._sql.of(call.statement), call.parameters)
        except psycopg.Error as error:
            refused = refusal(error, self._sql.schema)
            if refused is None:
                raise
            raise refused from error
        return call.parse(_rows(cursor))


def _rows(cursor: psycopg.Cursor[TupleRow]) -> Rows:
    try:
        rows = cursor.fetchall()
    except psycopg.DataError:
        rows = adapters.read_again(cursor, cursor.pgresult)
    return adapters.in_utc(rows, cursor.connection)
