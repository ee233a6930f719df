"""How a connection of ours executes statements: by name from the second time on, with nothing to look at.

A cursor of the driver reads the query, dumps each parameter by its type, looks whether to prepare, and makes
a transformer for the answer, at every call. Ours are texts and bytes already, in statements that are written
once: name, parameters, rows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from holdfast.store import adapters
from holdfast.store.call import Parameter, Unread

_TEXT: Final = Format.TEXT
_BINARY: Final = Format.BINARY


class Statements:
    """What one connection has executed and prepared. The names are unlike those of any other connection.

    Behind a pooler that shares sessions, a name that is counted would be the statement of another client. A
    name that is unique can only be missing.
    """

    def __init__(self, conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
        self._conn = conn
        self._reader = adapters.reader()
        self._prefix = f"holdfast_{random.getrandbits(62):x}_"
        self._numbers = count()
        self._names: dict[bytes, bytes | None] = {}

    def ask(self, sql: bytes, parameters: Sequence[Parameter], *, prepares: bool) -> PQGen[Unread]:
        """Execute a statement; what it answers, to be read."""
        pgconn = self._conn.pgconn
        values = [
            # Without a call of our own for each: a claim has ten of them.
            value.encode() if isinstance(value, str) and "\0" not in value else _other(value)
            for value in parameters
        ]
        formats = [_BINARY if isinstance(value, bytes) else _TEXT for value in parameters]
        if not prepares or sql not in self._names:
            self._names[sql] = None
            pgconn.send_query_params(_numbered(sql), values, param_formats=formats, result_format=_BINARY)
        else:
            name = self._names[sql] or (yield from self._prepare(sql))
            pgconn.send_query_prepared(name, values, param_formats=formats, result_format=_BINARY)
        result = yield from self._result()
        first = result.get_value(0, 0) if result.ntuples else None
        return Unread(result.ntuples, first, lambda: adapters.read(self._reader, result))

    def _prepare(self, sql: bytes) -> PQGen[bytes]:
        name = f"{self._prefix}{next(self._numbers)}".encode()
        self._conn.pgconn.send_prepare(name, _numbered(sql))
        yield from self._result()
        self._names[sql] = name
        return name

    def _result(self) -> PQGen[PGresult]:
        result: PGresult
        (*_, result) = yield from execute(self._conn.pgconn)
        if result.status == ExecStatus.FATAL_ERROR:
            raise error_from_result(result)
        return result


def _other(value: Parameter) -> bytes | None:
    if isinstance(value, str):  # it would end there
        raise psycopg.DataError("PostgreSQL cannot store the character NUL in a text")
    return value


def _numbered(sql: bytes) -> bytes:
    """The statement with numbered parameters, as the server wants them."""
    first, *rest = sql.split(b"%s")
    return first + b"".join(b"$%d%b" % (place, part) for place, part in enumerate(rest, 1))
