"""What callers of the queue may pass, checked before anything is asked of the database."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TypeAlias, cast

from holdfast.domain.content import encode_json
from holdfast.domain.job import Content
from holdfast.errors import InvalidArgument, PayloadError
from holdfast.store import arguments
from holdfast.store.arguments import text

__all__ = ["WorkerId", "distinct", "flag", "guard", "message", "result", "text", "worker"]

WorkerId: TypeAlias = str | int
"""The name of a worker. A number is stored as its digits, and 0 is a worker like any other."""


def distinct(values: Iterable[str] | None, name: str) -> list[str]:
    """Several texts, each once, in the order given; none for None. A single text is refused."""
    if values is None:
        return []
    if not isinstance(values, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name} must be a list of texts, not {values!r}")
    return list(dict.fromkeys(arguments.texts(values, name)))


def worker(worker_id: WorkerId, name: str = "worker_id") -> str:
    """The name of a worker as it is stored."""
    if isinstance(worker_id, int) and not isinstance(worker_id, bool):
        return str(int(worker_id))
    return text(cast("str", worker_id), name)


def guard(worker_id: WorkerId | None) -> str | None:
    """The worker that must hold a job; None: whoever does."""
    return None if worker_id is None else worker(worker_id)


def message(error: str, name: str = "error", *, required: bool = False) -> str:
    """The text of an error; its content may be anything, the store makes it storable."""
    if not isinstance(error, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name} must be text, not {type(error).__name__}; pass str() of it")
    if required and not error:
        raise InvalidArgument(f"{name} is empty: a failure says what went wrong")
    return error


def flag(value: bool, name: str) -> bool:
    return arguments.flag(value, name) == "t"


def result(value: Content, name: str = "result") -> Content:
    """A result that JSON can write, or bytes; raise PayloadError for anything else.

    What JSON can write and PostgreSQL cannot hold (NUL, NaN, more than the cap) is not refused here: the
    store makes it storable and says so in its place, so that work done is never lost for its content.
    """
    if value is None or isinstance(value, bytes | bytearray | memoryview):
        return value
    try:
        encode_json(value, where=name)
    except PayloadError:
        if not _is_json(value):
            raise
    return value


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
