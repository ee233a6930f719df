"""The repository functions, as their worked examples tell them: acquire, release, retry, list stuck."""

from __future__ import annotations

from datetime import timedelta

from tests.clock import Clock
from tests.engine.sql import (
    Connection,
    call,
    claim,
    claim_one,
    contents,
    job,
    settle,
    state,
    submit,
    value,
)

LOCK_S = 30


def acquire_next(conn: Connection, worker: str) -> str | None:
    claimed = claim(conn, "email", worker, p_lease_seconds=LOCK_S)
    return claimed[0]["job_id"] if claimed else None


def two_emails(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    submit(conn, "second", "email", p_available_at=now - timedelta(seconds=30))
    submit(conn, "first", "email", p_available_at=now - timedelta(seconds=90))


def stuck(conn: Connection, seconds: float, **more: object) -> list[str]:
    return [row["job_id"] for row in call(conn, "list_stuck_jobs", p_stale_seconds=seconds, **more)]


def test_acquire_next_takes_the_earliest_due_job_then_the_smallest_id(conn: Connection, clock: Clock) -> None:
    two_emails(conn, clock)
    assert acquire_next(conn, "1") == "first"
    assert acquire_next(conn, "2") == "second"
    assert acquire_next(conn, "3") is None

    found = job(conn, "first")
    assert (found["state"], found["assignee_id"], found["assigned_at"]) == ("RUNNING", "1", clock.now())


def test_acquire_next_takes_only_its_queue_and_only_what_is_due(conn: Connection) -> None:
    submit(conn, "other", "reports")
    submit(conn, "later", "email", p_delay=60)

    assert acquire_next(conn, "1") is None


def test_a_lock_older_than_its_duration_is_taken_over(conn: Connection, clock: Clock) -> None:
    """The scenario of the crashed worker: locked at 09:59:00 for 30 s, free again at 09:59:30."""
    two_emails(conn, clock)
    acquire_next(conn, "1")
    clock.advance(LOCK_S - 0.001)
    assert acquire_next(conn, "2") == "second"
    clock.advance(0.001)

    assert acquire_next(conn, "2") == "first"
    assert job(conn, "first")["attempts"] == 0


def test_release_puts_a_job_back_for_any_worker(conn: Connection, clock: Clock) -> None:
    two_emails(conn, clock)
    acquire_next(conn, "1")

    assert value(conn, "release_job", p_job_id="first") is True

    assert state(conn, "first") == "UNKNOWN_RETRY"
    assert acquire_next(conn, "2") == "first"


def test_release_and_retry_later_of_what_is_not_running_are_silent_and_change_nothing(
    conn: Connection, clock: Clock
) -> None:
    submit(conn, "waiting", "email")
    settle(conn, "done", "complete", _claimed(conn, "done"))
    before = contents(conn)

    for job_id in ("waiting", "done", "nobody"):
        assert value(conn, "release_job", p_job_id=job_id) is False
        assert value(conn, "retry_later", p_job_id=job_id, p_delay=5) is False

    assert contents(conn) == before


def _claimed(conn: Connection, job_id: str) -> str:
    submit(conn, job_id, "once")
    return claim_one(conn, job_id, "once")


def test_retry_later_hides_the_job_until_then_without_an_attempt(conn: Connection, clock: Clock) -> None:
    two_emails(conn, clock)
    acquire_next(conn, "1")
    value(conn, "retry_later", p_job_id="first", p_available_at=clock.now() + timedelta(minutes=2))
    assert acquire_next(conn, "2") == "second"

    clock.advance(119)
    assert "first" not in {acquire_next(conn, "3"), acquire_next(conn, "3")}
    clock.advance(1)

    assert acquire_next(conn, "2") == "first"
    assert job(conn, "first")["attempts"] == 0


def test_list_stuck_jobs_finds_those_locked_before_the_cutoff(conn: Connection, clock: Clock) -> None:
    """Ten minutes' staleness at 10:00: locked at 09:45 is stuck, locked at 09:50 and later is not."""
    clock.freeze()
    for name, minutes in [("09:45", 5), ("09:50", 10), ("10:00", 0)]:
        submit(conn, name, "email")
        claim(conn, "email", "3", p_lease_seconds=3600)
        clock.advance(minutes * 60)

    assert stuck(conn, 600) == ["09:45"]
    assert stuck(conn, 599) == ["09:45", "09:50"]
    assert stuck(conn, 1, p_limit=1) == ["09:45"]


def test_a_worker_that_extends_its_lease_is_not_stuck(conn: Connection, clock: Clock) -> None:
    clock.freeze()
    lease = _claimed(conn, "job")
    clock.advance(20)
    call(conn, "extend_leases", p_job_ids=["job"], p_lease_ids=[lease], p_seconds=60)
    clock.advance(20)

    assert (stuck(conn, 30), stuck(conn, 15)) == ([], ["job"])


def test_a_reaper_rescues_stuck_jobs(conn: Connection, clock: Clock) -> None:
    """AcquireNext → crash; ListStuckJobs → Release → AcquireNext."""
    clock.freeze()
    submit(conn, "job", "email")
    claim(conn, "email", "3", p_lease_seconds=3600)
    clock.advance(15 * 60)
    for job_id in stuck(conn, 600):
        value(conn, "release_job", p_job_id=job_id)

    assert stuck(conn, 600) == []
    assert acquire_next(conn, "4") == "job"


def test_a_reaper_that_names_the_lease_does_not_take_a_job_from_its_new_holder(
    conn: Connection, clock: Clock
) -> None:
    old = _claimed(conn, "job")
    clock.advance(31)
    claim_one(conn, "job", "once", "next")

    assert value(conn, "release_job", p_job_id="job", p_lease_id=old) is False
    assert value(conn, "release_job", p_job_id="job", p_worker_id="w") is False
    assert job(conn, "job")["assignee_id"] == "next"
