"""The doctor finds what is wrong, says what to do, and is quiet about what is not."""

from __future__ import annotations

from dataclasses import replace
from time import time
from typing import Any

import psycopg
import pytest
from psycopg import IsolationLevel

from holdfast.console import doctor, run
from holdfast.console.doctor import Finding, Level, checkup, of_connection
from holdfast.domain.job import NewJob
from holdfast.store.calls import watching
from holdfast.store.calls.watching import TableHealth
from tests.clock import Clock
from tests.conftest import Connect
from tests.console.conftest import Shop
from tests.pgbouncer import PgBouncer

# What servers of tests are like, and what nothing is done about.
OF_TESTS = {("durability", Level.PROBLEM), ("vacuum", Level.PROBLEM)}


def found(shop: Shop, tasks: list[str] | None = None) -> dict[str, Finding]:
    """The findings that are not fine, without those of every test."""
    answer = run(shop.app, checkup("holdfast", tasks))
    return {
        each.check: each
        for each in answer
        if each.level is not Level.OK and (each.check, each.level) not in OF_TESTS
    }


def test_an_installation_at_rest_has_nothing_wrong(shop: Shop) -> None:
    assert found(shop) == {}


def test_what_servers_of_tests_lack_is_found(shop: Shop) -> None:
    answer = run(shop.app, checkup("holdfast"))
    said = {(each.check, each.says.partition(":")[0]) for each in answer if each.level is Level.PROBLEM}
    assert said == {("durability", "fsync is off"), ("vacuum", "autovacuum does not run")}


def test_every_problem_has_a_remedy(shop: Shop, clock: Clock) -> None:
    shop.running("busy", worker="o'brien")
    shop.submit("waits", queue="it's")
    clock.advance(3600)
    for finding in run(shop.app, checkup("holdfast", [])):
        assert (finding.fix is None) == (finding.level is Level.OK), finding


def test_leases_that_nobody_took_back_are_found(shop: Shop, clock: Clock) -> None:
    shop.running("busy", worker="ann")
    clock.advance(59)
    assert "workers" not in found(shop)
    clock.advance(300)
    problem = found(shop)["workers"]
    assert problem.level is Level.PROBLEM
    assert "ann is gone with 1 job whose lease lapsed" in problem.says


def test_a_worker_that_holds_a_job_in_silence_is_found(shop: Shop, clock: Clock) -> None:
    shop.store.submit_jobs([NewJob(job_id="slow", queue="now")])
    shop.store.claim_jobs("o'brien", ["now"], 1, lease_s=86_400)
    clock.advance(1000)
    problem = found(shop)["stuck jobs"]
    assert "o'brien holds slow, and has not extended the lease" in problem.says
    assert problem.fix is not None
    assert problem.fix.endswith("select holdfast.mark_worker_unresponsive('o''brien')")


def test_a_queue_that_nobody_serves_is_found_and_a_paused_one_noted(shop: Shop, clock: Clock) -> None:
    shop.submit("a", queue="it's mail")
    shop.submit("b", queue="still")
    shop.store.pause_queue("still")
    assert "queues" in found(shop)  # paused
    clock.advance(301)
    answer = [each for each in run(shop.app, checkup("holdfast")) if each.check == "queues"]
    unserved, paused = answer
    assert unserved.level is Level.PROBLEM
    assert 'nobody works on "it\'s mail": 1 due' in unserved.says
    assert """--queue 'it'"'"'s mail=10'""" in str(unserved.fix)
    assert (paused.level, '"still" has been paused' in paused.says) == (Level.NOTE, True)


def test_dead_letters_are_noted(shop: Shop) -> None:
    shop.dead("a", "b")
    note = found(shop)["dead letters"]
    assert (note.level, note.says) == (Level.NOTE, '2 in "once"')


def test_jobs_that_were_set_aside_are_found(shop: Shop, clock: Clock) -> None:
    shop.store.set_crash_concern_threshold(1)
    shop.running("killer")
    clock.advance(100)
    shop.store.lapse_leases()
    assert found(shop)["crash concern"].says.startswith("1 job set aside")


def test_jobs_that_expired_are_noted(shop: Shop, clock: Clock) -> None:
    shop.submit("late", expires_at=clock.freeze())
    assert found(shop)["expired"].level is Level.NOTE


def test_tasks_that_the_app_does_not_know_are_found(shop: Shop) -> None:
    shop.submit("a", task="shop.gone")
    shop.submit("b", task="shop.here")
    assert found(shop)["tasks"].says == "not checked"
    assert found(shop, ["shop.here"])["tasks"].says.startswith('1 job in line for "shop.gone"')
    assert found(shop, ["shop.here", "shop.gone"]) == {}


def test_long_transactions_are_found(
    shop: Shop, database: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LONG_S", 0.05)
    elsewhere = connect(database, autocommit=False, application_name="report")
    elsewhere.isolation_level = IsolationLevel.REPEATABLE_READ
    elsewhere.execute("select pg_sleep(0.1) from holdfast.settings")
    problem = found(shop)["transactions"]
    assert f"session {elsewhere.info.backend_pid}" in problem.says
    assert "report" in problem.says
    assert "keeps old rows" in problem.says
    elsewhere.rollback()
    assert "transactions" not in found(shop)


@pytest.mark.parametrize(
    ("live", "dead", "level"),
    [(10, 50_001, Level.PROBLEM), (10, 50_000, Level.OK), (40_000, 70_000, Level.OK)],
)
def test_a_table_full_of_dead_rows_is_found(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, live: int, dead: int, level: Level
) -> None:
    # The server counts rows when it gets round to it, so the numbers are made up.
    real = watching.table_health()
    made_up = replace(real, parse=lambda rows: [TableHealth("jobs", live, dead, None, None)])
    monkeypatch.setattr(watching, "table_health", lambda: made_up)
    (finding,) = [each for each in run(shop.app, checkup("holdfast")) if each.says.startswith("jobs has ")]
    assert finding.level is level


def test_a_clock_that_differs_is_found(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "time", lambda: time() - 60)
    assert found(shop)["clock"].says.startswith("the database is 60")


def test_a_check_that_is_not_allowed_stops_no_other(shop: Shop, conn: psycopg.Connection[Any]) -> None:
    conn.execute("alter function holdfast.list_stuck_jobs rename to moved")
    answer = run(shop.app, checkup("holdfast"))
    assert [each.check for each in answer if "could not be checked" in each.says] == ["workers"]
    assert "queues" in {each.check for each in answer}


def test_a_pooler_is_noticed(database: str, pgbouncer: PgBouncer, connect: Connect) -> None:
    def level(dsn: str) -> Level:
        (finding,) = [each for each in of_connection(connect(dsn)) if each.check == "pooler"]
        return finding.level

    assert level(database) is Level.OK
    assert level(pgbouncer.dsn(database)) is Level.NOTE
