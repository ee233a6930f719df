"""The SQL reference is complete, current and true. `make schema` writes it anew."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.engine import reference
from holdfast.engine.source import shipped
from tests.psql import run_psql

Connection = psycopg.Connection[Any]

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "sql.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE))
FUNCTIONS = {name: text for name, text in SECTIONS.items() if "May be called by: " in text}

INSTALLED = """
select
  proname,
  coalesce(proargnames[:pronargs], '{}'),
  pg_get_function_arguments(oid),
  pg_get_function_result(oid),
  array(
    select role from unnest(array['producer', 'worker', 'viewer', 'admin']) as role
    where has_function_privilege('holdfast_' || role, pg_proc.oid, 'execute'))
from pg_proc
where pronamespace = %s::regnamespace and proname !~ '^_'
"""


def blocks(text: str) -> list[str]:
    return re.findall(r"^```sql\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def signature(name: str) -> str:
    return blocks(FUNCTIONS[name])[0]


def errors(name: str) -> set[str]:
    listed = re.findall(r"^Errors: (.*)", FUNCTIONS[name], re.MULTILINE)
    return set(re.findall(r"`(\w{5})`", " ".join(listed)))


def test_the_committed_page_is_current() -> None:
    assert reference.render() == PAGE, "run: make schema"


def test_a_function_nobody_wrote_about_and_a_heading_without_a_function_are_refused() -> None:
    with pytest.raises(KeyError, match=r"no heading for: .*submit_job"):
        reference.render(written="# Nothing\n")
    with pytest.raises(KeyError, match="no_such_function"):
        reference.render(written="### no_such_function\n")


# What the page says about functions is what the catalog says


def test_every_public_function_is_on_the_page_with_its_parameters(conn: Connection) -> None:
    installed = {row[0]: list(row[1]) for row in conn.execute(INSTALLED, ["holdfast"])}
    assert {name: re.findall(r"\b(p_\w+) ", signature(name)) for name in FUNCTIONS} == installed


def test_a_function_made_of_its_signature_on_the_page_has_the_signature_of_the_real_one(
    conn: Connection,
) -> None:
    conn.execute("create schema page")
    conn.execute("set search_path = page, holdfast")
    for name in FUNCTIONS:
        language = "language plpgsql as 'begin end'"
        conn.execute(f"create function page.{signature(name)} {language}".encode())
    drawn = {row[0]: row[2:4] for row in conn.execute(INSTALLED, ["page"])}
    assert drawn == {row[0]: row[2:4] for row in conn.execute(INSTALLED, ["holdfast"])}


def test_the_page_says_who_may_call_what(conn: Connection) -> None:
    said = {
        name: re.findall(r"\w+", text.partition("May be called by: ")[2].partition(".")[0])
        for name, text in FUNCTIONS.items()
    }
    assert said == {row[0]: list(row[4]) for row in conn.execute(INSTALLED, ["holdfast"])}


def test_the_table_of_parameters_has_every_one_and_no_other(conn: Connection) -> None:
    table = re.findall(r"^\| (`p_\w+`(?:, `p_\w+`)*) \| \S", PAGE, re.MULTILINE)
    explained = Counter(name for names in table for name in re.findall(r"p_\w+", names))
    used = {name for row in conn.execute(INSTALLED, ["holdfast"]) for name in row[1]}
    assert explained == Counter(used)


def test_the_first_table_leads_to_every_function_once() -> None:
    table = PAGE.partition("| I want to |")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(FUNCTIONS)


def test_every_link_within_the_page_leads_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)", PAGE, re.MULTILINE)
    anchors = {"#" + re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\((#[^)]+)\)", PAGE)) - anchors == set()


# What it says about views


def test_every_view_is_on_the_page_with_its_columns(conn: Connection) -> None:
    installed = conn.execute(
        """
        select relname, string_agg(format('`%s` %s', attname, atttypid::regtype), ' · ' order by attnum)
        from pg_class join pg_attribute on attrelid = pg_class.oid
        where relnamespace = 'holdfast'::regnamespace and relkind = 'v' and attnum > 0
        group by relname
        """
    ).fetchall()
    assert installed
    for view, columns in installed:
        assert re.search(
            rf"^`{view}`: .*?\n\n{re.escape(unqualified(columns))}\n", PAGE, re.DOTALL | re.MULTILINE
        ), view


def unqualified(columns: str) -> str:
    return columns.replace("holdfast.job_state", "job_state")


# What it says about behaviour


def test_every_function_has_an_example_of_its_own() -> None:
    lacking = [name for name in FUNCTIONS if f"holdfast.{name}(" not in "".join(blocks(FUNCTIONS[name])[1:])]
    assert lacking == []


def test_the_examples_run_from_the_top_of_the_page_to_its_end(database: str) -> None:
    examples = "".join(block for block in blocks(PAGE) if block.startswith("select "))
    done = run_psql(database, f"\\set ON_ERROR_STOP on\n{examples}")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_call_with_nulls_or_of_an_unknown_job_ends_in_an_error_the_page_lists(conn: Connection) -> None:
    for name in FUNCTIONS:
        parameters = re.findall(r"\b(p_\w+) ([a-z ]+(?:\[\])?)", signature(name).partition(") returns")[0])
        for values in (
            {},
            {"p_job_id": "'nobody'", "p_lease_id": "'x'", "p_worker_id": "'w'", "p_next_need": "'q'"},
        ):
            arguments = ", ".join(f"{each} => {values.get(each, 'null')}" for each, _ in parameters)
            raised = error_of(conn, f"select * from holdfast.{name}({arguments})")
            assert raised is None or raised in errors(name), f"{name}({arguments}) raised {raised}"


def error_of(conn: Connection, statement: str) -> str | None:
    try:
        conn.execute(statement.encode())
    except psycopg.Error as error:
        return error.sqlstate
    return None


def test_the_table_of_operations_has_those_that_settle_jobs_knows() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", SECTIONS["settle_jobs"], re.MULTILINE)
    settle = next(file.sql for file in shipped().functions if file.name == "60_settle.sql")
    known = re.search(r"v_known constant text\[\] := array\[(.*?)\]", settle, re.DOTALL)
    assert known
    assert sorted(listed) == sorted(re.findall(r"'(\w+)'", known[1]))


# What the files say


def test_every_public_function_has_a_header_in_its_file() -> None:
    for file in shipped().functions:
        for before, name in re.findall(r"([^\n]*)\ncreate or replace function ([a-z]\w*)\(", file.sql):
            assert before.startswith("-- "), f"{file.name}: {name}"
