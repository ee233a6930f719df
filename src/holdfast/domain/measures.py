"""Durations, counts and moments as callers write them, checked, so that an error names the parameter."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from math import isfinite
from typing import Final, TypeAlias

from holdfast.errors import InvalidArgument

Duration: TypeAlias = timedelta | float
"""Seconds, or a timedelta."""

LONGEST_S: Final = 1e9
"""The engine's own limit for every duration."""

INTEGER: Final = 2**31 - 1
BIGINT: Final = 2**63 - 1

_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)


def seconds(value: Duration, name: str, *, positive: bool = False) -> float:
    """A duration in seconds, finite, not negative, and with `positive` more than nothing."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    number = finite_number(value, name)
    if number < 0 or (positive and number == 0) or number > LONGEST_S:
        least = "more than 0" if positive else "0"
        raise InvalidArgument(f"{name} must be {least} to a billion seconds, not {value!r}")
    return number


def whole_number(value: int, name: str, *, least: int = 1, most: int = INTEGER) -> int:
    """A whole number within limits."""
    if isinstance(value, bool) or not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name} must be a whole number, not {value!r}")
    if not least <= value <= most:
        raise InvalidArgument(f"{name} must be {least} to {most}, not {value}")
    return int(value)


def byte_size(value: int | str, name: str) -> int:
    """A size in bytes, written as a number or as in 512MB; a kB has 1024 bytes, as in PostgreSQL."""
    if not isinstance(value, str):
        return whole_number(value, name, most=BIGINT)
    found = _SIZE.fullmatch(value)
    if found is None:
        raise InvalidArgument(f"{name} must be a size such as 512MB or 2GB, not {value!r}")
    factor = 1024 ** " kmgt".index(found[2].lower() or " ")
    return whole_number(int(float(found[1]) * factor), name, most=BIGINT)


def aware(value: datetime, name: str) -> datetime:
    """A moment that says where on earth it is meant."""
    if not isinstance(value, datetime):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name} must be a datetime, not {value!r}")
    if value.utcoffset() is None:
        raise InvalidArgument(f"{name} has no time zone: {value!r}; pass for example datetime.now(UTC)")
    return value


def finite_number(value: float, name: str) -> float:
    """A number that is neither infinite nor none at all."""
    if isinstance(value, bool) or not isinstance(value, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name} must be a number, not {value!r}")
    try:
        converted = float(value)
    except OverflowError:
        raise InvalidArgument(f"{name} is too large: {value!r}") from None
    if not isfinite(converted):
        raise InvalidArgument(f"{name} must be finite, not {value!r}")
    return converted
