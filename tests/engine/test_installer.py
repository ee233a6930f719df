from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from psycopg.rows import dict_row

from holdfast.engine import installer
from holdfast.engine.source import Source
from holdfast.errors import (
    DatabaseUnavailable,
    InstallationRefused,
    InvalidArgument,
    SchemaMissing,
    SchemaTooNew,
    SchemaTooOld,
)
from tests.conftest import Connect
from tests.databases import Databases
from tests.engine.sources import COUNT, FUNCTIONS, LISTED, THINGS, Releases

Connection = psycopg.Connection[Any]
Rows = list[tuple[Any, ...]]


@pytest.fixture
def blank(blank_database: str, connect: Connect) -> Connection:
    return connect(blank_database)


@pytest.fixture
def releases(tmp_path: Path, blank: Connection) -> Releases:
    return Releases(tmp_path, blank)


def ask(conn: Connection, query: str) -> Rows:
    return conn.execute(query.encode()).fetchall()


def everything(conn: Connection) -> dict[str, Rows]:
    """Every row that an installation could have written, with the transaction that wrote it."""
    of_schema = "namespace = (select oid from pg_namespace where nspname = 'holdfast')"
    return {
        "schema": ask(conn, "select oid, xmin, nspacl from pg_namespace where nspname = 'holdfast'"),
        "functions": ask(conn, f"select oid, xmin, proacl from pg_proc where pro{of_schema} order by oid"),
        "relations": ask(conn, f"select oid, xmin, relacl from pg_class where rel{of_schema} order by oid"),
        "views": ask(conn, "select oid, xmin from pg_rewrite order by oid"),
        "migrations": ask(conn, "select *, xmin from holdfast.migrations order by version"),
        "installation": ask(conn, "select *, xmin from holdfast.installation"),
    }


def functions(conn: Connection, schema: str = "holdfast") -> dict[str, int]:
    rows = conn.execute(
        "select proname, oid from pg_proc where pronamespace = to_regnamespace(%s)", [schema]
    ).fetchall()
    return {str(name): int(oid) for name, oid in rows}


# Installing


def test_an_empty_database_gets_everything(blank: Connection, releases: Releases) -> None:
    source = releases.make()
    assert installer.status(blank, source=source).state == "missing"
    report = installer.install(blank, source=source)
    assert [migration.name for migration in report.applied] == ["0001_things.sql"]
    assert report.functions_changed
    assert ask(blank, "select holdfast.count_things()") == [(0,)]
    assert installer.status(blank, source=source).state == "current"


def test_running_it_twice_changes_nothing(blank: Connection) -> None:
    installer.install(blank)
    before = everything(blank)
    report = installer.install(blank)
    assert report.applied == ()
    assert not report.functions_changed
    assert everything(blank) == before


def test_ten_installers_at_once_install_once(blank_database: str, connect: Connect) -> None:
    start = threading.Barrier(10)
    connections = [connect(blank_database) for _ in range(10)]

    def install(conn: Connection) -> installer.Report:
        start.wait()
        return installer.install(conn)

    with ThreadPoolExecutor(10) as pool:
        reports = list(pool.map(install, connections))
    assert sorted(report.functions_changed for report in reports) == [False] * 9 + [True]
    assert sum(len(report.applied) for report in reports) == installer.status(connections[0]).code_version


def test_many_databases_of_one_server_can_be_installed_at_once(
    databases: Databases, connect: Connect
) -> None:
    names = [databases.create() for _ in range(6)]
    start = threading.Barrier(len(names))

    def install(name: str) -> str:
        conn = connect(databases.dsn(name))
        start.wait()
        installer.install(conn)
        return installer.status(conn).state

    with ThreadPoolExecutor(len(names)) as pool:
        states = list(pool.map(install, names))
    for name in names:
        databases.drop_later(name)
    assert states == ["current"] * len(names)


def test_two_schemas_live_side_by_side(blank: Connection, releases: Releases) -> None:
    source = releases.make()
    for schema in ("one", "two"):
        installer.install(blank, schema, source=source)
    blank.execute("insert into one.things values (1, 'only here')")
    assert ask(blank, "select one.count_things(), two.count_things()") == [(1, 0)]
    blank.execute("drop schema one cascade")
    assert installer.status(blank, "one", source=source).state == "missing"
    assert installer.status(blank, "two", source=source).state == "current"


@pytest.mark.parametrize("schema", ["", "Big", "pg_mine", "a-b", 'a"b', "1st", "seventeen_letters", "public"])
def test_a_name_no_schema_can_have_is_refused(blank: Connection, schema: str) -> None:
    with pytest.raises(InvalidArgument, match="schema name"):
        installer.install(blank, schema)
    with pytest.raises(InvalidArgument, match="schema name"):
        installer.script(schema)


@pytest.mark.parametrize("schema", ["user", "select", "_", "sixteen_letters_"])
def test_any_other_name_will_do(blank: Connection, releases: Releases, schema: str) -> None:
    source = releases.make()
    installer.install(blank, schema, source=source)
    assert installer.status(blank, schema, source=source).state == "current"


def test_settings_of_the_session_make_no_difference(
    blank_database: str, connect: Connect, releases: Releases
) -> None:
    slow = {"30_slow.sql": "select pg_sleep(0.7) where current_schema() <> 'scratch';"}
    source = releases.make({**FUNCTIONS, **slow})
    settings = "-c statement_timeout=500 -c default_transaction_read_only=on -c search_path=pg_catalog"
    conn = connect(blank_database, autocommit=False, row_factory=dict_row, options=settings)
    assert installer.install(conn, source=source).functions_changed
    assert conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_it_leaves_the_settings_of_the_session_alone(blank: Connection, releases: Releases) -> None:
    names = "name not like 'plpgsql.%'"  # known once the language was used
    before = ask(blank, f"select name, setting from pg_settings where {names}")
    installer.install(blank, source=releases.make())
    assert ask(blank, f"select name, setting from pg_settings where {names}") == before


# Upgrading


def test_an_upgrade_applies_only_what_is_new(blank: Connection, releases: Releases) -> None:
    installer.install(blank, source=releases.make())
    blank.execute("insert into holdfast.things values (1, 'kept')")
    later = releases.make(
        migrations={**THINGS, "0002_size.sql": "alter table things add size integer default 7;"},
        release="1.1",
    )
    status = installer.status(blank, source=later)
    assert (status.state, status.version, status.code_version) == ("behind", 1, 2)
    with pytest.raises(SchemaTooOld, match=r"holdfast migrate up$"):
        installer.require_current(blank, source=later)
    report = installer.install(blank, source=later)
    assert [migration.name for migration in report.applied] == ["0002_size.sql"]
    assert ask(blank, "select * from holdfast.things") == [(1, "kept", 7)]
    installer.require_current(blank, source=later)


def test_a_function_that_only_changed_inside_keeps_its_oid_and_its_grants(
    blank: Connection, releases: Releases
) -> None:
    installer.install(blank, source=releases.make())
    blank.execute("grant execute on function holdfast.count_things() to pg_monitor")
    before = functions(blank)
    changed = {**FUNCTIONS, "10_count.sql": COUNT.replace("count(*)", "count(*) + 1")}
    installer.install(blank, source=releases.make(changed, release="1.1"))
    assert ask(blank, "select holdfast.count_things()") == [(1,)]
    assert functions(blank) == before
    assert ask(
        blank, "select has_function_privilege('pg_monitor', 'holdfast.count_things()', 'execute')"
    ) == [(True,)]


def test_workers_go_on_calling_functions_while_they_are_replaced(
    blank: Connection, blank_database: str, connect: Connect, releases: Releases
) -> None:
    one = releases.make()
    other = releases.make(
        {**FUNCTIONS, "10_count.sql": COUNT.replace("count(*)", "count(*) + 1")}, release="1.0.0"
    )
    installer.install(blank, source=one)
    done = threading.Event()

    def call(conn: Connection) -> set[int]:
        seen: set[int] = set()
        while not done.is_set():
            seen.update(count for (count,) in ask(conn, "select holdfast.count_things()"))
        return seen

    with ThreadPoolExecutor(2) as pool:
        calling = [pool.submit(call, connect(blank_database)) for _ in range(2)]
        try:
            for _ in range(10):
                installer.install(blank, source=other)
                installer.install(blank, source=one)
        finally:
            done.set()
    assert [seen.result() for seen in calling] == [{0, 1}, {0, 1}]


def test_a_removed_function_is_gone_after_the_upgrade(blank: Connection, releases: Releases) -> None:
    installer.install(blank, source=releases.make())
    installer.install(blank, source=releases.make({"20_listed.sql": LISTED}, release="1.1"))
    assert functions(blank) == {}
    assert ask(blank, "select * from holdfast.listed_things") == []


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(COUNT.replace("bigint", "text").replace("count(*)", "count(*)::text"), id="result"),
        pytest.param(COUNT.replace("things()", "things(p_min integer)"), id="parameters"),
        pytest.param("create or replace procedure count_things() language sql as 'select 1';", id="kind"),
    ],
)
def test_a_function_with_another_signature_replaces_the_old_one(
    blank: Connection, releases: Releases, changed: str
) -> None:
    installer.install(blank, source=releases.make())
    installer.install(blank, source=releases.make({"10_count.sql": changed}, release="1.1"))
    assert len(functions(blank)) == 1
    assert ask(blank, "select to_regprocedure('holdfast.count_things()') is null") == [("p_min" in changed,)]


def test_defaults_may_come_and_go(blank: Connection, releases: Releases) -> None:
    def release(number: str, default: str) -> Source:
        sql = (
            f"create or replace function pick(p_a integer, p_b integer{default}) returns integer language sql"
        )
        return releases.make({"10_pick.sql": f"{sql} as 'select p_b';"}, release=number)

    installer.install(blank, source=release("1.0", ""))
    oid = functions(blank)["pick"]
    installer.install(blank, source=release("1.1", " default 2"))
    assert ask(blank, "select holdfast.pick(1)") == [(2,)]
    assert functions(blank)["pick"] == oid
    installer.install(blank, source=release("1.2", ""))
    with pytest.raises(psycopg.errors.UndefinedFunction):
        blank.execute("select holdfast.pick(1)")


def test_what_uses_a_changed_view_of_ours_is_made_anew_with_it(blank: Connection, releases: Releases) -> None:
    upon = {
        "25_upon.sql": "create or replace view upon as select name from listed_things;",
        "26_first.sql": "create or replace function first_thing() returns listed_things language sql "
        "set search_path from current as 'select * from listed_things limit 1';",
        "27_all.sql": "create or replace function things_of(p_all listed_things[]) returns integer "
        "language sql as 'select cardinality(p_all)';",
        "28_by.sql": "create or replace view through as select (first_thing()).name;",
    }
    installer.install(blank, source=releases.make({**FUNCTIONS, **upon}))
    kept = functions(blank)["count_things"]
    fewer = {"20_listed.sql": LISTED.replace("id, name", "name")}
    installer.install(blank, source=releases.make({**FUNCTIONS, **upon, **fewer}, release="1.1"))
    blank.execute("insert into holdfast.things values (1, 'one')")
    assert ask(blank, "select * from holdfast.listed_things") == [("one",)]
    assert ask(blank, "select * from holdfast.upon") == [("one",)]
    assert ask(blank, "select * from holdfast.through") == [("one",)]
    assert functions(blank)["count_things"] == kept


def test_a_migration_may_drop_a_view_that_the_same_functions_bring_back(
    blank: Connection, releases: Releases
) -> None:
    installer.install(blank, source=releases.make())
    widen = "drop view listed_things; alter table things alter id type bigint;"
    later = releases.make(
        migrations={**THINGS, "0002_wide.sql": widen.replace("view", "view if exists")}, release="1.1"
    )
    installer.install(blank, source=later)
    assert ask(
        blank, "select pg_typeof(id)::text from holdfast.listed_things right join (select) one on true"
    ) == [("bigint",)]


# What users built upon it


def test_a_users_view_survives_an_upgrade_that_adds_a_column(blank: Connection, releases: Releases) -> None:
    installer.install(blank, source=releases.make())
    blank.execute("create view public.mine as select * from holdfast.listed_things")
    more = {**FUNCTIONS, "20_listed.sql": LISTED.replace("name", "name, id > 0 as positive")}
    installer.install(blank, source=releases.make(more, release="1.1"))
    assert ask(blank, "select * from public.mine") == []
    assert ask(blank, "select positive from holdfast.listed_things") == []


def test_a_users_view_in_the_way_is_named_and_nothing_changes(blank: Connection, releases: Releases) -> None:
    installer.install(blank, source=releases.make())
    blank.execute(
        "create view public.mine as select name, holdfast.count_things() from holdfast.listed_things"
    )
    before = everything(blank)
    fewer = releases.make({"20_listed.sql": LISTED}, release="1.1")
    with pytest.raises(InstallationRefused, match=r"view public\.mine depends on .*count_things\(\)"):
        installer.install(blank, source=fewer)
    assert everything(blank) == before
    blank.execute("drop view public.mine")
    assert installer.install(blank, source=fewer).functions_changed


def test_a_users_own_function_in_the_schema_is_left_alone(blank: Connection, releases: Releases) -> None:
    installer.install(blank, source=releases.make())
    blank.execute("create function holdfast.mine() returns integer language sql as 'select 1'")
    installer.install(blank, source=releases.make({"20_listed.sql": LISTED}, release="1.1"))
    assert list(functions(blank)) == ["mine"]


def test_a_foreign_table_of_the_same_name_is_not_taken_for_ours(
    blank: Connection, releases: Releases
) -> None:
    blank.execute("create schema theirs; create table theirs.migrations (id integer, batch text)")
    with pytest.raises(InstallationRefused, match='"migrations" already exists'):
        installer.install(blank, "theirs", source=releases.make())
    assert ask(blank, "select to_regclass('theirs.things')") == [(None,)]


# What is refused


def test_a_schema_newer_than_the_code_is_refused(blank: Connection, releases: Releases) -> None:
    earlier = releases.make()
    later = releases.make(migrations={**THINGS, "0002_more.sql": "create table more ();"}, release="2.0")
    installer.install(blank, source=later)
    assert installer.status(blank, source=earlier).state == "newer"
    for attempt in (installer.install, installer.require_current):
        with pytest.raises(SchemaTooNew, match=r"version 2 \(Holdfast 2\.0\).*Holdfast 1\.0, which knows 1"):
            attempt(blank, source=earlier)


def test_functions_of_a_later_release_are_not_put_back(blank: Connection, releases: Releases) -> None:
    earlier = releases.make()
    installer.install(blank, source=releases.make({"20_listed.sql": LISTED}, release="1.0.1"))
    with pytest.raises(SchemaTooNew, match=r"Holdfast 1\.0\.1"):
        installer.install(blank, source=earlier)


def test_a_migration_that_was_edited_after_it_was_applied_is_refused(
    blank: Connection, releases: Releases
) -> None:
    installer.install(blank, source=releases.make())
    edited = {"0001_things.sql": THINGS["0001_things.sql"] + "create table sneaked_in ();"}
    source = releases.make(migrations=edited, release="1.1")
    assert installer.status(blank, source=source).state == "changed"
    for attempt in (installer.install, installer.require_current):
        with pytest.raises(InstallationRefused, match=r"other contents of 0001_things\.sql"):
            attempt(blank, source=source)


def test_a_missing_installation_is_an_error_that_names_the_command(blank: Connection) -> None:
    with pytest.raises(SchemaMissing, match=r'schema "elsewhere".*holdfast migrate up --schema elsewhere$'):
        installer.require_current(blank, "elsewhere")


def test_an_old_installation_elsewhere_is_an_error_that_names_the_command(
    blank: Connection, releases: Releases
) -> None:
    installer.install(blank, "elsewhere", source=releases.make())
    later = releases.make(migrations={**THINGS, "0002_more.sql": "create table more ();"}, release="1.1")
    with pytest.raises(SchemaTooOld, match=r"Run: holdfast migrate up --schema elsewhere$"):
        installer.require_current(blank, "elsewhere", source=later)


def test_a_failing_file_is_named_and_leaves_nothing_behind(blank: Connection, releases: Releases) -> None:
    source = releases.make(
        {**FUNCTIONS, "30_guard.sql": "select 1 / (current_schema() = 'scratch')::integer;"}
    )
    with pytest.raises(InstallationRefused, match=r"30_guard\.sql: division by zero"):
        installer.install(blank, source=source)
    assert ask(blank, "select from pg_namespace where nspname = 'holdfast'") == []


def test_a_role_that_may_not_install_is_told_so(
    blank: Connection, blank_database: str, connect: Connect, releases: Releases
) -> None:
    source = releases.make()
    conn = connect(blank_database)
    conn.execute("set role pg_monitor")
    with pytest.raises(InstallationRefused, match=r"permission denied.*holdfast migrate sql"):
        installer.install(conn, source=source)


def test_the_owner_of_the_schema_needs_no_other_right(
    blank: Connection, blank_database: str, connect: Connect, releases: Releases
) -> None:
    source = releases.make()
    blank.execute("create schema holdfast authorization pg_monitor")
    conn = connect(blank_database)
    conn.execute("set role pg_monitor")
    assert installer.install(conn, source=source).functions_changed


def test_a_connection_in_a_transaction_is_refused(blank: Connection) -> None:
    with blank.transaction(), pytest.raises(InvalidArgument, match="not in a transaction"):
        installer.install(blank)


def test_a_server_older_than_14_is_refused() -> None:
    info = SimpleNamespace(transaction_status=psycopg.pq.TransactionStatus.IDLE, server_version=130011)
    with pytest.raises(InstallationRefused, match=r"needs PostgreSQL 14 or newer; this server is 13\.11"):
        installer.install(cast(Connection, SimpleNamespace(info=info)))


def test_a_database_that_is_not_utf8_is_refused(databases: Databases, connect: Connect) -> None:
    name = databases.create(template="template0", options="encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'")
    databases.drop_later(name)
    with pytest.raises(InstallationRefused, match="encoding UTF8; this one has SQL_ASCII"):
        installer.install(connect(databases.dsn(name)))


def test_a_lost_connection_is_an_error_of_ours(
    blank: Connection, blank_database: str, connect: Connect
) -> None:
    conn = connect(blank_database)
    blank.execute("select pg_terminate_backend(%s)", [conn.info.backend_pid])
    with pytest.raises(DatabaseUnavailable):
        installer.install(conn)


# Locks


def hold_the_table(conn: Connection) -> None:
    conn.execute("begin; select from holdfast.things")


def hold_the_installer_lock(conn: Connection) -> None:
    conn.execute("begin; select pg_advisory_xact_lock(hashtextextended('holdfast.install.holdfast', 0))")


@pytest.mark.parametrize("hold", [hold_the_table, hold_the_installer_lock])
def test_a_long_transaction_makes_it_give_up_in_time_and_say_who(
    blank: Connection,
    blank_database: str,
    connect: Connect,
    releases: Releases,
    hold: Callable[[Connection], None],
) -> None:
    installer.install(blank, source=releases.make())
    before = everything(blank)
    later = releases.make(
        migrations={**THINGS, "0002_size.sql": "alter table things add size integer;"}, release="1.1"
    )
    holder = connect(blank_database, application_name="month end report")
    hold(holder)
    start = time.monotonic()
    with pytest.raises(DatabaseUnavailable) as refusal:
        installer.install(blank, source=later, lock_timeout_s=0.5, attempts=2)
    assert time.monotonic() - start < 3
    message = str(refusal.value)
    assert (
        f'pid {holder.info.backend_pid} (application "month end report", idle in transaction, in a' in message
    )
    assert "2 attempts" in message
    assert "select" not in message
    assert everything(blank) == before
    holder.execute("rollback")
    assert installer.install(blank, source=later).version == 2


def test_asking_for_the_status_ends_at_the_sessions_own_lock_timeout(
    blank: Connection, blank_database: str, connect: Connect, releases: Releases
) -> None:
    source = releases.make()
    installer.install(blank, source=source)
    connect(blank_database).execute("begin; lock table holdfast.installation")
    impatient = connect(blank_database, options="-c lock_timeout=100")
    with pytest.raises(DatabaseUnavailable, match="lock timeout"):
        installer.require_current(impatient, source=source)


def test_a_lock_that_is_freed_in_time_only_delays_it(
    blank: Connection, blank_database: str, connect: Connect, releases: Releases
) -> None:
    installer.install(blank, source=releases.make())
    later = releases.make(
        migrations={**THINGS, "0002_size.sql": "alter table things add size integer;"}, release="1.1"
    )
    holder = connect(blank_database)
    hold_the_table(holder)
    freeing = threading.Timer(0.5, holder.execute, ["rollback"])
    freeing.start()
    assert installer.install(blank, source=later, lock_timeout_s=0.2, attempts=20).version == 2
    freeing.join()
