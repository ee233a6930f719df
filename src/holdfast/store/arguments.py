"""What a parameter may be, checked before anything is sent, so that an error names the parameter.

Each function returns the text that travels. What only the engine can judge (whether a job exists, what its
state allows) is left to the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from math import ceil

from holdfast.config import QUEUE_NAME_BYTES
from holdfast.domain.content import encode_json
from holdfast.domain.job import JsonValue
from holdfast.domain.measures import (
    INTEGER,
    LONGEST_S,
    Duration,
    aware,
    finite_number,
    seconds,
    whole_number,
)
from holdfast.errors import InvalidArgument
from holdfast.store import arrays

__all__ = [
    "BIGINT",
    "INTEGER",
    "LONGEST_S",
    "Duration",
    "aware",
    "duration",
    "flag",
    "mapping",
    "moment",
    "number",
    "optional_text",
    "queue",
    "queues",
    "seconds",
    "text",
    "text_array",
    "texts",
    "whole",
    "whole_number",
    "whole_seconds",
]

BIGINT = 2**63 - 1


def text(value: str, name: str) -> str:
    """A text that is not empty and that PostgreSQL can store."""
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name} must be text, not {type(value).__name__}")
    if not value:
        raise InvalidArgument(f"{name} is empty")
    if not value.isascii() or "\0" in value:
        arrays.of_texts([value], name)  # refuses what cannot be stored
    return value


def optional_text(value: str | None, name: str) -> str | None:
    return None if value is None else text(value, name)


def queue(value: str, name: str) -> str:
    """The name of a queue, which is also part of a channel's name."""
    size = len(text(value, name).encode())
    if size > QUEUE_NAME_BYTES:
        raise InvalidArgument(
            f'{name}: queue name "{value}" has {size} bytes; at most {QUEUE_NAME_BYTES} fit'
        )
    return value


def texts(values: Iterable[str], name: str) -> list[str]:
    """Several texts, none of them empty. A single text is refused: it would be taken for its letters."""
    if isinstance(values, str | bytes):
        raise InvalidArgument(f"{name} must be a list of texts, not one text: {values!r}")
    return [text(value, f"{name}[{place}]") for place, value in enumerate(values)]


def text_array(values: Iterable[str] | None, name: str) -> str | None:
    """Several texts as an array; None stays None."""
    return None if values is None else arrays.of_texts(texts(values, name), name)


def queues(values: Iterable[str], name: str) -> str:
    """At least one queue."""
    named = texts(values, name)
    if not named:
        raise InvalidArgument(f"{name} must name at least one queue")
    return arrays.of_texts([queue(value, name) for value in named], name)


def duration(value: Duration | None, name: str, *, positive: bool = False) -> str | None:
    return None if value is None else repr(seconds(value, name, positive=positive))


def whole_seconds(value: Duration, name: str) -> str:
    """A duration for a function that counts in whole seconds: never less than was asked for."""
    return str(ceil(seconds(value, name, positive=True)))


def number(value: float | None, name: str) -> str | None:
    """A finite number."""
    return None if value is None else repr(finite_number(value, name))


def whole(value: int | None, name: str, *, least: int = 1, most: int = INTEGER) -> str | None:
    """A whole number within limits."""
    return None if value is None else str(whole_number(value, name, least=least, most=most))


def flag(value: bool, name: str) -> str:
    if not isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name} must be True or False, not {value!r}")
    return "t" if value else "f"


def moment(value: datetime | None, name: str) -> str | None:
    return None if value is None else aware(value, name).isoformat()


def mapping(value: Mapping[str, JsonValue] | None, name: str) -> str | None:
    """A JSON object, such as a trace context."""
    if value is None:
        return None
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name} must be a mapping, not {type(value).__name__}")
    return encode_json(dict(value), where=name)
