"""What an error tells whoever asked: it did not happen, or nobody can say."""

from __future__ import annotations

import psycopg
from psycopg import errors as pg

from gauntlet.history import NO, UNKNOWN
from holdfast.errors import DatabaseUnavailable, HoldfastError, QueueClosed

TROUBLE = (HoldfastError, psycopg.Error, OSError, TimeoutError)


def said_by(error: BaseException) -> str:
    """`no` only where the database itself refused; whatever was lost on the way may have happened."""
    match error:
        case DatabaseUnavailable() | QueueClosed():
            return UNKNOWN
        case HoldfastError():
            return NO
        case psycopg.Error() if error.sqlstate is not None and not isinstance(error, pg.OperationalError):
            return NO
        case _:
            return UNKNOWN
