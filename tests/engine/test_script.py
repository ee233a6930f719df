"""`holdfast migrate sql`: the installation as text, for those who let no program change their database."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.engine import dump, installer, script
from holdfast.engine.source import Source, bookkeeping, shipped
from tests.conftest import Connect
from tests.engine.sources import FUNCTIONS, LISTED, THINGS, Releases
from tests.psql import run_psql

Connection = psycopg.Connection[Any]


@pytest.fixture
def blank(blank_database: str, connect: Connect) -> Connection:
    return connect(blank_database)


@pytest.fixture
def releases(tmp_path: Path, blank: Connection) -> Releases:
    return Releases(tmp_path, blank)


def apply(dsn: str, source: Source | None = None) -> None:
    done = run_psql(dsn, installer.script(source=source))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == ""


def test_the_printed_script_installs_with_psql_alone(blank: Connection, blank_database: str) -> None:
    apply(blank_database)
    assert installer.status(blank).state == "current"
    blank.execute("alter schema holdfast rename to printed")
    installer.install(blank)
    assert dump.signatures(blank, "printed") == dump.signatures(blank, "holdfast")


def test_the_printed_script_run_again_changes_nothing(blank: Connection, blank_database: str) -> None:
    written = (
        "select xmin::text from pg_proc where pronamespace = 'holdfast'::regnamespace "
        "union all select xmin::text from holdfast.installation "
        "union all select xmin::text from holdfast.migrations order by 1"
    )
    apply(blank_database)
    before = blank.execute(written).fetchall()
    apply(blank_database)
    assert blank.execute(written).fetchall() == before


def test_the_printed_script_upgrades_what_the_installer_installed(
    blank: Connection, blank_database: str, releases: Releases
) -> None:
    installer.install(blank, source=releases.make())
    later = releases.make(
        {"20_listed.sql": LISTED.replace("id, name", "name")},
        {**THINGS, "0002_more.sql": "create table more ();"},
        release="1.1",
    )
    apply(blank_database, later)
    assert installer.status(blank, source=later).state == "current"
    found = blank.execute("select to_regclass('holdfast.more'), to_regprocedure('holdfast.count_things()')")
    assert found.fetchone() == ("holdfast.more", None)


@pytest.mark.parametrize(
    ("functions", "migrations", "complaint"),
    [
        (FUNCTIONS, {**THINGS, "0002_more.sql": "create table more ();"}, "newer Holdfast than 1.0"),
        ({"20_listed.sql": LISTED}, THINGS, "newer Holdfast than 1.0"),
        (FUNCTIONS, {"0001_things.sql": "create table things (id integer, name text);"}, "file was changed"),
    ],
    ids=["migration", "functions", "edited"],
)
def test_the_printed_script_refuses_what_the_installer_refuses(
    blank: Connection,
    blank_database: str,
    releases: Releases,
    functions: dict[str, str],
    migrations: dict[str, str],
    complaint: str,
) -> None:
    installer.install(blank, source=releases.make(functions, migrations, release="1.1"))
    refused = run_psql(blank_database, installer.script(source=releases.make()))
    assert refused.returncode != 0
    assert complaint in refused.stderr


def test_the_printed_script_does_everything_or_nothing(
    blank: Connection, blank_database: str, releases: Releases
) -> None:
    broken = releases.make({**FUNCTIONS, "30_bad.sql": "select 1 / (current_schema() = 'scratch')::integer;"})
    failed = run_psql(blank_database, installer.script(source=broken))
    assert failed.returncode != 0
    assert "division by zero" in failed.stderr
    assert installer.status(blank).state == "missing"
    assert blank.execute("select from pg_namespace where nspname = 'holdfast'").fetchone() is None


def test_every_file_is_named_in_the_script() -> None:
    text = installer.script()
    for file in (*shipped().migrations, *shipped().functions):
        assert f"/{file.name} " in text
        assert file.sql in text


def install_by_installer(dsn: str, source: Source) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ  # must not matter
        assert not installer.install(conn, source=source).functions_changed


@pytest.mark.parametrize("install", [install_by_installer, apply])
def test_who_waited_for_another_installation_finds_its_work_done(
    blank: Connection,
    blank_database: str,
    connect: Connect,
    releases: Releases,
    install: Callable[[str, Source], None],
) -> None:
    source = releases.make()
    first = connect(blank_database)
    with ThreadPoolExecutor(1) as pool:
        with first.transaction():
            run(first, script.settings("holdfast", 5), script.declare(source), script.lock("holdfast"))
            waiting = pool.submit(install, blank_database, source)
            wait_until_somebody_waits(blank)
            run(first, "create schema holdfast", bookkeeping("tables"))
            run(first, *(file.sql for file in (*source.migrations, *source.functions)))
            run(first, *(script.record_migration(each) for each in source.migrations))
            run(first, bookkeeping("record_functions"))
        waiting.result(timeout=10)
    assert installer.status(blank, source=source).state == "current"


def run(conn: Connection, *statements: str) -> None:
    for statement in statements:
        conn.execute(statement.encode())


def wait_until_somebody_waits(conn: Connection) -> None:
    deadline = time.monotonic() + 10
    waits = "select count(*) > 0 from pg_locks where locktype = 'advisory' and not granted"
    while conn.execute(waits).fetchone() != (True,):
        assert time.monotonic() < deadline, "nobody waits for the lock"
        time.sleep(0.01)
