"""A database of our own on somebody's server, gone when we are done."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from psycopg import Error
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Composed, Identifier

from holdfast import embedded
from holdfast.engine.connect import connect
from holdfast.errors import InstallationRefused

PREFIX = "holdfast_bench"

_CREATE = SQL("create database {} template template0 encoding 'UTF8'")
_DROP = SQL("drop database if exists {} with (force)")

Say = Callable[[str], None]


@contextmanager
def scratch_database(dsn: str | None, say: Say) -> Generator[str]:
    """The address of a fresh database: on the server of `dsn`, else on the project's embedded one.

    The environment's DATABASE_URL is not looked at: nobody's production is to be loaded by accident. On the
    embedded server a measurement has the disk and the settings the user's own jobs have.
    """
    if dsn:
        with _database(dsn) as address:
            yield address
        return
    with embedded.start(log=say) as server, _database(server.dsn) as address:
        yield address


@contextmanager
def ended_in_order() -> Generator[None]:
    """Let a SIGTERM end us like an interrupt, so that what was made is removed on the way out."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _database(server: str) -> Generator[str]:
    name = f"{PREFIX}_{os.getpid()}_{secrets.token_hex(3)}"
    with ended_in_order():
        try:
            _execute(server, _CREATE.format(Identifier(name)))
        except Error as error:
            raise InstallationRefused(
                f"no scratch database for the measurement could be made: {' '.join(str(error).split())}. "
                "Name a role that may create databases, or none to use the embedded server"
            ) from error
        try:
            yield make_conninfo(server, dbname=name)
        finally:
            _execute(server, _DROP.format(Identifier(name)))


def _execute(server: str, statement: Composed) -> None:
    with connect(server, "holdfast bench") as conn:
        conn.execute(statement)
