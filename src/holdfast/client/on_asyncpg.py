"""Enqueueing on a connection of asyncpg."""

from __future__ import annotations

from typing import Any, TypeVar

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from holdfast.client.borrowing import Borrowed, refused
from holdfast.client.foreign import numbered_sql, refusal_in
from holdfast.store import Call

R = TypeVar("R")


class OnAsyncpg:
    """The engine's calls on a connection of asyncpg, in whatever transaction it is in."""

    def __init__(self, conn: Any, schema: str) -> None:
        self._conn = conn
        self._schema = schema

    async def run(self, call: Call[R]) -> R:
        sql = numbered_sql(call.statement, self._schema)
        try:
            records = await self._conn.fetch(sql, *call.parameters)
        except asyncpg.PostgresError as error:
            if (ours := refusal_in(error, self._schema)) is None:
                raise
            raise ours from error
        return call.parse([tuple(record) for record in records])


def borrow_asyncpg(conn: object, schema: str) -> Borrowed:
    if not isinstance(conn, asyncpg.Connection | PoolConnectionProxy):
        raise refused(conn)
    return Borrowed("an asyncpg connection", awaitable=OnAsyncpg(conn, schema))
