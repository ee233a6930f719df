"""Wait until the server answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum, auto

import psycopg
from psycopg import sql

from holdfast.embedded.cluster import DATABASE
from holdfast.embedded.places import Layout
from holdfast.embedded.process import POLL_S, PidFile, is_alive, listener, read_pid_file
from holdfast.embedded.server import dsn
from holdfast.errors import EmbeddedError

LONGEST_POLL_S = 0.1
ORDINARY_START_S = 1.0
"""A start that takes longer than this and is said to be going on is worth a word to the user."""

_NOT_YET = ("starting up", "not yet accepting", "recovery", "shutting down")


class Answer(Enum):
    """What comes of an attempt to connect."""

    READY = auto()
    PATIENCE = auto()
    """It listens, and asks to come again later."""
    SILENCE = auto()
    """No answer of the server's: it is gone, or has too many callers at once."""


def wait_until_ready(layout: Layout, limit_s: float, say: Callable[[str], None]) -> PidFile | None:
    """Connect until it works and see to it that the database exists; None if the server died before."""
    began = time.monotonic()
    told = False
    while is_alive(layout):
        noted = read_pid_file(layout)  # written when the server listens
        answer = _try(noted) if noted else Answer.PATIENCE
        if answer is Answer.READY:
            return noted
        if answer is Answer.SILENCE and listener(layout) is None:
            break  # killed: what is alive are its orphans
        waited_s = time.monotonic() - began
        if noted and not told and waited_s > ORDINARY_START_S:
            told = True
            say("PostgreSQL is replaying its log after an unclean stop")
        if waited_s > limit_s:
            raise EmbeddedError(
                f"PostgreSQL in {layout.directory} was not ready after {waited_s:.1f} s: see {layout.log}"
            )
        # Every attempt leaves a line in the log; a long recovery need not leave thousands.
        time.sleep(min(max(POLL_S, waited_s / 20), LONGEST_POLL_S))
    return None


def _try(noted: PidFile) -> Answer:
    address = dsn(noted.socket_directory, "postgres")
    try:
        with psycopg.connect(address, autocommit=True, connect_timeout=10) as connection:
            _create_database(connection)
    except psycopg.OperationalError as problem:
        return _understand(str(problem))
    return Answer.READY


def _understand(said: str) -> Answer:
    if "too many clients" in said:
        return Answer.READY  # full, hence at work
    if any(word in said for word in _NOT_YET):
        return Answer.PATIENCE
    if "FATAL" in said and "terminating connection" not in said:
        raise EmbeddedError(f"the embedded PostgreSQL refused us: {said}")
    return Answer.SILENCE


def _create_database(connection: psycopg.Connection) -> None:
    found = connection.execute("select from pg_database where datname = %s", (DATABASE,)).fetchone()
    if found is None:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(DATABASE)))
