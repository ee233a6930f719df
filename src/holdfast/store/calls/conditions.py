"""A query as a condition on rows of jobs: fixed fragments of SQL, and every value a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from holdfast.domain.search import (
    Argument,
    Compares,
    Comparison,
    Field,
    Matches,
    Measure,
    Query,
    Term,
    Text,
    Word,
)
from holdfast.store import arrays
from holdfast.store.call import Parameter

COLUMNS: Final = (
    "number, job_id, state, next_need, task, payload, tags, priority, attempts, assignee_id, singleton_key, "
    "error_message, created_at, finalized_at"
)
"""What a condition looks at, beside `status`: by the names of the views."""

_COLUMN_OF: Final = {
    Field.ID: "job_id",
    Field.STATE: "state::text",
    Field.STATUS: "status",
    Field.QUEUE: "next_need",
    Field.TASK: "task",
    Field.WORKER: "assignee_id",
    Field.KEY: "singleton_key",
}
_TAGGED: Final = "tags && %s::text[]"
_TAGGED_LIKE: Final = "exists (select from unnest(tags) as each (tag) where each.tag like any (%s::text[]))"
_ERROR: Final = "error_message ilike any (%s::text[])"
_WORD: Final = "(job_id ilike %s::text or task ilike %s::text or error_message ilike %s::text)"
_AT: Final = "(payload #>> %s::text[])"
_NUMBERS: Final = {Measure.ATTEMPTS: "attempts", Measure.PRIORITY: "priority"}
_MOMENTS: Final = {Measure.AGE: "created_at", Measure.FINISHED: "finalized_at"}
_SIGNS: Final = {
    Comparison.AT_LEAST: ">=",
    Comparison.AT_MOST: "<=",
    Comparison.MORE: ">",
    Comparison.LESS: "<",
    Comparison.EQUAL: "=",
}
_OPPOSITE: Final = {">=": "<=", "<=": ">=", ">": "<", "<": ">", "=": "="}
"""The older a job, the earlier the moment."""


MOMENT: Final = "moment as materialized (select {schema}._clock() as now)"
"""What a statement with conditions begins with: one moment for all rows. With the clock in the condition the
planner would not merge the two tables in order, but read a slice of each and sort."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A boolean expression over COLUMNS, `status` and MOMENT, and its parameters in order."""

    sql: str
    parameters: tuple[Parameter, ...] = ()


EVERYTHING: Final = Condition("true")


def condition(query: Query) -> Condition:
    """What must hold for a row to match; never null."""
    return both(*(_of(term) for term in query.terms))


def both(*conditions: Condition) -> Condition:
    """All of them."""
    if not conditions:
        return EVERYTHING
    return Condition(
        " and ".join(f"({each.sql})" for each in conditions),
        tuple(parameter for each in conditions for parameter in each.parameters),
    )


def _of(term: Term) -> Condition:
    positive = _positive(term)
    # What is unknown is not so: a job without a task is none of task:a, and one of -task:a.
    certain = f"coalesce(({positive.sql}), false)"
    return Condition(f"not {certain}" if term.negated else certain, positive.parameters)


def _positive(term: Term) -> Condition:
    match term:
        case Matches(Field.TAG, values):
            return _either(_TAGGED, _TAGGED_LIKE, values)
        case Matches(Field.ERROR, values):
            return Condition(_ERROR, (_array([_within(value) for value in values]),))
        case Matches(field, values):
            column = _COLUMN_OF[field]
            return _either(f"{column} = any (%s::text[])", f"{column} like any (%s::text[])", values)
        case Argument(path, values):
            return _argument(path, values)
        case Compares(measure, how, amount):
            return _comparison(measure, _SIGNS[how], amount)
        case Word(text):
            return Condition(_WORD, (_within(text),) * 3)
        case _:
            assert_never(term)


def _either(exact: str, like: str, values: Sequence[Text]) -> Condition:
    """One of these values: the plain ones as they are, the globs as patterns."""
    plain = [value.text for value in values if not value.glob]
    patterns = [_pattern(value) for value in values if value.glob]
    parts = [Condition(sql, (_array(texts),)) for sql, texts in ((exact, plain), (like, patterns)) if texts]
    return Condition(
        " or ".join(part.sql for part in parts),
        tuple(parameter for part in parts for parameter in part.parameters),
    )


def _argument(path: tuple[str, ...], values: Sequence[Text]) -> Condition:
    """Arguments of a task by name or place, or the payload itself as jobs of plain SQL have it."""
    paths = [("kwargs", *path), path]
    if path[0].isascii() and path[0].isdecimal():
        paths.append(("args", *path))
    here = _either(f"{_AT} = any (%s::text[])", f"{_AT} like any (%s::text[])", values)
    parameters = [
        parameter for where in paths for texts in here.parameters for parameter in (_array(where), texts)
    ]
    return Condition(" or ".join([f"coalesce(({here.sql}), false)"] * len(paths)), tuple(parameters))


def _comparison(measure: Measure, sign: str, amount: int) -> Condition:
    if column := _NUMBERS.get(measure):
        return Condition(f"{column} {sign} %s::integer", (str(amount),))
    since = "(select now from moment) - %s::double precision * interval '1 millisecond'"
    return Condition(f"{_MOMENTS[measure]} {_OPPOSITE[sign]} {since}", (str(amount),))


def _pattern(value: Text) -> str:
    """A pattern of LIKE; only the stars of a glob are special."""
    escaped = value.text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return escaped.replace("*", "%") if value.glob else escaped


def _within(value: Text) -> str:
    return f"%{_pattern(value)}%"


def _array(texts: Sequence[str]) -> str:
    return arrays.of_texts(texts, "query")
