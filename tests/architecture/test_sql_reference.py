"""The SQL reference is complete and current. `make schema` writes it anew."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg

from holdfast.engine import reference

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "sql.md").read_text()

PUBLIC_FUNCTIONS = """
    select proname, coalesce(proargnames[:pronargs], '{}')
    from pg_proc
    where pronamespace = 'holdfast'::regnamespace and proname not like '\\_%'
    order by proname
"""


def test_the_committed_page_is_current() -> None:
    assert reference.render() == PAGE, "run: make schema"


def test_every_public_function_is_on_the_page_with_its_parameters(conn: psycopg.Connection[Any]) -> None:
    installed = {name: list(parameters) for name, parameters in conn.execute(PUBLIC_FUNCTIONS)}
    shown = {
        name: re.findall(r"\b(p_\w+) ", signature)
        for name, signature in re.findall(r"^### (\w+)\n.*?```sql\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)
    }

    assert shown == installed


def test_every_view_is_on_the_page(conn: psycopg.Connection[Any]) -> None:
    views = conn.execute("select viewname from pg_views where schemaname = 'holdfast'").fetchall()

    assert views
    assert [name for (name,) in views if f"`{name}`" not in PAGE] == []
