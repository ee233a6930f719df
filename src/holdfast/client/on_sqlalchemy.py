"""Enqueueing by way of SQLAlchemy, whatever driver is below it, so that it knows of the transaction."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from holdfast.client.borrowing import Borrowed, refused
from holdfast.client.foreign import named_sql, refusal_in
from holdfast.errors import InvalidArgument
from holdfast.store import Call

R = TypeVar("R")


class OnSqlalchemy:
    """The engine's calls on a Session or a Connection."""

    def __init__(self, conn: Any, schema: str) -> None:
        self._conn = conn
        self._schema = schema

    def run(self, call: Call[R]) -> R:
        try:
            rows = self._conn.execute(*_statement(call, self._schema))
        except DBAPIError as error:
            if (ours := refusal_in(error, self._schema)) is None:
                raise
            raise ours from error
        return call.parse([tuple(row) for row in rows])


class OnAsyncSqlalchemy:
    """The engine's calls on an AsyncSession or an AsyncConnection."""

    def __init__(self, conn: Any, schema: str) -> None:
        self._conn = conn
        self._schema = schema

    async def run(self, call: Call[R]) -> R:
        try:
            rows = await self._conn.execute(*_statement(call, self._schema))
        except DBAPIError as error:
            if (ours := refusal_in(error, self._schema)) is None:
                raise
            raise ours from error
        return call.parse([tuple(row) for row in rows])


def borrow_sqlalchemy(conn: Any, schema: str) -> Borrowed:
    kind = f"a SQLAlchemy {type(conn).__name__}"
    if isinstance(conn, AsyncSession | async_scoped_session | AsyncConnection):
        _refuse_other_databases(conn)
        return Borrowed(kind, awaitable=OnAsyncSqlalchemy(conn, schema))
    if isinstance(conn, Session | scoped_session | Connection):
        _refuse_other_databases(conn)
        return Borrowed(kind, blocking=OnSqlalchemy(conn, schema))
    raise refused(conn)


def _statement(call: Call[Any], schema: str) -> tuple[Any, dict[str, Any]]:
    parameters = {f"p{number}": value for number, value in enumerate(call.parameters, 1)}
    return text(named_sql(call.statement, schema)), parameters


def _refuse_other_databases(conn: Any) -> None:
    bind = getattr(conn, "bind", None) or conn  # a session's engine, if it has but one
    dialect = getattr(getattr(bind, "dialect", None), "name", "postgresql")
    if dialect != "postgresql":
        raise InvalidArgument(
            f"this connection is to {dialect}; jobs are enqueued in PostgreSQL, with Holdfast in it"
        )
