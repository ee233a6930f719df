"""The machine bites: each of these mistakes in the engine is found within a few random lives."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.sql import Connection, rows
from tests.model.machine import Machine

MISTAKES = {
    "settling under any lease": (
        "_settle",
        "coalesce(job.lease_id::text = wish.lease_id, false)",
        "true",
    ),
    "counting an attempt at the claim": (
        "claim_jobs",
        "set state = 'RUNNING',",
        "set state = 'RUNNING', attempts = job.attempts + 1,",
    ),
    "keeping what a lapsed lease held": (
        "_hand_back_locked_jobs",
        "filter (where back.had_holds)",
        "filter (where back.had_holds and back.operation <> 'lapse')",
    ),
    "cancelling without the children": (
        "_effect_on_child",
        "else 'cancel'",
        "else null",
    ),
    "shortening a lease": (
        "extend_leases",
        "lease_expires_at = greatest(job.lease_expires_at, v_now + p_seconds * interval '1 second')",
        "lease_expires_at = v_now + p_seconds * interval '1 second'",
    ),
}


def test_the_machine_finds_nothing_where_nothing_is_wrong(conn: Connection) -> None:
    _run(conn, examples=2)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(conn: Connection, mistake: str) -> None:
    _plant(conn, *MISTAKES[mistake])

    with pytest.raises((AssertionError, psycopg.Error)):
        _run(conn, examples=300)


def _plant(conn: Connection, function: str, right: str, wrong: str) -> None:
    (row,) = rows(
        conn,
        "select pg_get_functiondef(oid) as body from pg_proc "
        "where proname = %s and pronamespace = 'holdfast'::regnamespace",
        function,
    )
    assert row["body"].count(right) == 1
    conn.execute(row["body"].replace(right, wrong))


def _run(conn: Connection, *, examples: int) -> None:
    class OfThisDatabase(Machine):
        pass

    OfThisDatabase.conn = conn
    run_state_machine_as_test(
        OfThisDatabase,
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
