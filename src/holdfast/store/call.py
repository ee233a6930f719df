"""One call of the engine, described as data: pure functions make it, either kind of store runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

R = TypeVar("R")

Rows: TypeAlias = list[tuple[Any, ...]]
"""What a statement answered: plain tuples, in the order of its columns."""


@dataclass(slots=True)
class Unread:
    """An answer that has arrived and is not read yet."""

    count: int
    first: bytes | None
    """The first value of the first row, as it travelled."""
    read: Callable[[], Rows]
    """Read it; to be called where the call was made. Raises psycopg.Error if it can be read no more."""


Parameter: TypeAlias = "str | bytes | None"
"""All but bytes travels as text and is cast by the statement, so that each has one prepared form."""


@dataclass(frozen=True, slots=True)
class Statement:
    """The SQL that calls one function of the engine. `{schema}` stands where the schema's name belongs.

    `{own_transaction}` stands for whether the call is a transaction of its own, which only a store that has
    connections of its own can say.
    """

    function: str
    sql: str
    composed: bool = False
    """Written for one question, so that nobody keeps it: there is no end of them."""


OWN_TRANSACTION: Final = "{own_transaction}"
"""In place of a type: the store says it, not the caller."""


def statement(function: str, answers: str = "answer", **takes: str) -> Statement:
    """Write the call of a function with named arguments: its columns, and the types of its parameters."""
    arguments = ", ".join(
        f"{name} => {kind if kind == OWN_TRANSACTION else f'%s::{kind}'}" for name, kind in takes.items()
    )
    # Every part is written in this package; what callers give travels as parameters.
    sql = f"select {answers} from {{schema}}.{function}({arguments}) as answer"  # noqa: S608
    return Statement(function, sql)


@dataclass(frozen=True, slots=True)
class Call(Generic[R]):
    """A statement with its parameters, and how to read what comes back.

    `idempotent`: a second execution leaves the database as the first did and its answer is as right, so the
    store may repeat the call when a connection was lost and nobody knows whether the first one took effect.
    """

    statement: Statement
    parameters: Sequence[Parameter]
    parse: Callable[[Rows], R]
    idempotent: bool
    timeout_s: float | None = None
    plainer: Callable[[], Sequence[Parameter]] | None = None
    """The same parameters with content that nothing can object to: the last resort of a settle."""
    listens: bool = False
    """It may leave the session listening, which a pooled connection must not."""
    joins: bool = False
    """On connections of our own it may be made one call with others of its kind; see `grouping`."""
    parse_unread: Callable[[Unread], R | None] | None = None
    """For answers that may be read later: what comes back, None if it must be read now after all."""
    meanwhile: Callable[[], None] | None = None
    """What to do as soon as the call is sent, while the server works: it raises nothing, and the second time
    it does nothing."""
    gives_way: bool = False
    """It is not repeated when another transaction is in its way: there is something better to do."""

    @property
    def name(self) -> str:
        return self.statement.function


def parsed(call: Call[R], answer: Rows | Unread) -> R:
    """What an answer comes to."""
    if isinstance(answer, Unread):
        later = None if call.parse_unread is None else call.parse_unread(answer)
        if later is not None:
            return later
        answer = answer.read()
    return call.parse(answer)


def only_value(rows: Rows) -> Any:
    """The answer of a function that returns one value."""
    return rows[0][0]
