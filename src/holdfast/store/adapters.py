"""How values come out of PostgreSQL: moments in UTC whatever the session says, JSON with big integers exact.

Neither ever raises. A job that plain SQL gave a date in the year 20000 or a number of 5000 digits must not
keep a claim from being read: its whole batch would be leased, lost and lapse, again and again.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from struct import Struct
from typing import Any, Final

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_microseconds: Final = Struct("!q").unpack


class MomentLoader(Loader):
    """timestamptz as UTC. Binary, because text depends on the session's DateStyle and TimeZone.

    What Python's calendar does not have, infinity included, becomes its first or last moment.
    """

    format = Format.BINARY

    def load(self, data: Buffer) -> datetime:
        (microseconds,) = _microseconds(data)
        try:
            return _EPOCH + timedelta(microseconds=microseconds)
        except OverflowError:
            return _LATEST if microseconds > 0 else _EARLIEST


class JsonLoader(Loader):
    """jsonb as Python values; what Python cannot read comes as an object that says so and holds the text."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        text = bytes(data)[1:]  # the first byte is the format's version
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return _read_leniently(text)


def _read_leniently(text: bytes) -> Any:
    try:
        return json.loads(text, parse_int=_long_integer)
    except (ValueError, RecursionError) as error:
        return {"[holdfast]": f"JSON that Python cannot read: {error}", "text": text.decode(errors="replace")}


def _long_integer(digits: str) -> int:
    """Python refuses to read more than 4300 digits at once; by way of Decimal it does not."""
    return int(Decimal(digits))


def register(adapters: AdaptersMap) -> AdaptersMap:
    """Make a connection or a cursor read values this way."""
    adapters.register_loader("timestamptz", MomentLoader)
    adapters.register_loader("jsonb", JsonLoader)
    return adapters


ADAPTERS: Final = register(AdaptersMap(psycopg.adapters))
"""For connections of our own. Callers' connections stay as they are; our cursors on them read this way."""
