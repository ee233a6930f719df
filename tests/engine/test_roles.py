"""Every function and relation of the schema, for each role and a stranger: the table in roles.py holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg
from psycopg.sql import SQL, Identifier

from holdfast import embedded
from holdfast.engine import installer
from holdfast.engine.source import SqlFile, shipped
from tests.conftest import SERVER_SETTINGS, Connect
from tests.databases import Databases
from tests.engine.roles import (
    MAY_CALL,
    MAY_READ,
    ROLES,
    callable_by,
    contents,
    denied,
    functions,
    grants,
    relations,
    rights,
)
from tests.engine.sql import call, column, rows, value

Connection = psycopg.Connection[Any]
As = Callable[[str], Connection]
People = Callable[..., str]

TRAPS = Path(__file__).with_name("traps.sql")


@pytest.fixture(scope="module")
def installed(databases: Databases) -> Generator[str]:
    """The address of a database as users have it; the tests' clock would be a table and a grant too many."""
    name = databases.create()
    with psycopg.connect(databases.dsn(name), autocommit=True) as conn:
        installer.install(conn)
    yield databases.dsn(name)
    databases.drop_later(name)


@pytest.fixture
def owner(installed: str, connect: Connect) -> Connection:
    return connect(installed)


@pytest.fixture
def people(owner: Connection) -> Generator[People]:
    """Make a role that is a member of others. Roles belong to the server, so it is gone afterwards."""
    made: list[str] = []

    def person(*member_of: str) -> str:
        name = f"holdfast_test_{os.getpid()}_{len(made)}"
        owner.execute(SQL("drop role if exists {}").format(Identifier(name)))
        owner.execute(SQL("create role {} login").format(Identifier(name)))
        made.append(name)
        for role in member_of:
            owner.execute(SQL("grant {} to {}").format(Identifier(role), Identifier(name)))
        return name

    yield person
    for name in made:
        owner.execute(SQL("drop owned by {}").format(Identifier(name)))
        owner.execute(SQL("drop role {}").format(Identifier(name)))


@pytest.fixture
def as_role(installed: str, connect: Connect) -> As:
    """Connect to `installed` with the rights of a role."""

    def connect_as(role: str) -> Connection:
        conn = connect(installed)
        conn.execute(SQL("set role {}").format(Identifier(role)))
        return conn

    return connect_as


# Every right there is


def test_every_function_and_every_relation_is_in_the_table(owner: Connection) -> None:
    assert {name for name in functions(owner) if not name.startswith("_")} | {"_clock"} == set(MAY_CALL)
    assert set(relations(owner)) == set(MAY_READ)


@pytest.mark.parametrize("letter", ROLES)
def test_a_role_may_call_what_is_listed_for_it_and_nothing_else(owner: Connection, letter: str) -> None:
    listed = {name for name, letters in MAY_CALL.items() if letter in letters}
    assert callable_by(owner, ROLES[letter]) == listed


@pytest.mark.parametrize("letter", ROLES)
def test_a_role_may_read_what_is_listed_for_it_and_write_nowhere(owner: Connection, letter: str) -> None:
    listed = {(relation, "select") for relation, letters in MAY_READ.items() if letter in letters}
    assert rights(owner, ROLES[letter]) == listed | {("", "usage")}


def test_a_stranger_may_do_nothing(owner: Connection, people: People) -> None:
    stranger = people()
    assert callable_by(owner, stranger) == set()
    assert rights(owner, stranger) == set()


def test_nothing_is_granted_to_public_and_nothing_can_be_passed_on(owner: Connection) -> None:
    # Types keep what PostgreSQL gives to everybody: without it nobody could build a view that shows a state.
    assert [grant["name"] for grant in grants(owner) if grant["grantee"] == 0] == []
    assert [grant["name"] for grant in grants(owner) if grant["passed_on"]] == []


# How the functions are made


def test_public_functions_run_as_the_owner_and_helpers_as_whoever_calls_them(owner: Connection) -> None:
    query = "select proname from pg_proc where pronamespace = 'holdfast'::regnamespace and prosecdef"
    assert set(column(owner, query)) == {name for name in functions(owner) if not name.startswith("_")}


def test_every_function_looks_names_up_in_the_schema_then_the_catalog(owner: Connection) -> None:
    found = rows(
        owner,
        """
        select routine.proname as name, language.lanname as language, routine.prosecdef as definer, (
          select split_part(setting, '=', 2) from unnest(routine.proconfig) as setting
          where starts_with(setting, 'search_path=')
        ) as path
        from pg_proc routine
        join pg_language language on language.oid = routine.prolang
        where routine.pronamespace = 'holdfast'::regnamespace
        """,
    )
    assert {row["path"] for row in found} == {"holdfast, pg_catalog, pg_temp", None}
    # Those without are expressions that the planner puts in place of the call; a setting would prevent that.
    # They run inside functions that have the path, except _clock, which names nothing without its schema.
    without = {row["name"]: (row["language"], row["definer"]) for row in found if row["path"] is None}
    assert set(without.values()) == {("sql", False)}
    assert all(name.startswith("_") for name in without)


# Really calling


@pytest.mark.parametrize("letter", ["", *ROLES])
def test_what_a_role_can_call_is_what_it_may(
    owner: Connection, as_role: As, people: People, letter: str
) -> None:
    conn = as_role(ROLES[letter] if letter else people())
    refused = {name for name, statement in functions(owner).items() if denied(conn, statement)}
    assert set(functions(owner)) - refused == {
        name for name, letters in MAY_CALL.items() if letter and letter in letters
    }


@pytest.mark.parametrize("letter", ["", *ROLES])
def test_what_a_role_can_read_is_what_it_may_and_it_can_write_nowhere(
    owner: Connection, as_role: As, people: People, letter: str
) -> None:
    conn = as_role(ROLES[letter] if letter else people())
    before = contents(owner)
    readable = {relation for relation in MAY_READ if not denied(conn, f"select * from holdfast.{relation}")}
    assert readable == {name for name, letters in MAY_READ.items() if letter and letter in letters}
    for table in relations(owner, "r"):
        assert denied(conn, f"delete from holdfast.{table}")
        assert denied(conn, f"insert into holdfast.{table} default values")
    assert denied(conn, "select nextval('holdfast.jobs_id_seq')")
    assert denied(conn, "create table holdfast.mine ()")
    assert contents(owner) == before


def test_a_producer_puts_jobs_in_line_and_sees_nothing(owner: Connection, as_role: As) -> None:
    producer = as_role(ROLES["P"])
    (first, _) = call(producer, "submit_jobs", p_queues=["produced", "produced"])
    mine = {"p_job_id": "mine", "p_worker_id": "p", "p_next_need": "produced"}
    call(producer, "submit_job", **mine, p_wait_for=[first["job_id"]])
    (found,) = call(owner, "get_job", p_job_id="mine")
    assert (found["state"], found["wait_for"]) == ("INITIAL_PENDING", [first["job_id"]])
    for statement in (
        "select * from holdfast.get_job('mine')",
        "select * from holdfast.claim_jobs('p', '{produced}')",
        "select * from holdfast.settle_jobs('{mine}', '{complete}')",
        "select * from holdfast.cancel_job('mine', 'p')",
        "select * from holdfast.jobs_with_status",
        "update holdfast.jobs set priority = 1",
    ):
        assert denied(producer, statement), statement


def test_a_worker_lives_the_whole_life_of_a_job(owner: Connection, as_role: As, people: People) -> None:
    worker = as_role(people(ROLES["W"]))
    assert call(worker, "get_work", p_worker_id="w", p_worker_caps=["lived"]) == []
    assert column(worker, "select pg_listening_channels()") == ["holdfast.need.lived"]
    call(as_role(ROLES["P"]), "submit_job", p_job_id="life", p_worker_id="p", p_next_need="lived")
    assert [signal.payload for signal in worker.notifies(timeout=10, stop_after=1)] == ["life"]

    (job,) = call(worker, "get_work", p_worker_id="w", p_worker_caps=["lived"])
    held = {"p_job_id": "life", "p_lease_id": job["lease_id"]}
    assert value(worker, "extend_lease", **held, p_worker_id="w") >= job["lease_expires_at"]
    assert value(worker, "acquire_resources", **held, p_keys=["printer"]) == []
    assert value(worker, "report_progress", **held, p_done=1)
    assert value(worker, "fail_job", **held, p_error="boom") == "FAILED_RETRY"
    (job,) = call(worker, "claim_jobs", p_worker_id="w", p_queues=["lived"])
    beat = call(
        worker,
        "settle_and_claim",
        p_job_ids=["life"],
        p_operations=["complete"],
        p_lease_ids=[job["lease_id"]],
        p_worker_id="w",
        p_queues=["lived"],
        p_limit=1,
    )
    assert [row["kind"] for row in beat] == ["next"]
    assert [row["state"] for row in call(owner, "get_job", p_job_id="life")] == ["COMPLETED"]


def test_a_viewer_sees_everything_and_changes_nothing(owner: Connection, as_role: As) -> None:
    viewer = as_role(ROLES["V"])
    call(owner, "submit_job", p_job_id="seen", p_worker_id="p", p_next_need="viewed")
    (job,) = call(owner, "claim_jobs", p_worker_id="w", p_queues=["viewed"])
    before = contents(owner)

    for view in ("jobs_with_status", "jobs_friendly_status", "job_details"):
        query = f"select status from holdfast.{view} where job_id = 'seen'"
        assert column(viewer, query) == ["ACTIVE"], view
    assert "seen" in {row["job_id"] for row in call(viewer, "list_stuck_jobs", p_stale_seconds=0.000001)}
    assert [row["job_id"] for row in call(viewer, "get_job", p_job_id="seen")] == ["seen"]
    assert call(viewer, "get_job_stats")[0]["running_jobs"] >= 1
    for statement in (
        "select holdfast.cancel_job('seen', 'v')",
        f"select holdfast.complete_job('seen', '{job['lease_id']}', 'v')",
        "select holdfast.submit_job('other', 'v', 'viewed')",
        "select holdfast.pause_queue('viewed')",
        "select holdfast.set_notify(false)",
        "update holdfast.settings set notify = false",
        "update holdfast.jobs_archive set priority = 1",
    ):
        assert denied(viewer, statement), statement
    assert contents(owner) == before
    value(owner, "stop_job", p_job_id="seen")


def test_an_admin_operates_but_has_no_hand_in_the_tables(owner: Connection, as_role: As) -> None:
    admin = as_role(ROLES["A"])
    for job_id in ("dead", "doomed"):
        call(admin, "submit_job", p_job_id=job_id, p_worker_id="a", p_next_need="operated")
    assert call(admin, "cancel_job", p_job_id="doomed", p_worker_id="a")[0]["state"] == "UNSCHEDULED"
    call(admin, "claim_jobs", p_worker_id="w", p_queues=["operated"])
    assert value(admin, "fail_job", p_job_id="dead", p_error="boom", p_permanent=True) == "DEAD"
    assert [row["job_id"] for row in call(admin, "list_dead_jobs", p_queue="operated")] == ["dead"]
    assert value(admin, "revive_job", p_job_id="dead") == "RESCHEDULED"
    assert [row["cancelled"] for row in call(admin, "cancel_jobs", p_job_ids=["dead"])] == [True]
    assert value(admin, "delete_jobs", p_job_ids=["doomed", "dead"]) == 2
    assert value(admin, "pause_queue", p_queue="operated")
    assert value(admin, "resume_queue", p_queue="operated")
    assert value(admin, "set_trace_level", p_level="exceptions") == "exceptions"
    assert value(admin, "set_notify", p_enabled=True)
    for statement in (
        "insert into holdfast.queues (name, paused_at) values ('q', now())",
        "update holdfast.settings set notify = false",
        "create function holdfast.mine() returns integer language sql as 'select 1'",
        "create or replace function holdfast.trace_level() returns text language sql as 'select 1::text'",
        "alter table holdfast.jobs add mine integer",
        "drop view holdfast.jobs_archive",
        "drop schema holdfast cascade",
        "select holdfast._forget('{1}')",
    ):
        assert denied(admin, statement), statement


def test_every_role_can_tell_whether_the_installation_fits_its_release(as_role: As) -> None:
    assert {installer.status(as_role(role)).state for role in ROLES.values()} == {"current"}


# Attacks


@pytest.mark.parametrize("letter", ROLES)
def test_no_object_of_an_attacker_is_taken_for_one_of_ours(
    owner: Connection, as_role: As, people: People, letter: str
) -> None:
    attacker = people(ROLES[letter])
    owner.execute(SQL("grant create on schema public to {}").format(Identifier(attacker)))
    owner.execute(SQL("grant select on all tables in schema holdfast to {}").format(Identifier(attacker)))
    bait = {"p_job_id": f"bait {letter}", "p_worker_id": "w", "p_next_need": "q", "p_tags": ["t"]}
    call(owner, "submit_job", **bait, p_singleton_key="k", p_expires_at="2000-01-01")
    conn = as_role(attacker)
    conn.execute(TRAPS.read_bytes())
    conn.execute("set search_path = pg_temp, public, pg_catalog, holdfast")

    may_call = [sql for name, sql in functions(owner).items() if letter in MAY_CALL.get(name, "")]
    may_read = [f"select * from holdfast.{name}" for name, letters in MAY_READ.items() if letter in letters]
    found = {statement: said(conn, statement) for statement in (*may_call, *may_read, *MOVES)}
    assert {statement: state for statement, state in found.items() if state not in EXPECTED} == {}
    for schema in ("public", "pg_temp"):
        assert rows(conn, f"select from {schema}.jobs") == []


def said(conn: Connection, statement: str) -> str | None:
    """The SQLSTATE of the error that a statement ends in."""
    try:
        conn.execute(statement.encode())
    except psycopg.Error as error:
        return error.sqlstate
    return None


# No error; a value that cannot be; no such job; a taken id; another state; what the role may not do.
EXPECTED = {None, "22023", "HF001", "HF002", "HF003", "HF004", "42501"}

MOVES = (
    "select * from holdfast.submit_job('mine', 'a', 'q', p_tags => '{t}', p_resource_keys => '{r}')",
    "select * from holdfast.submit_job('child', 'a', 'q', '{mine}')",
    "select * from holdfast.submit_jobs(p_job_ids => '{one,two}', p_queues => '{q,q}')",
    "select holdfast.next_due('{q}')",
    "select * from holdfast.jobs_of_stream(1)",
    "select * from holdfast.get_work('a', '{nothing}')",
    "select * from holdfast.claim_jobs('a', '{q}', 10, p_tags => '{t}')",
    "select * from holdfast.get_work('a', '{q,r}', 60, 10)",
    "select holdfast.acquire_resources('one', '{r}')",
    "select * from holdfast.settle_jobs('{mine,one}', '{complete,fail}', p_messages => '{a,b}')",
    "select * from holdfast.settle_and_claim('{two}', '{complete}', null, 'a', '{q}', 10)",
    "select * from holdfast.lapse_leases()",
    "select * from holdfast.get_job('mine')",
    "select * from holdfast.get_job_stats('{t}')",
    "select * from holdfast.get_queue_stats()",
    "select * from holdfast.tagged_jobs('{t}')",
    "select * from holdfast.held_jobs()",
    "select * from holdfast.list_waiting_jobs('one')",
    "select * from holdfast.count_ended_jobs(60)",
    "select * from holdfast.list_stuck_jobs(0.000001)",
    "select * from holdfast.list_dead_jobs()",
    "select * from holdfast.cancel_job('child', 'a', 'because')",
    "select * from holdfast.cancel_jobs('{t}')",
    "select holdfast.mark_worker_unresponsive('a')",
    "select holdfast.pause_queue('q')",
    "select holdfast.resume_queue('q')",
    "select holdfast.set_trace(true)",
    "select holdfast.set_trace_level('exceptions')",
    "select holdfast.cancel_expired_jobs(0)",
    "select holdfast.delete_jobs('{t}')",
    "select holdfast.cleanup_expired_jobs(0.000001)",
)


# Installing


def test_two_schemas_share_the_roles_but_not_the_jobs(blank_database: str, connect: Connect) -> None:
    boss, worker = connect(blank_database), connect(blank_database)
    for schema in ("one", "two"):
        installer.install(boss, schema)
    worker.execute("set role holdfast_worker")
    worker.execute("select one.submit_job('mine', 'w', 'q')")
    assert rows(worker, "select job_id from two.claim_jobs('w', '{q}')") == []
    assert column(worker, "select job_id from one.claim_jobs('w', '{q}')") == ["mine"]


@pytest.fixture
def bare_server(open_directory: Path) -> Generator[str]:
    """The address of a server on which nobody ever installed Holdfast."""
    with embedded.start(open_directory / "pg", settings=SERVER_SETTINGS) as server:
        yield server.dsn


def test_an_owner_who_may_not_create_roles_can_install_and_grants_once_they_exist(
    bare_server: str, connect: Connect
) -> None:
    boss, owner, worker = (connect(bare_server) for _ in range(3))
    boss.execute("create role plain")
    boss.execute("create schema holdfast authorization plain")
    owner.execute("set role plain")
    warnings: list[str] = []
    owner.add_notice_handler(lambda notice: warnings.append(notice.message_primary or ""))

    installer.install(owner)
    assert [warning.split()[1] for warning in warnings] == list(ROLES.values())
    call(owner, "submit_job", p_job_id="own", p_worker_id="o", p_next_need="q")

    for role in ROLES.values():
        boss.execute(SQL("create role {}").format(Identifier(role)))
    worker.execute("set role holdfast_worker")
    with pytest.raises(pg.InsufficientPrivilege):
        call(worker, "claim_jobs", p_worker_id="w", p_queues=["q"])
    assert column(owner, "select holdfast._grant_to_roles()") == list(ROLES.values())
    assert [job["job_id"] for job in call(worker, "claim_jobs", p_worker_id="w", p_queues=["q"])] == ["own"]


def test_an_upgrade_grants_to_roles_that_were_made_since(bare_server: str, connect: Connect) -> None:
    boss, owner = connect(bare_server), connect(bare_server)
    boss.execute("create role plain")
    boss.execute("create schema holdfast authorization plain")
    owner.execute("set role plain")
    installer.install(owner)
    for role in ROLES.values():
        boss.execute(SQL("create role {}").format(Identifier(role)))
    later = replace(shipped(), functions=(*shipped().functions, SqlFile("99_later.sql", "select 1;")))
    installer.install(owner, source=later)
    assert {letter: callable_by(boss, role) for letter, role in ROLES.items()} == {
        letter: {name for name, letters in MAY_CALL.items() if letter in letters} for letter in ROLES
    }


def test_granting_again_changes_nothing_and_takes_back_what_is_not_in_the_table(
    blank_database: str, connect: Connect
) -> None:
    boss = connect(blank_database)
    installer.install(boss)
    query = "select oid, xmin from pg_proc where pronamespace = 'holdfast'::regnamespace order by oid"
    before = rows(boss, query)
    assert column(boss, "select holdfast._grant_to_roles()") == list(ROLES.values())
    assert rows(boss, query) == before

    boss.execute("grant execute on function holdfast.reset_running_jobs() to holdfast_producer, public")
    boss.execute("grant all on holdfast.jobs to holdfast_producer")
    boss.execute("select holdfast._grant_to_roles()")
    assert callable_by(boss, ROLES["P"]) == {name for name, letters in MAY_CALL.items() if "P" in letters}
    assert rights(boss, ROLES["P"]) == {("", "usage"), ("migrations", "select"), ("installation", "select")}
