"""The store for asyncio: a pool of connections, and every call within its deadline."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self, TypeVar, cast

import psycopg
from psycopg.rows import TupleRow, tuple_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from holdfast.store import adapters
from holdfast.store.async_calls import AsyncCalls
from holdfast.store.base import CLOSE_S, SLICE_S, PooledStore, Sql
from holdfast.store.call import Call, Rows, Unread, parsed
from holdfast.store.connections import DeadlineAsyncConnection, is_stale
from holdfast.store.group import Group
from holdfast.store.grouping import Submission
from holdfast.store.loop_end import LoopEnd
from holdfast.store.sqlstates import refusal
from holdfast.store.trial import Trial

R = TypeVar("R")

_TAKE_S: Final = 0.1
"""How long to wait for a connection that was idle a moment ago."""


class Store(PooledStore[AsyncConnectionPool[DeadlineAsyncConnection]], AsyncCalls):
    """The engine's functions for asyncio, each on a pooled connection, in a transaction of its own.

    Opens itself at the first call; belongs to the event loop of that call. Needs no state in its sessions, so
    that a pooler in transaction mode may stand in between; `prepare=False` is for those that know no prepared
    statements (pgbouncer before 1.21). Otherwise the first one that is lost switches them off.

    A call ends with DatabaseUnavailable at its deadline (`timeout_s`, 10 s unless named, getting a connection
    included) or half a second later. Conflicts with other transactions are tried again, a lost connection
    only where a second execution does no harm; else the error says that the outcome is not known.
    """

    def _new_pool(self, **options: Any) -> AsyncConnectionPool[DeadlineAsyncConnection]:
        self._kept: DeadlineAsyncConnection | None = None
        self._loop_end = LoopEnd()
        self._group = Group(self._run)
        return AsyncConnectionPool(connection_class=DeadlineAsyncConnection, **options)

    async def open(self) -> None:
        """Let connections be made, without waiting for one. The first call does it too."""
        self._refuse_if_closed()
        self._loop_end.watch()
        await self._pool.open()

    async def close(self) -> None:
        """Close all connections, those in use as their calls end, within five seconds, server or not."""
        self._closed = True
        self._pacing.close()
        idle = [] if self._kept is None else [self._kept]
        self._kept = None
        try:
            await self._take_idle_connections(idle)
            await self._pool.close(timeout=CLOSE_S)
            await self._loop_end.unwatch()
        except asyncio.CancelledError:
            # A loop that ends has cancelled the pool's own tasks by now. The pool takes that for itself and
            # forgets its connections, which is why the idle ones are taken out before.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
        finally:
            for conn in idle:
                await conn.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def using(self, conn: psycopg.AsyncConnection[Any]) -> StoreOnConnection:
        """The same calls on the caller's own connection, in whatever transaction it is in."""
        return StoreOnConnection(conn, schema=self._sql.schema)

    async def run(self, call: Call[R]) -> R:
        trial = self._begin(call)
        if call.joins:
            return cast("R", await self._group.submit(cast("Submission", trial)))
        return await self._run(trial)

    async def _run(self, trial: Trial[R]) -> R:
        if self._pool.closed:
            await self.open()
        while True:
            try:
                answer = await self._attempt(trial)
            except psycopg.Error as error:
                pause_s = self._pause_s(trial, error)
            else:
                return parsed(trial.call, answer)
            await asyncio.sleep(pause_s)

    async def _take_idle_connections(self, taken: list[DeadlineAsyncConnection]) -> None:
        with suppress(PoolTimeout, PoolClosed):  # a call was faster, and will close what it took
            for _ in range(self._pool.get_stats()["pool_available"]):
                taken.append(await self._pool.getconn(timeout=_TAKE_S))

    async def _attempt(self, trial: Trial[Any]) -> Rows | Unread:
        conn = await self._connection(trial)
        try:
            conn.deadline = trial.deadline
            answer = await self._execute(conn, trial.call)
            if self._may_keep(conn):
                self._kept = conn
            return answer
        except psycopg.Error as error:
            self._distrust_idle_connections(conn, error)
            raise
        finally:
            if conn is not self._kept:
                await self._pool.putconn(conn)

    async def _connection(self, trial: Trial[Any]) -> DeadlineAsyncConnection:
        while True:
            conn, self._kept = self._kept, None
            try:
                conn = conn or await self._pool.getconn(timeout=min(SLICE_S, trial.deadline - monotonic()))
            except PoolTimeout:
                trial.go_on_without_connection(monotonic(), self._pacing)
                continue
            except PoolClosed:
                self._refuse_if_closed()
                raise
            if conn.made_at >= self._trusted_since and not is_stale(conn):
                return conn
            await conn.close()
            await self._pool.putconn(conn)

    async def _execute(self, conn: DeadlineAsyncConnection, call: Call[Any]) -> Rows | Unread:
        if call.listens:
            async with conn.transaction():
                answer = await self._answer(conn, call)
                await conn.execute("unlisten *")
                return answer
        return await self._answer(conn, call)

    async def _answer(self, conn: DeadlineAsyncConnection, call: Call[Any]) -> Rows | Unread:
        answer = await conn.wait(self._asking(conn.statements, call))
        return answer.read() if call.parse_unread is None else answer


class StoreOnConnection(AsyncCalls):
    """The engine's functions on a connection of the caller, in the caller's transaction.

    What they change exists when the caller commits, and not before. Nothing is tried again and there is no
    deadline: both are up to whoever owns the transaction. What the engine refuses is raised as our own
    exceptions, other errors as the driver's, because they concern the transaction.
    """

    def __init__(self, conn: psycopg.AsyncConnection[Any], *, schema: str) -> None:
        self._conn = conn
        self._sql = Sql(schema)

    async def run(self, call: Call[R]) -> R:
        # A cursor of our own making: the connection's may bind on the client, or make other rows.
        cursor = psycopg.AsyncCursor(self._conn, row_factory=tuple_row)
        cursor.format = psycopg.pq.Format.BINARY
        adapters.register(cursor.adapters)
        try:
            await cursor.execute(self._sql.of(call.statement), call.parameters)
        except psycopg.Error as error:
            refused = refusal(error, self._sql.schema)
            if refused is None:
                raise
            raise refused from error
        return call.parse(await _rows(cursor))


async def _rows(cursor: psycopg.AsyncCursor[TupleRow]) -> Rows:
    try:
        rows = await cursor.fetchall()
    except psycopg.DataError:
        rows = adapters.read_again(cursor, cursor.pgresult)
    return adapters.in_utc(rows, cursor.connection)
