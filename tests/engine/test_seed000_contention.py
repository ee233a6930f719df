"""Resource contention, as far as it is SQL: a busy resource postpones a job and costs it no attempt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from tests.clock import Clock
from tests.engine.sql import (
    Connection,
    call,
    claim,
    claim_one,
    events,
    job,
    settle,
    submit,
    submit_and_claim,
    trace,
    value,
)


def failed_once(conn: Connection) -> str:
    """A job that failed once and runs again; its lease."""
    submit(conn, "job", p_max_attempts=5)
    settle(conn, "job", "fail", claim_one(conn, "job"), p_messages=["first"])
    return claim_one(conn, "job")


def test_reschedule_changes_exactly_the_due_time_the_state_and_the_lease(
    conn: Connection, clock: Clock
) -> None:
    """TestStore_RescheduleJob_SQL."""
    now = clock.freeze()
    lease = failed_once(conn)
    before = job(conn, "job")
    due = now + timedelta(seconds=2)
    value(conn, "retry_later", p_job_id="job", p_available_at=due, p_lease_id=lease, p_reason="resource_busy")
    after = job(conn, "job")

    changed = {name: after[name] for name in after if after[name] != before[name]}
    assert changed == {
        "state": "RESCHEDULED",
        "status": "AWAITING_FUTURE",
        "available_at": due,
        "lease_id": None,
        "lease_expires_at": None,
    }


def test_reschedule_keeps_attempts_last_error_and_history(conn: Connection) -> None:
    lease = failed_once(conn)
    settle(conn, "job", "reschedule", lease, p_messages=["resource_busy"], p_delays=[0.0])

    found = job(conn, "job")
    assert (found["attempts"], found["last_error"], len(found["errors"])) == (1, "first", 1)


def test_reschedule_takes_a_moment_in_any_time_zone(conn: Connection, clock: Clock) -> None:
    submit_and_claim(conn, "job")
    elsewhere = timezone(timedelta(hours=9))
    due = datetime(2040, 1, 1, 12, 0, tzinfo=elsewhere)
    value(conn, "retry_later", p_job_id="job", p_available_at=due)

    assert job(conn, "job")["available_at"] == datetime(2040, 1, 1, 3, 0, tzinfo=UTC)


def test_a_rescheduled_job_may_be_postponed_any_number_of_times_and_still_has_its_last_attempt(
    conn: Connection,
) -> None:
    submit(conn, "job", p_max_attempts=1)
    for _ in range(20):
        settle(conn, "job", "reschedule", claim_one(conn, "job"), p_messages=["resource_busy"])

    assert claim(conn)[0]["attempts"] == 0


def test_other_errors_still_requeue_or_fail_and_count(conn: Connection) -> None:
    """TestWorker_OtherErrors_StillRequeueOrFail, the engine's half."""
    submit(conn, "job", p_max_attempts=3)
    claim_one(conn, "job")
    assert value(conn, "requeue_job", p_job_id="job", p_error="connection reset") == "FAILED_RETRY"
    assert job(conn, "job")["attempts"] == 1
    claim_one(conn, "job")
    assert value(conn, "fail_job", p_job_id="job", p_error="no route") == "FAILED_RETRY"
    claim_one(conn, "job")
    assert value(conn, "requeue_job", p_job_id="job", p_error="again") == "DEAD"

    found = job(conn, "job")
    assert found["attempts"] == 3
    assert [error["message"] for error in found["errors"]] == ["connection reset", "no route", "again"]


def test_requeue_takes_the_due_time_it_is_given(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    submit_and_claim(conn, "job")
    due = now + timedelta(minutes=1)
    value(conn, "requeue_job", p_job_id="job", p_available_at=due)

    assert job(conn, "job")["available_at"] == due


def test_the_trace_of_a_busy_job_names_the_reason_and_the_count_stays(conn: Connection) -> None:
    lease = submit_and_claim(conn, "job", worker="alice")
    settle(conn, "job", "reschedule", lease, p_messages=["resource_busy"])

    traced = trace(conn, "job", "reschedule_job")
    assert traced["input_data"] == {
        "operation": "reschedule",
        "lease_id": lease,
        "reason": "resource_busy",
    }
    assert (traced["worker_id"], traced["output_data"]["attempts"]) == ("alice", 0)
    assert events(conn) == ["reschedule_job"]


def test_a_reschedule_does_not_resurrect_a_finished_job(conn: Connection) -> None:
    settle(conn, "job", "complete", submit_and_claim(conn, "job"))

    assert value(conn, "retry_later", p_job_id="job") is False
    assert call(conn, "get_job", p_job_id="job")[0]["state"] == "COMPLETED"
