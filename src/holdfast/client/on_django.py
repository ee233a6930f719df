"""Enqueueing on a connection of Django, within its `atomic` blocks."""

from __future__ import annotations

from typing import Any, TypeVar

from django.db import Error  # pyright: ignore[reportMissingTypeStubs]

from holdfast.client.borrowing import Borrowed, refused
from holdfast.client.foreign import plain_sql, refusal_in
from holdfast.errors import InvalidArgument
from holdfast.store import Call

R = TypeVar("R")


class OnDjango:
    """The engine's calls on a connection of Django, with either driver it can have."""

    def __init__(self, conn: Any, schema: str) -> None:
        self._conn = conn
        self._schema = schema

    def run(self, call: Call[R]) -> R:
        try:
            with self._conn.cursor() as cursor:
                cursor.execute(plain_sql(call.statement, self._schema), call.parameters)
                rows = cursor.fetchall()
        except Error as error:
            if (ours := refusal_in(error, self._schema)) is None:
                raise
            raise ours from error
        return call.parse([tuple(row) for row in rows])


def borrow_django(conn: Any, schema: str) -> Borrowed:
    vendor = getattr(conn, "vendor", None)
    if vendor is None:
        raise refused(conn)
    if vendor != "postgresql":
        raise InvalidArgument(
            f"this connection is to {vendor}; jobs are enqueued in PostgreSQL, with Holdfast in it"
        )
    return Borrowed("a Django connection", blocking=OnDjango(conn, schema))
