"""Count the statements this process sends, where they are handed to the driver."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import psycopg

from holdfast.store.line import Line
from holdfast.store.statements import Statements

SENDERS: tuple[tuple[type[Any], tuple[str, ...]], ...] = (
    (psycopg.Cursor, ("execute", "executemany", "copy")),
    (psycopg.AsyncCursor, ("execute", "executemany", "copy")),
    (Line, ("ask",)),
    (Statements, ("ask",)),
)


@dataclass(slots=True)
class Tally:
    """How many so far."""

    count: int = 0


@contextmanager
def counted() -> Generator[Tally]:
    """Count what is sent within the block, from any thread; one block at a time."""
    tally = Tally()
    before = [(sender, name, getattr(sender, name)) for sender, names in SENDERS for name in names]
    for sender, name, method in before:
        setattr(sender, name, _counting(method, tally))
    try:
        yield tally
    finally:
        for sender, name, method in before:
            setattr(sender, name, method)


def _counting(method: Callable[..., Any], tally: Tally) -> Callable[..., Any]:
    @wraps(method)
    def counting(*arguments: Any, **options: Any) -> Any:
        tally.count += 1
        return method(*arguments, **options)

    return counting
