"""How a mistake is planted: a few words of a function's text are replaced, or a line of SQL is run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg

TEXT = """
select pg_get_functiondef(oid) from pg_proc where proname = %s and pronamespace = 'holdfast'::regnamespace
"""


@dataclass(frozen=True, slots=True)
class Edit:
    """In this function, these words instead of those."""

    function: str
    right: str
    wrong: str


@dataclass(frozen=True, slots=True)
class Plant:
    """A mistake."""

    does: str
    edits: tuple[Edit, ...] = ()
    sql: str = ""
    faults: tuple[str, ...] = ()
    """What brings it to light; without any, the load alone does."""
    caught_by: tuple[str, ...] = field(default=())
    """Invariants of which at least one must be violated; none: any."""


class CannotPlant(Exception):
    """The engine's text has changed, and the mistake does not fit any more."""


def plant(conn: psycopg.Connection[Any], mistake: Plant) -> None:
    """Make the mistake in this database."""
    conn.execute("set search_path to holdfast, public")
    for edit in mistake.edits:
        row = conn.execute(TEXT, [edit.function]).fetchone()
        if row is None or row[0].count(edit.right) == 0:
            raise CannotPlant(f"{edit.function} does not say any more: {edit.right}")
        conn.execute(row[0].replace(edit.right, edit.wrong).encode())
    if mistake.sql:
        conn.execute(mistake.sql.replace("DATABASE", conn.info.dbname).encode())
    conn.execute("reset search_path")
