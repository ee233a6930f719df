"""What to do about an error of the database: one table, by SQLSTATE."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

import psycopg

from holdfast.config import migrate_command
from holdfast.errors import (
    HoldfastError,
    InvalidArgument,
    JobExists,
    JobNotFound,
    LeaseLost,
    PayloadError,
    ResourceBusy,
    SchemaMissing,
    WrongState,
)


class DeadlinePassed(psycopg.OperationalError):
    """The server gave no answer in time; the connection it was asked on is closed."""


class Action(Enum):
    """What whoever called the database should do next."""

    REFUSE = "the engine said no, and why: tell the caller"
    MIGRATE = "the schema or one of its functions is missing: `holdfast migrate up`"
    RECONNECT = "the connection is gone: get another, with jitter; whether a write took effect is not known"
    FAIL_OVER = "this server only reads (any more): connect again, to the one that writes"
    BACK_OFF = "the server has no memory, disk or connections left: wait up to half a minute"
    RETRY = (
        "two transactions got in each other's way: run the whole call again, up to five times, with jitter"
    )
    UNPREPARE = "a pooler gave the statement to another session: go on without prepared statements"
    SHRINK = "it took too long: halve the batch"
    SANITISE = "the content cannot be stored: the same again would fail the same way; store less of it"
    OUR_BUG = "nothing a caller could have avoided: say it aloud, do not repeat it"


REFUSALS: Final[Mapping[str, type[HoldfastError]]] = {
    "HF001": JobNotFound,
    "HF002": JobExists,
    "HF003": WrongState,
    "HF004": LeaseLost,
    "HF005": ResourceBusy,
    "22023": InvalidArgument,
}
"""The engine's own words for no."""

_BY_CODE: Final[Mapping[str, Action]] = {
    **dict.fromkeys(REFUSALS, Action.REFUSE),
    "3F000": Action.MIGRATE,  # no such schema
    "42P01": Action.MIGRATE,  # no such table
    "42883": Action.MIGRATE,  # no such function
    "25006": Action.FAIL_OVER,  # read-only transaction
    "25P03": Action.RECONNECT,  # idle in transaction for too long; the session is gone
    "57P01": Action.RECONNECT,  # the administrator ended the session
    "57P02": Action.RECONNECT,  # crash of another session
    "57P03": Action.RECONNECT,  # starting up or shutting down
    "57P04": Action.RECONNECT,  # the database was dropped
    "57P05": Action.RECONNECT,  # idle for too long; the session is gone
    "55P03": Action.RETRY,  # lock not available
    "40001": Action.RETRY,  # serialization failure
    "40P01": Action.RETRY,  # deadlock
    "40003": Action.RECONNECT,  # statement completion unknown
    "26000": Action.UNPREPARE,  # prepared statement does not exist
    "42P05": Action.UNPREPARE,  # prepared statement exists already
    "57014": Action.SHRINK,  # statement_timeout, or cancelled by somebody
}

_BY_CLASS: Final[Mapping[str, Action]] = {
    "08": Action.RECONNECT,  # connection exceptions
    "22": Action.SANITISE,  # data exceptions: NUL, encoding, JSON that is none, numbers out of range
    "23": Action.OUR_BUG,  # integrity constraints
    "42": Action.OUR_BUG,  # syntax, access rule
    "53": Action.BACK_OFF,  # insufficient resources
    "54": Action.SANITISE,  # program limits: too large, too deep
    "57": Action.RECONNECT,  # operator intervention
    "58": Action.BACK_OFF,  # input and output of the server
}

_MADE_ANEW: Final = "cache lookup failed"
"""Of functions that a migration drops or makes anew while they are called. The server never translates it."""


def action_for(error: BaseException) -> Action:
    """What to do about an error; for one of ours, about the database's error it was raised from."""
    for each in _chain(error):
        if isinstance(each, DeadlinePassed | TimeoutError):
            return Action.SHRINK
        if isinstance(each, psycopg.Error):
            return _by_sqlstate(each)
        if isinstance(each, OSError | EOFError):
            return Action.RECONNECT
    return Action.REFUSE if isinstance(error, HoldfastError) else Action.OUR_BUG


def refusal(error: psycopg.Error, schema: str) -> HoldfastError | None:
    """The exception for what was asked for in vain, in the engine's own words; None for other errors."""
    said = error.diag.message_primary or str(error)
    return _refused(action_for(error), error.sqlstate or "", said, schema)


def refusal_by_code(sqlstate: str | None, said: str, schema: str) -> HoldfastError | None:
    """The same for an error of another driver, by its SQLSTATE."""
    return None if sqlstate is None else _refused(_by_code(sqlstate), sqlstate, said, schema)


def _refused(action: Action, sqlstate: str, said: str, schema: str) -> HoldfastError | None:
    match action:
        case Action.REFUSE:
            return REFUSALS[sqlstate](said)
        case Action.MIGRATE:
            return SchemaMissing(
                f'Holdfast is not installed in schema "{schema}" of this database, or older than this code: '
                f"{said}. Run: {migrate_command(schema)}"
            )
        case Action.SANITISE:
            return PayloadError(f"PostgreSQL cannot store this ({sqlstate or None}): {said}")
        case _:
            return None


def _by_code(sqlstate: str) -> Action:
    return _BY_CODE.get(sqlstate) or _BY_CLASS.get(sqlstate[:2], Action.OUR_BUG)


def _by_sqlstate(error: psycopg.Error) -> Action:
    code = error.sqlstate
    if code == "XX000" and _MADE_ANEW in str(error):
        return Action.RETRY
    if code is not None:
        return _by_code(code)
    # Raised by the driver: a connection that was refused, broke or is closed, or a value it cannot write.
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return Action.RECONNECT
    return Action.SANITISE if isinstance(error, psycopg.DataError) else Action.OUR_BUG


def _chain(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__
