"""A job that keeps losing its workers is set aside, until somebody says otherwise."""

from __future__ import annotations

import pytest

from tests.clock import Clock
from tests.engine.sql import (
    Connection,
    call,
    claim,
    claim_one,
    contents,
    job,
    refusal,
    settle,
    status,
    submit,
    submit_and_claim,
    value,
)

THRESHOLD = 5


def lapse(conn: Connection, clock: Clock, times: int = 1) -> None:
    """Let workers claim the job and vanish."""
    for _ in range(times):
        claim_one(conn, "job")
        clock.advance(31)
        assert len(call(conn, "lapse_leases")) == 1


def counts(conn: Connection) -> tuple[int, int]:
    found = job(conn, "job")
    return found["consecutive_expirations"], found["lease_expiration_count"]


def test_at_the_threshold_a_job_is_set_aside_and_not_before(conn: Connection, clock: Clock) -> None:
    submit(conn, "job")
    lapse(conn, clock, THRESHOLD - 1)
    assert (status(conn, "job"), counts(conn)) == ("READY", (4, 4))

    lapse(conn, clock)

    assert (status(conn, "job"), counts(conn)) == ("CRASH_CONCERN", (5, 5))
    assert claim(conn) == []


def test_a_lapse_costs_no_attempt(conn: Connection, clock: Clock) -> None:
    submit(conn, "job", p_max_attempts=1)
    lapse(conn, clock, 3)

    found = job(conn, "job")
    assert (found["attempts"], found["state"], found["errors"]) == (0, "UNKNOWN_RETRY", [])


def test_a_lapse_keeps_the_holder_and_the_lease_for_the_record(conn: Connection, clock: Clock) -> None:
    lease = submit_and_claim(conn, "job", worker="gone")
    before = job(conn, "job")
    clock.advance(31)
    call(conn, "lapse_leases")

    after = job(conn, "job")
    assert (after["lease_id"], after["assignee_id"]) == (lease, "gone")
    assert after["available_at"] == before["available_at"]  # its place in the line


def test_a_cleared_concern_lets_the_job_run_and_keeps_the_total(conn: Connection, clock: Clock) -> None:
    submit(conn, "job")
    lapse(conn, clock, THRESHOLD)

    assert value(conn, "clear_crash_concern", p_job_id="job", p_worker_id="person") is True

    assert (status(conn, "job"), counts(conn)) == ("READY", (0, 5))
    claim_one(conn, "job")


def test_clearing_says_whether_there_was_a_concern(conn: Connection, clock: Clock) -> None:
    submit(conn, "job")
    lapse(conn, clock, 2)
    before = contents(conn)

    assert value(conn, "clear_crash_concern", p_job_id="job", p_worker_id="person") is False
    assert contents(conn) == before
    error = refusal(value, conn, "clear_crash_concern", p_job_id="nobody", p_worker_id="person")
    assert error.sqlstate == "HF001"


@pytest.mark.parametrize("operation", ["fail", "requeue", "reschedule", "undelivered"])
def test_a_voluntary_hand_back_resets_the_streak_but_never_the_total(
    conn: Connection, clock: Clock, operation: str
) -> None:
    submit(conn, "job")
    lapse(conn, clock, 3)
    settle(conn, "job", operation, claim_one(conn, "job"), p_messages=["said"])
    assert counts(conn) == (0, 3)

    lapse(conn, clock, THRESHOLD - 1)

    assert (status(conn, "job"), counts(conn)) == ("READY", (4, 7))


def test_a_completion_resets_the_streak_but_never_the_total(conn: Connection, clock: Clock) -> None:
    submit(conn, "job")
    lapse(conn, clock, 3)
    settle(conn, "job", "complete", claim_one(conn, "job"))

    assert counts(conn) == (0, 3)


def test_a_late_completion_of_a_cancelled_job_resets_the_streak_too(conn: Connection, clock: Clock) -> None:
    submit(conn, "job")
    lapse(conn, clock, 2)
    lease = claim_one(conn, "job")
    call(conn, "cancel_job", p_job_id="job", p_worker_id="person")
    clock.advance(31)
    call(conn, "lapse_leases")
    assert (status(conn, "job"), counts(conn)) == ("UNKNOWN_STOPPED", (3, 3))

    settle(conn, "job", "complete", lease)

    assert counts(conn) == (0, 3)


def test_release_reset_and_an_unresponsive_worker_do_not_count(conn: Connection) -> None:
    value(conn, "set_crash_concern_threshold", p_threshold=1)
    submit(conn, "job")
    for function, arguments in [
        ("release_job", {"p_job_id": "job"}),
        ("reset_running_jobs", {}),
        ("mark_worker_unresponsive", {"p_worker_id": "w"}),
    ]:
        claim_one(conn, "job")
        assert value(conn, function, **arguments) in (True, 1)
        assert (job(conn, "job")["state"], counts(conn)) == ("UNKNOWN_RETRY", (0, 0))


def test_moving_a_set_aside_job_does_not_clear_the_concern(conn: Connection, clock: Clock) -> None:
    submit(conn, "job")
    lapse(conn, clock, THRESHOLD)

    call(conn, "reschedule_unheld_job", p_job_id="job", p_worker_id="person", p_next_need="q")

    assert (status(conn, "job"), claim(conn)) == ("CRASH_CONCERN", [])


def test_a_set_aside_job_can_be_completed_or_cancelled(conn: Connection, clock: Clock) -> None:
    value(conn, "set_crash_concern_threshold", p_threshold=1)
    submit(conn, "job")
    lapse(conn, clock)
    conn.execute("begin")
    value(conn, "complete_unheld_job", p_job_id="job", p_worker_id="person")
    assert status(conn, "job") == "COMPLETED"
    conn.execute("rollback")
    call(conn, "cancel_job", p_job_id="job", p_worker_id="person")

    assert status(conn, "job") == "STOPPED"


def test_a_late_result_is_taken_from_a_set_aside_job(conn: Connection, clock: Clock) -> None:
    value(conn, "set_crash_concern_threshold", p_threshold=1)
    lease = submit_and_claim(conn, "job")
    clock.advance(31)
    call(conn, "lapse_leases")
    assert status(conn, "job") == "CRASH_CONCERN"

    assert settle(conn, "job", "complete", lease)["ok"]


def test_the_threshold_is_a_setting_in_force_at_once(conn: Connection, clock: Clock) -> None:
    assert value(conn, "crash_concern_threshold") == THRESHOLD
    submit(conn, "job")
    lapse(conn, clock, 2)
    assert value(conn, "set_crash_concern_threshold", p_threshold=2) == 2
    assert (status(conn, "job"), claim(conn)) == ("CRASH_CONCERN", [])

    value(conn, "set_crash_concern_threshold", p_threshold=3)

    assert status(conn, "job") == "READY"


def test_every_claim_sweeps_the_overdue_leases_of_any_queue(conn: Connection, clock: Clock) -> None:
    submit_and_claim(conn, "job", queue="elsewhere")
    submit(conn, "other")
    clock.advance(31)

    call(conn, "get_work", p_worker_id="w", p_worker_caps=["q"])

    assert job(conn, "job")["state"] == "UNKNOWN_RETRY"


def test_a_claim_takes_what_its_own_sweep_put_back_in_line(conn: Connection) -> None:
    submit_and_claim(conn, "job", p_priority=5)
    submit(conn, "other")
    conn.execute("update holdfast.jobs set lease_expires_at = now() where state = 'RUNNING'")

    assert [row["job_id"] for row in claim(conn, limit=2)] == ["job", "other"]


def test_a_claim_may_leave_the_sweep_to_others(conn: Connection, clock: Clock) -> None:
    submit_and_claim(conn, "job")
    clock.advance(31)

    assert claim(conn, p_sweep=False) == []
    assert job(conn, "job")["state"] == "RUNNING"
    claim_one(conn, "job")
