"""The caller's own connection: which kind it is, and how to call the engine on it, in its transaction.

Only what the caller has imported is imported here: asyncpg, SQLAlchemy and Django stay optional.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import psycopg

from holdfast.errors import InvalidArgument
from holdfast.store import Call, StoreOnConnection, SyncStoreOnConnection

R = TypeVar("R")


class Blocking(Protocol):
    """Runs calls while the caller waits."""

    def run(self, call: Call[R]) -> R: ...


class Awaitable(Protocol):
    """Runs calls when awaited."""

    async def run(self, call: Call[R]) -> R: ...


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A connection of the caller's: for `enqueue` or for `aenqueue`, never for both."""

    kind: str
    blocking: Blocking | None = None
    awaitable: Awaitable | None = None

    def for_blocking(self) -> Blocking:
        if self.blocking is None:
            raise InvalidArgument(f"{self.kind} is for asyncio: use aenqueue() with it, and `await`")
        return self.blocking

    def for_awaiting(self) -> Awaitable:
        if self.awaitable is None:
            raise InvalidArgument(
                f"{self.kind} blocks: use enqueue() with it, in a thread if the code around is asynchronous"
            )
        return self.awaitable


def borrow(conn: object, schema: str) -> Borrowed:
    """Say how to call the engine on this connection; raise InvalidArgument for what is none."""
    itself: Any = conn
    if isinstance(conn, psycopg.Connection):
        return Borrowed(
            "a psycopg Connection",
            SyncStoreOnConnection(itself, schema=schema),
        )
    if isinstance(conn, psycopg.AsyncConnection):
        return Borrowed(
            "a psycopg AsyncConnection",
            awaitable=StoreOnConnection(itself, schema=schema),
        )
    packages = {kind.__module__.partition(".")[0] for kind in type(conn).__mro__}
    if "asyncpg" in packages:
        from holdfast.client.on_asyncpg import borrow_asyncpg

        return borrow_asyncpg(conn, schema)
    if "sqlalchemy" in packages:
        from holdfast.client.on_sqlalchemy import borrow_sqlalchemy

        return borrow_sqlalchemy(conn, schema)
    if "django" in packages:
        from holdfast.client.on_django import borrow_django

        return borrow_django(conn, schema)
    raise refused(conn)


TAKEN: Final = (
    "a psycopg Connection or AsyncConnection, an asyncpg Connection, a SQLAlchemy Session, AsyncSession, "
    "Connection or AsyncConnection, or a Django connection (django.db.connection)"
)


def refused(conn: object) -> InvalidArgument:
    kind = f"{type(conn).__module__}.{type(conn).__qualname__}"
    return InvalidArgument(f"conn is a {kind}, which has no transaction to enqueue in; pass {TAKEN}")
