"""What a query is made of. `str(query)` writes it so that `parse` reads the same query again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from holdfast.domain.search import lengths

_BARE: Final = re.compile(r'[^\s,"*]+')
_LIKE_A_FIELD: Final = re.compile(r"[A-Za-z_][^\s:<>=\",]*[:<>=]")


class Field(StrEnum):
    """What a job has in words."""

    ID = "id"
    STATE = "state"
    STATUS = "status"
    QUEUE = "queue"
    TASK = "task"
    TAG = "tag"
    ERROR = "error"
    WORKER = "worker"
    KEY = "key"
    """Its singleton key."""


class Measure(StrEnum):
    """What a job has in numbers."""

    AGE = "age"
    """Since it was created."""
    FINISHED = "finished"
    """Since it ended; of a job that has not, nothing is true."""
    ATTEMPTS = "attempts"
    PRIORITY = "priority"


AGES: Final = frozenset({Measure.AGE, Measure.FINISHED})


class Comparison(StrEnum):
    """How a number is compared."""

    AT_LEAST = ">="
    AT_MOST = "<="
    MORE = ">"
    LESS = "<"
    EQUAL = ":"


@dataclass(frozen=True, slots=True)
class Text:
    """A value. In a glob every `*` stands for anything."""

    text: str
    glob: bool = False

    def __str__(self) -> str:
        if self.glob or _BARE.fullmatch(self.text):
            return self.text
        return quoted(self.text)


@dataclass(frozen=True, slots=True)
class Matches:
    """The job has one of these values."""

    field: Field
    values: tuple[Text, ...]
    negated: bool = False

    def __str__(self) -> str:
        return f"{_sign(self.negated)}{self.field}:{_listed(self.values)}"


@dataclass(frozen=True, slots=True)
class Argument:
    """What stands at this path of the job's arguments is one of these values."""

    path: tuple[str, ...]
    values: tuple[Text, ...]
    negated: bool = False

    def __str__(self) -> str:
        return f"{_sign(self.negated)}args.{'.'.join(self.path)}:{_listed(self.values)}"


@dataclass(frozen=True, slots=True)
class Compares:
    """A number of the job compares so. Ages are in milliseconds."""

    measure: Measure
    how: Comparison
    amount: int
    negated: bool = False

    def __str__(self) -> str:
        amount = lengths.written(self.amount) if self.measure in AGES else str(self.amount)
        return f"{_sign(self.negated)}{self.measure}{self.how}{amount}"


@dataclass(frozen=True, slots=True)
class Word:
    """It stands somewhere in the id, the task or the error."""

    text: Text
    negated: bool = False

    def __str__(self) -> str:
        shown = str(self.text)
        # A glob is never read as something else: it came from where it would stand again.
        if not self.text.glob and (shown.startswith("-") or _LIKE_A_FIELD.match(shown)):
            shown = quoted(self.text.text)
        return f"{_sign(self.negated)}{shown}"


Term: TypeAlias = Matches | Argument | Compares | Word


@dataclass(frozen=True, slots=True)
class Query:
    """Which jobs are meant: those to which every term applies; without terms, all."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.terms))

    def __bool__(self) -> bool:
        return bool(self.terms)


def quoted(text: str) -> str:
    """A text of which nothing is special."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _sign(negated: bool) -> str:
    return "-" if negated else ""


def _listed(values: tuple[Text, ...]) -> str:
    return ",".join(map(str, values))
