"""The history counts what ended, once, though ends are committed late and upkeep is called by many."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast.domain.history import BOUNDS_S
from tests.clock import Clock
from tests.conftest import Connect
from tests.engine.sql import call, claim, column, refusal, rows, settle, state, submit, value

Connection = psycopg.Connection[Any]

MINUTE = timedelta(minutes=1)
NOON = datetime.fromisoformat("2035-06-01T12:00:00+00:00")


@pytest.fixture
def noon(conn: Connection, clock: Clock) -> datetime:
    """Noon, and all before it counted."""
    clock.freeze(NOON)
    keep_up(conn)
    return NOON


def keep_up(conn: Connection) -> None:
    """As often as there is more to do: on a busy machine its time for one call is over sooner."""
    while value(conn, "upkeep"):
        pass


def run_one(
    conn: Connection, job_id: str, queue: str = "q", operation: str = "complete", **more: Any
) -> None:
    submit(conn, job_id, queue)
    (job,) = claim(conn, queue)
    settle(conn, job_id, operation, job["lease_id"], **more)


def ended(conn: Connection, queue: str = "") -> dict[datetime, tuple[int, int, int, int]]:
    """Completed, dead, cancelled and expired by the minute."""
    found = rows(conn, "select * from holdfast.history where queue = %s order by minute", queue)
    counts = {
        row["minute"]: (row["completed"], row["dead"], row["cancelled"], row["expired"]) for row in found
    }
    return {minute: count for minute, count in counts.items() if any(count)}


def test_what_ended_is_counted_by_minute_queue_and_ending(
    conn: Connection, clock: Clock, noon: datetime
) -> None:
    run_one(conn, "a", "mail")
    run_one(conn, "b", "print", "fail", p_permanent=[True], p_messages=["broken"])
    submit(conn, "c", "mail")
    call(conn, "cancel_job", p_job_id="c", p_worker_id="me")
    submit(conn, "d", "mail", p_expires_at=noon + timedelta(seconds=30))
    clock.advance(60)
    value(conn, "cancel_expired_jobs", p_older_than_seconds=0)
    run_one(conn, "e", "print")
    clock.advance(10)

    keep_up(conn)

    assert ended(conn, "mail") == {noon: (1, 0, 1, 0), noon + MINUTE: (0, 0, 0, 1)}
    assert ended(conn, "print") == {noon: (0, 1, 0, 0), noon + MINUTE: (1, 0, 0, 0)}
    assert ended(conn) == {noon: (1, 1, 1, 0), noon + MINUTE: (1, 0, 0, 1)}


def test_every_end_is_counted_once_however_often_upkeep_is_called(
    conn: Connection, clock: Clock, noon: datetime
) -> None:
    for second in range(240):
        run_one(conn, f"at {second}")
        keep_up(conn)
        clock.advance(1)
    clock.advance(120)
    keep_up(conn)
    assert ended(conn) == {noon + minute * MINUTE: (60, 0, 0, 0) for minute in range(4)}
    for counts in column(conn, "select waits from holdfast.history where queue = 'q' and completed > 0"):
        assert sum(counts) == 60


def test_an_end_that_is_committed_after_its_time_was_counted_is_not_lost(
    conn: Connection, connect: Connect, database: str, clock: Clock, noon: datetime
) -> None:
    slow = connect(database, autocommit=False)
    submit(conn, "late")
    (job,) = claim(conn)
    settle(slow, "late", "complete", job["lease_id"])
    run_one(conn, "in time")
    clock.advance(30)
    keep_up(conn)
    assert ended(conn) == {noon: (1, 0, 0, 0)}
    slow.commit()
    clock.advance(90)
    keep_up(conn)
    assert ended(conn) == {noon: (1, 0, 0, 0)}, "the minute has not been over for long enough"
    clock.advance(30)
    keep_up(conn)
    assert ended(conn) == {noon: (2, 0, 0, 0)}


def test_what_was_deleted_since_stays_in_the_history(conn: Connection, clock: Clock, noon: datetime) -> None:
    run_one(conn, "a")
    run_one(conn, "b")
    clock.advance(30)
    keep_up(conn)
    value(conn, "delete_jobs", p_job_ids=["a"])
    clock.advance(300)
    keep_up(conn)
    assert ended(conn) == {noon: (2, 0, 0, 0)}


def test_only_one_keeps_up_at_a_time_and_the_others_wait_for_nobody(
    conn: Connection, connect: Connect, database: str, clock: Clock, noon: datetime
) -> None:
    run_one(conn, "a")
    clock.advance(30)
    first = connect(database, autocommit=False)
    value(first, "upkeep")
    conn.execute("set statement_timeout = '5s'")
    assert value(conn, "upkeep") is False
    assert ended(conn) == {}
    first.commit()
    keep_up(conn)
    assert ended(conn) == {noon: (1, 0, 0, 0)}


def test_nothing_is_written_within_seconds_of_the_last_time(
    conn: Connection, clock: Clock, noon: datetime
) -> None:
    clock.advance(60)
    keep_up(conn)
    written = "select xmin::text from holdfast.upkeep_progress"
    before = column(conn, written)
    clock.advance(4.9)
    keep_up(conn)
    assert column(conn, written) == before
    clock.advance(5)
    keep_up(conn)
    assert column(conn, written) != before


def test_after_a_pause_the_history_is_made_up_for(conn: Connection, clock: Clock, noon: datetime) -> None:
    run_one(conn, "a")
    clock.advance(2 * 86400)
    run_one(conn, "b")
    clock.advance(86400)
    for _ in range(100):
        if not value(conn, "upkeep"):
            break
    else:
        pytest.fail("it never comes to an end")
    assert ended(conn) == {noon: (1, 0, 0, 0), noon + 2 * 1440 * MINUTE: (1, 0, 0, 0)}


def test_the_history_is_kept_for_a_week_and_a_silent_worker_for_a_day(
    conn: Connection, clock: Clock, noon: datetime
) -> None:
    run_one(conn, "a")
    value(conn, "report_worker", p_worker_id="w", p_queues=["q"], p_capacity=1)
    clock.advance(86400)
    keep_up(conn)
    assert column(conn, "select worker_id from holdfast.workers") == ["w"]
    clock.advance(60)
    keep_up(conn)
    assert column(conn, "select worker_id from holdfast.workers") == []
    clock.advance(6 * 86400 - 60)
    keep_up(conn)
    assert ended(conn) == {noon: (1, 0, 0, 0)}
    clock.advance(60)
    keep_up(conn)
    assert ended(conn) == {}


def test_lines_are_looked_at_once_a_minute(conn: Connection, clock: Clock, noon: datetime) -> None:
    submit(conn, "a", "mail")
    clock.advance(50)
    submit(conn, "b", "mail")
    submit(conn, "c", "print")
    clock.advance(15)
    keep_up(conn)
    look = "select queue, depth, oldest_s from holdfast.history where minute = %s order by queue"
    found = [tuple(row.values()) for row in rows(conn, look, noon + MINUTE)]
    assert found == [("", 3, 65.0), ("mail", 2, 65.0), ("print", 1, 15.0)]
    submit(conn, "d", "mail")
    clock.advance(20)
    keep_up(conn)
    assert [tuple(row.values()) for row in rows(conn, look, noon + MINUTE)] == found


def test_the_buckets_are_those_that_the_reader_of_quantiles_knows(conn: Connection) -> None:
    (bounds,) = column(conn, "select holdfast._history_bounds()")
    assert bounds == pytest.approx(list(BOUNDS_S), rel=1e-12)


@pytest.mark.parametrize("seconds", [0.0, 0.0005, 0.001, 0.5, 3.0, 3600.0, 86400.0 * 30])
def test_a_time_is_in_the_bucket_it_belongs_to(
    conn: Connection, clock: Clock, noon: datetime, seconds: float
) -> None:
    submit(conn, "a")
    clock.advance(seconds)
    (job,) = claim(conn, p_lease_seconds=1e8)
    clock.advance(2.0)
    settle(conn, "a", "complete", job["lease_id"])
    clock.advance(10)
    keep_up(conn)
    (found,) = rows(conn, "select waits, runs from holdfast.history where queue = 'q' and completed = 1")
    assert found["waits"].index(1) == sum(bound <= seconds for bound in BOUNDS_S)
    assert found["runs"].index(1) == sum(bound <= 2.0 for bound in BOUNDS_S)
    assert (sum(found["waits"]), sum(found["runs"]), len(found["waits"])) == (1, 1, 61)


def test_a_job_that_was_cancelled_while_it_waited_for_another_run_has_no_times(
    conn: Connection, clock: Clock, noon: datetime
) -> None:
    submit(conn, "a")
    (job,) = claim(conn)
    clock.advance(1)
    settle(conn, "a", "fail", job["lease_id"], p_messages=["no"], p_delays=[60])
    call(conn, "cancel_job", p_job_id="a", p_worker_id="me")
    clock.advance(10)
    keep_up(conn)
    (found,) = rows(conn, "select waits, runs from holdfast.history where queue = 'q' and cancelled = 1")
    assert (sum(found["waits"]), sum(found["runs"])) == (0, 0)


def test_steps_of_the_history_are_sums_of_its_minutes(conn: Connection, clock: Clock, noon: datetime) -> None:
    for minute in range(10):
        run_one(conn, f"job {minute}")
        clock.advance(60)
    keep_up(conn)
    steps = call(conn, "get_history", p_minutes=30, p_step_minutes=5, p_queue="q")
    assert [(step["at"], step["completed"], sum(step["waits"])) for step in steps] == [
        (noon, 5, 5),
        (noon + 5 * MINUTE, 5, 5),
    ]


def test_finished_jobs_are_kept_for_ever_unless_somebody_says_how_long(
    conn: Connection, clock: Clock, noon: datetime
) -> None:
    run_one(conn, "a")
    clock.advance(10 * 365 * 86400)
    keep_up(conn)
    assert (value(conn, "archive_retention"), state(conn, "a")) == (None, "COMPLETED")


def test_what_is_past_its_retention_is_deleted_with_all_that_belongs_to_it(
    conn: Connection, clock: Clock, noon: datetime
) -> None:
    value(conn, "set_archive_retention", p_seconds=3600)
    value(conn, "set_trace", p_enabled=True)
    run_one(conn, "old")
    submit(conn, "stopped")
    (job,) = claim(conn)
    settle(conn, "stopped", "fail", job["lease_id"], p_messages=["no"])
    call(conn, "cancel_job", p_job_id="stopped", p_worker_id="me")
    run_one(conn, "dead", operation="fail", p_permanent=[True], p_messages=["no"])
    clock.advance(1)
    run_one(conn, "young")
    clock.advance(1.5 * 3600 + 86400 - 0.5)
    keep_up(conn)
    tables = ("job_names", "job_errors", "jobs_trace")
    left = {table: rows(conn, f"select * from holdfast.{table}") for table in tables}
    assert column(conn, "select job_id from holdfast.job_details order by 1") == ["dead", "young"]
    assert {row["name"] for row in left["job_names"]} == {"dead", "young"}
    assert len(left["job_errors"]) == 1
    assert {row["job_id"] for row in left["jobs_trace"]} == {"dead", "young"}
    submit(conn, "old")  # its id is free again


def test_a_finished_job_that_a_live_one_waits_for_outlives_its_retention(
    conn: Connection, clock: Clock, noon: datetime
) -> None:
    value(conn, "set_archive_retention", p_seconds=60)
    submit(conn, "parent")
    call(conn, "cancel_job", p_job_id="parent", p_worker_id="me")
    submit(conn, "child", p_wait_for=["parent"], p_if_parent_fails="wait")
    clock.advance(2 * 86400)
    keep_up(conn)
    assert state(conn, "parent") == "UNSCHEDULED"


def test_much_that_is_past_its_retention_goes_in_chunks(
    conn: Connection, clock: Clock, noon: datetime
) -> None:
    value(conn, "set_archive_retention", p_seconds=60)
    call(conn, "submit_jobs", p_queues=["q"] * 12_000)
    jobs = claim(conn, limit=12_000)
    call(
        conn,
        "settle_jobs",
        p_job_ids=[job["job_id"] for job in jobs],
        p_operations=["complete"] * len(jobs),
        p_lease_ids=[job["lease_id"] for job in jobs],
    )
    clock.advance(2 * 86400)
    left: list[int] = []
    more = True
    while more:
        more = value(conn, "upkeep")
        left += column(conn, "select count(*) from holdfast.archived_jobs")
    assert left[-3:] == [7_000, 2_000, 0]
    assert ended(conn) == {noon: (12_000, 0, 0, 0)}, "counted before it was deleted"


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), 1e10])
def test_a_retention_that_cannot_be_is_refused(conn: Connection, seconds: float) -> None:
    assert refusal(value, conn, "set_archive_retention", p_seconds=seconds).sqlstate == "22023"
