"""How values come out of PostgreSQL: moments in UTC whatever the session says, JSON with big integers exact.

Reading never fails. A job that plain SQL gave a date in the year 20000 or a number of 5000 digits must not
keep a claim from being read: its whole batch would be leased, lost and lapse, again and again.

Results come in the binary format: the text of a moment depends on the session's DateStyle.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from struct import Struct
from typing import Any, Final, TypeAlias

import msgspec
import psycopg
from psycopg.abc import Buffer
from psycopg.abc import Transformer as Reader
from psycopg.adapt import AdaptersMap, Loader, Transformer
from psycopg.pq import Format
from psycopg.pq.abc import PGresult

from holdfast.store.call import Rows

Cursor: TypeAlias = "psycopg.Cursor[tuple[Any, ...]] | psycopg.AsyncCursor[tuple[Any, ...]]"

Connection: TypeAlias = "psycopg.Connection[Any] | psycopg.AsyncConnection[Any]"

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_microseconds: Final = Struct("!q").unpack
_read_json: Final = msgspec.json.Decoder().decode


class JsonLoader(Loader):
    """jsonb as Python values; what Python cannot read comes as an object that says so and holds the text."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        content = data[1:]  # the first byte is the format's version
        try:
            return _read_json(content)
        except (msgspec.DecodeError, RecursionError):
            return _read_leniently(str(content, "utf-8"))


class MomentLoader(Loader):
    """timestamptz; what Python's calendar lacks, infinity included, becomes its first or last moment.

    The driver's own takes a tenth of the time, and refuses. So this one comes second.
    """

    format = Format.BINARY

    def load(self, data: Buffer) -> datetime:
        (microseconds,) = _microseconds(data)
        try:
            return _EPOCH + timedelta(microseconds=microseconds)
        except OverflowError:
            return _LATEST if microseconds > 0 else _EARLIEST


def register(adapters: AdaptersMap) -> AdaptersMap:
    """Make a connection or a cursor read JSON this way."""
    adapters.register_loader("jsonb", JsonLoader)
    return adapters


ADAPTERS: Final = register(AdaptersMap(psycopg.adapters))
"""For connections of our own. Callers' connections stay as they are; our cursors on them read this way."""


class _NoSession:
    """Where a connection's own settings do not count: text is UTF-8, and moments are in UTC as they are read.

    To move them later took a tenth of the Python of a job, even from Etc/UTC, which Debian's servers have.
    """

    connection: None = None

    def __init__(self, adapters: AdaptersMap) -> None:
        self.adapters: Final = adapters


_OURS: Final = _NoSession(ADAPTERS)
_LENIENT: Final = _NoSession(AdaptersMap(ADAPTERS))
_LENIENT.adapters.register_loader("timestamptz", MomentLoader)


def reader() -> Reader:
    """What reads results of connections of our own, whatever their sessions are set to."""
    return Transformer(_OURS)


def read(reader: Reader, result: PGresult) -> Rows:
    """The rows of a result, moments in UTC."""
    try:
        return _rows(reader, result)
    except psycopg.DataError:  # a moment that Python does not have
        return _rows(Transformer(_LENIENT), result)


def read_again(cursor: Cursor, result: PGresult | None) -> Rows:
    """The rows of a caller's result that the driver refuses to read: see `read`."""
    if result is None:
        return []
    cursor.adapters.register_loader("timestamptz", MomentLoader)
    return _rows(Transformer(cursor), result)


def in_utc(rows: Rows, conn: Connection) -> Rows:
    """The same rows with moments in UTC; the driver gives them in the session's time zone."""
    if conn.pgconn.parameter_status(b"TimeZone") == b"UTC":
        return rows
    return [
        tuple(value.astimezone(UTC) if type(value) is datetime else value for value in row) for row in rows
    ]


def _rows(reader: Reader, result: PGresult) -> Rows:
    reader.set_pgresult(result)
    return reader.load_rows(0, result.ntuples, tuple)


def _read_leniently(text: str) -> Any:
    try:
        return json.loads(text, parse_int=_long_integer)
    except (ValueError, RecursionError) as error:
        return {"[holdfast]": f"JSON that Python cannot read: {error}", "text": text}


def _long_integer(digits: str) -> int:
    """Python refuses to read more than 4300 digits at once; by way of Decimal it does not."""
    return int(Decimal(digits))
