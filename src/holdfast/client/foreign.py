"""What the engine's calls and errors look like to drivers other than our own."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import count

from holdfast.errors import HoldfastError
from holdfast.store.base import Sql
from holdfast.store.call import Statement
from holdfast.store.sqlstates import refusal_by_code

_PARAMETER = re.compile(r"%s::")


@lru_cache(maxsize=64)
def plain_sql(statement: Statement, schema: str) -> str:
    """The statement with `%s` for parameters, all of them texts."""
    return Sql(schema).of(statement).decode()


@lru_cache(maxsize=64)
def numbered_sql(statement: Statement, schema: str) -> str:
    """The statement with `$1`, `$2` for parameters, which are sent as text and cast by the server."""
    numbers = count(1)
    return _PARAMETER.sub(lambda _: f"${next(numbers)}::text::", plain_sql(statement, schema))


@lru_cache(maxsize=64)
def named_sql(statement: Statement, schema: str) -> str:
    """The statement with `:p1`, `:p2` for parameters, which are sent as text and cast by the server."""
    numbers = count(1)
    return _PARAMETER.sub(lambda _: f"cast(:p{next(numbers)} as text)::", plain_sql(statement, schema))


def refusal_in(error: BaseException, schema: str) -> HoldfastError | None:
    """Our exception for what the engine refused, however many drivers have wrapped it; None for the rest."""
    each: BaseException | None = error
    while each is not None:
        code = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        if isinstance(code, str):
            return refusal_by_code(code, _said(each), schema)
        original = getattr(each, "orig", None)
        each = original if isinstance(original, BaseException) else each.__cause__
    return None


def _said(error: BaseException) -> str:
    diagnosis = getattr(getattr(error, "diag", None), "message_primary", None)
    if isinstance(diagnosis, str):
        return diagnosis
    # SQLAlchemy's asyncpg dialect puts the class before the words; what it wraps has the words alone.
    innermost = error.__cause__ if isinstance(getattr(error.__cause__, "sqlstate", None), str) else error
    return str(innermost)
