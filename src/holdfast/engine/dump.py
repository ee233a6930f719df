"""The shape of an installation as text: `schema.sql` for reviewers, `signatures.txt` for upgrades."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from operator import itemgetter
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from holdfast.config import DEFAULT_SCHEMA, LOCK_TIMEOUT_S, schema_name
from holdfast.engine.script import settings
from holdfast.engine.source import bookkeeping

Describe = Callable[[psycopg.Connection[Any], str], str]

_HEAD = """\
-- What an installation has: types, tables, indexes, triggers, views, functions, grants.
-- Written by `make schema` and not run by anything; bodies of views and functions are left out."""


def dump(conn: psycopg.Connection[Any], schema: str = DEFAULT_SCHEMA) -> str:
    """Describe an installation, in the same words on every version of PostgreSQL."""
    rows = _ask(conn, schema, bookkeeping("dump"))
    sections = ("\n".join(text for _, text in group) for _, group in groupby(rows, key=itemgetter(0)))
    return "\n\n".join([_HEAD, *sections]) + "\n"


def signatures(conn: psycopg.Connection[Any], schema: str = DEFAULT_SCHEMA) -> str:
    """The functions and views of an installation, one a line, as an upgrade compares them."""
    query = 'select signature from _objects order by signature collate "C"'
    rows = _ask(conn, schema, bookkeeping("objects"), query)
    return "".join(f"{signature}\n" for (signature,) in rows)


def _ask(conn: psycopg.Connection[Any], schema: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run the statements with the installer's settings, return the rows of the last, and leave no trace."""
    with conn.transaction(force_rollback=True), conn.cursor(row_factory=tuple_row) as cursor:
        for statement in [settings(schema_name(schema), LOCK_TIMEOUT_S), *statements]:
            cursor.execute(statement.encode())
        return cursor.fetchall()
