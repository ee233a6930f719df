"""The archive is in parts: no job is lost, none fails to end for want of a part, old parts are dropped."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from time import monotonic
from typing import Any

import psycopg
import pytest

from holdfast.engine import installer
from holdfast.engine.source import Source, shipped
from tests.clock import Clock
from tests.conftest import Connect
from tests.engine.sql import call, claim, column, job, rows, settle, state, submit, value

Connection = psycopg.Connection[Any]

FIRST, REST = "archived_jobs_0", "archived_jobs_rest"
DAY_S = 86400


def parts(conn: Connection) -> list[str]:
    """The names of the parts, the oldest first, without the rest."""
    with conn.transaction():
        conn.execute("set local search_path = holdfast")
        return column(conn, "select part::text from holdfast._archive_parts() order by upper_id")


def part_of(conn: Connection, job_id: str) -> str:
    """Where a job of the archive is."""
    (found,) = column(
        conn,
        "select tableoid::regclass::text from holdfast.archived_jobs where id = %s",
        job(conn, job_id)["number"],
    )
    return str(found).removeprefix("holdfast.")


def run_one(conn: Connection, job_id: str, operation: str = "complete", **more: Any) -> None:
    submit(conn, job_id)
    (claimed,) = claim(conn)
    settle(conn, job_id, operation, claimed["lease_id"], **more)


def number_jobs_from(conn: Connection, number: int) -> None:
    conn.execute("select setval('holdfast.jobs_id_seq', %s)", [number])


def keep_up(conn: Connection, clock: Clock) -> None:
    clock.advance(60)
    while value(conn, "upkeep"):
        pass


def before_the_parts() -> Source:
    """What was installed before the archive had parts, as far as it can be made of what is there now."""
    later = {"64_held.sql", "82_archive.sql"}
    functions = tuple(file for file in shipped().functions if file.name not in later)
    return replace(shipped(), migrations=shipped().migrations[:5], functions=functions, release="0.0.1")


def test_an_archive_that_was_one_table_keeps_every_job_and_is_the_first_part(
    blank_database: str, connect: Connect
) -> None:
    conn = connect(blank_database)
    conn.execute("set check_function_bodies = off")
    installer.install(conn, source=before_the_parts())
    conn.execute("set search_path = holdfast")
    conn.execute(
        "insert into archived_jobs (id, available_at, created_at, finalized_at, state, priority, attempts,"
        " lease_expiration_count, consecutive_expirations, queue, name, tags)"
        " select n, now(), now(), now(), 'COMPLETED', 0, 0, 0, 0, 'q', 'job ' || n, '{a}'"
        " from generate_series(1, 25000000, 10000) as n"
    )
    conn.execute("insert into job_names select name, id from archived_jobs")
    conn.execute("select setval('jobs_id_seq', 25000000)")
    before = rows(conn, "select * from jobs_archive order by number")
    conn.execute("reset search_path")

    assert installer.install(conn).applied[0].version == 6

    assert rows(conn, "select * from holdfast.jobs_archive order by number") == before
    assert parts(conn) == [FIRST]
    assert (part_of(conn, "job 1"), part_of(conn, "job 24990001")) == (FIRST, FIRST)
    assert len(call(conn, "tagged_jobs", p_tags=["a"])) == len(before)
    run_one(conn, "new")
    assert (part_of(conn, "new"), state(conn, "new")) == (FIRST, "COMPLETED")
    number_jobs_from(conn, 30_000_000 - 2_000_000)
    assert value(conn, "_extend_archive") == 1
    number_jobs_from(conn, 30_000_000)
    run_one(conn, "later")
    assert part_of(conn, "later") == "archived_jobs_30000000"
    assert installer.status(conn).state == "current"


def test_a_job_that_no_part_was_made_for_ends_in_the_rest_and_stays_there(
    conn: Connection, clock: Clock
) -> None:
    number_jobs_from(conn, 76_543_210)
    run_one(conn, "a")
    assert (part_of(conn, "a"), state(conn, "a")) == (REST, "COMPLETED")
    keep_up(conn, clock)
    assert len(parts(conn)) > 1
    assert (part_of(conn, "a"), state(conn, "a")) == (REST, "COMPLETED")
    run_one(conn, "b")
    assert part_of(conn, "b") in parts(conn)


def test_a_part_is_made_before_its_first_job_and_they_stay_few(conn: Connection, clock: Clock) -> None:
    number = 1
    while number < 40_000_000_000:
        number_jobs_from(conn, number)
        keep_up(conn, clock)
        number = column(conn, "select max(upper_id) from holdfast._archive_parts()")[0] - 2
        number_jobs_from(conn, number)
        run_one(conn, f"job {number}")
        assert part_of(conn, f"job {number}") in parts(conn)
    assert len(parts(conn)) < 25


@pytest.fixture
def old(conn: Connection, clock: Clock) -> datetime:
    """A first part with jobs of noon, all over and past a retention of an hour; numbers are beyond it."""
    noon = clock.freeze(datetime.fromisoformat("2035-06-01T12:00:00+00:00"))
    value(conn, "set_archive_retention", p_seconds=3600)
    value(conn, "set_trace", p_enabled=True)
    call(conn, "submit_jobs", p_queues=["q", "q"])
    for claimed in claim(conn, limit=2):
        settle(conn, claimed["job_id"], "complete", claimed["lease_id"])
    run_one(conn, "named")
    call(conn, "submit_jobs", p_queues=["q"])
    (claimed,) = claim(conn)
    settle(conn, claimed["job_id"], "fail", claimed["lease_id"], p_messages=["no"])
    (claimed,) = claim(conn)
    settle(conn, claimed["job_id"], "complete", claimed["lease_id"])
    submit(conn, "failed once")
    (claimed,) = claim(conn)
    settle(conn, "failed once", "fail", claimed["lease_id"], p_messages=["no"])
    call(conn, "cancel_job", p_job_id="failed once", p_worker_id="me")
    number_jobs_from(conn, 9_999_999)
    clock.advance(60)
    while value(conn, "upkeep"):
        pass
    run_one(conn, "in the next part")
    return noon


def test_a_part_that_is_past_the_retention_goes_with_all_that_belongs_to_it(
    conn: Connection, clock: Clock, old: datetime
) -> None:
    clock.advance(3400)
    keep_up(conn, clock)
    assert FIRST in parts(conn)
    keep_up(conn, clock)
    keep_up(conn, clock)

    assert FIRST not in parts(conn)
    assert column(conn, "select job_id from holdfast.job_details") == ["in the next part"]
    assert column(conn, "select name from holdfast.job_names") == ["in the next part"]
    assert column(conn, "select message from holdfast.job_errors") == []
    assert set(column(conn, "select job_id from holdfast.jobs_trace")) == {"in the next part"}
    submit(conn, "named")  # its id is free again


def test_what_ends_after_its_part_is_gone_ends_in_the_rest(
    conn: Connection, clock: Clock, old: datetime
) -> None:
    number_jobs_from(conn, 500)
    run_one(conn, "dead", "fail", p_permanent=[True], p_messages=["no"])
    number_jobs_from(conn, 10_000_001)
    clock.advance(3600)
    keep_up(conn, clock)
    assert FIRST not in parts(conn)
    assert (state(conn, "dead"), len(job(conn, "dead")["errors"])) == ("DEAD", 1)
    call(conn, "cancel_job", p_job_id="dead", p_worker_id="me")
    assert (part_of(conn, "dead"), state(conn, "dead")) == (REST, "STOPPED")
    assert len(job(conn, "dead")["errors"]) == 1


def test_a_part_with_a_job_that_is_young_or_awaited_stays(
    conn: Connection, clock: Clock, old: datetime
) -> None:
    submit(conn, "child", p_wait_for=["failed once"], p_if_parent_fails="wait")
    clock.advance(3600)
    keep_up(conn, clock)
    assert FIRST in parts(conn)
    assert state(conn, "failed once") == "STOPPED"
    call(conn, "cancel_job", p_job_id="child", p_worker_id="me")
    number_jobs_from(conn, 700)
    run_one(conn, "young")
    number_jobs_from(conn, 10_000_002)
    keep_up(conn, clock)
    assert (FIRST in parts(conn), state(conn, "young")) == (True, "COMPLETED")
    clock.advance(3600)
    keep_up(conn, clock)
    assert FIRST not in parts(conn)


def test_dropping_a_part_does_not_wait_for_a_reader_nor_lets_others_wait(
    conn: Connection, connect: Connect, database: str, clock: Clock, old: datetime
) -> None:
    reader = connect(database, autocommit=False)
    reader.execute("select count(*) from holdfast.jobs_archive")
    clock.advance(3600)
    began = monotonic()
    keep_up(conn, clock)
    assert monotonic() - began < 10
    assert FIRST in parts(conn)
    run_one(conn, "meanwhile")
    reader.commit()
    keep_up(conn, clock)
    assert FIRST not in parts(conn)


def test_a_job_is_looked_up_in_one_part(conn: Connection, clock: Clock) -> None:
    number_jobs_from(conn, 80_000_000)
    keep_up(conn, clock)
    run_one(conn, "a")
    number = job(conn, "a")["number"]
    conn.execute("set plan_cache_mode = force_generic_plan")
    conn.execute("prepare looked_up (bigint) as select * from holdfast.archived_jobs where id = $1")
    plan = "\n".join(column(conn, f"explain execute looked_up ({number})"))
    assert f"Subplans Removed: {len(parts(conn))}" in plan
