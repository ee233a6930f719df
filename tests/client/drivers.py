"""Every kind of connection a caller may have a transaction on, each behind the same few methods.

Blocking ones first. `begin` opens a transaction as that library's users do, and yields what they pass as
`conn`; leaving it with an exception rolls back, else it commits.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any

import asyncpg
import django
import django.db
import psycopg
from django.conf import settings
from django.db import transaction as django_transaction
from django.db.utils import ConnectionHandler
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

if not settings.configured:
    settings.configure(DATABASES={}, USE_TZ=True)
    django.setup()

Begin = Callable[[str], AbstractContextManager[Any]]
ABegin = Callable[[str], AbstractAsyncContextManager[Any]]


@contextmanager
def psycopg_connection(dsn: str) -> Generator[Any]:
    with psycopg.connect(dsn) as conn:
        yield conn


@contextmanager
def psycopg_with_settings_of_its_own(dsn: str) -> Generator[Any]:
    with (
        psycopg.connect(
            dsn, autocommit=True, row_factory=dict_row, cursor_factory=psycopg.ClientCursor
        ) as conn,
        conn.transaction(),
    ):
        yield conn


def _engine(dsn: str) -> Any:
    return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=NullPool)


@contextmanager
def sqlalchemy_session(dsn: str) -> Generator[Any]:
    with Session(_engine(dsn)) as session, session.begin():
        yield session


@contextmanager
def sqlalchemy_session_begun_by_us(dsn: str) -> Generator[Any]:
    """A session that nobody used before: our statement begins its transaction."""
    with Session(_engine(dsn)) as session:
        yield session
        session.commit()


@contextmanager
def sqlalchemy_scoped_session(dsn: str) -> Generator[Any]:
    session = scoped_session(sessionmaker(_engine(dsn)))
    try:
        yield session
        session.commit()
    finally:
        session.remove()


@contextmanager
def sqlalchemy_connection(dsn: str) -> Generator[Any]:
    with _engine(dsn).begin() as conn:
        yield conn


@contextmanager
def sqlalchemy_connection_begun_by_us(dsn: str) -> Generator[Any]:
    with _engine(dsn).connect() as conn:
        yield conn
        conn.commit()


def _django_database(dsn: str) -> None:
    facts = conninfo_to_dict(dsn)
    django.db.connections["default"] = ConnectionHandler(
        {
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": facts["dbname"],
                "USER": facts.get("user", ""),
                "PASSWORD": facts.get("password", ""),
                "HOST": facts.get("host", ""),
                "PORT": facts.get("port", ""),
            }
        }
    )["default"]


@contextmanager
def django_connection(dsn: str) -> Generator[Any]:
    """The proxy that everybody imports."""
    _django_database(dsn)
    try:
        with django_transaction.atomic():
            yield django.db.connection
    finally:
        django.db.connections["default"].close()


@contextmanager
def django_connection_by_alias(dsn: str) -> Generator[Any]:
    _django_database(dsn)
    try:
        with django_transaction.atomic():
            yield django.db.connections["default"]
    finally:
        django.db.connections["default"].close()


BLOCKING: list[Begin] = [
    psycopg_connection,
    psycopg_with_settings_of_its_own,
    sqlalchemy_session,
    sqlalchemy_session_begun_by_us,
    sqlalchemy_scoped_session,
    sqlalchemy_connection,
    sqlalchemy_connection_begun_by_us,
    django_connection,
    django_connection_by_alias,
]


@asynccontextmanager
async def psycopg_async_connection(dsn: str) -> AsyncGenerator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn) as conn:
        yield conn


def _for_asyncpg(dsn: str) -> dict[str, Any]:
    facts = conninfo_to_dict(dsn)
    named = {name: facts.get(name) for name in ("host", "port", "user", "password")}
    return {**named, "database": facts["dbname"]}


async def connect_asyncpg(dsn: str) -> Any:
    return await asyncpg.connect(**_for_asyncpg(dsn))


@asynccontextmanager
async def asyncpg_connection(dsn: str) -> AsyncGenerator[Any]:
    conn = await connect_asyncpg(dsn)
    try:
        async with conn.transaction():
            yield conn
    finally:
        await conn.close()


@asynccontextmanager
async def asyncpg_connection_of_a_pool(dsn: str) -> AsyncGenerator[Any]:
    pool = asyncpg.create_pool(**_for_asyncpg(dsn), min_size=1, max_size=1)
    async with pool, pool.acquire() as conn, conn.transaction():
        yield conn


def _async_engine(dsn: str, driver: str) -> AsyncEngine:
    async def connect() -> Any:
        if driver == "asyncpg":
            return await connect_asyncpg(dsn)
        return await psycopg.AsyncConnection.connect(dsn)

    return create_async_engine(f"postgresql+{driver}://", async_creator=connect, poolclass=NullPool)


@asynccontextmanager
async def sqlalchemy_async_session(dsn: str) -> AsyncGenerator[Any]:
    async with AsyncSession(_async_engine(dsn, "psycopg")) as session, session.begin():
        yield session


@asynccontextmanager
async def sqlalchemy_async_session_on_asyncpg(dsn: str) -> AsyncGenerator[Any]:
    async with AsyncSession(_async_engine(dsn, "asyncpg")) as session:
        yield session
        await session.commit()


@asynccontextmanager
async def sqlalchemy_async_connection(dsn: str) -> AsyncGenerator[Any]:
    async with _async_engine(dsn, "asyncpg").begin() as conn:
        yield conn


AWAITABLE: list[ABegin] = [
    psycopg_async_connection,
    asyncpg_connection,
    asyncpg_connection_of_a_pool,
    sqlalchemy_async_session,
    sqlalchemy_async_session_on_asyncpg,
    sqlalchemy_async_connection,
]
