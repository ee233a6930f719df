"""Cancel against complete against lapse, in every order of commit: a job ends once, and stays ended."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from tests.clock import Clock
from tests.concurrency.sessions import Session, answer
from tests.engine.sql import (
    Connection,
    call,
    claim,
    job,
    refusal,
    rows,
    settle,
    state,
    submit_and_claim,
    undone,
)

Change = Callable[[Connection, str], object]


def cancel(conn: Connection, lease: str) -> object:
    return call(conn, "cancel_jobs", p_job_ids=["job"])


def complete(conn: Connection, lease: str) -> object:
    return settle(conn, "job", "complete", lease)


def fail(conn: Connection, lease: str) -> object:
    return settle(conn, "job", "fail", lease, p_messages=["boom"])


def lapse(conn: Connection, lease: str) -> object:
    return call(conn, "lapse_leases")


# What three changes, committed in this order, make of a running job whose lease is overdue.
ENDS: dict[tuple[Change, ...], str] = {
    (cancel, complete, lapse): "COMPLETED",
    (cancel, lapse, complete): "COMPLETED",  # nobody knew what the worker did; now it says
    (complete, cancel, lapse): "COMPLETED",
    (complete, lapse, cancel): "COMPLETED",
    (lapse, complete, cancel): "COMPLETED",
    (lapse, cancel, complete): "STOPPED",
    (cancel, fail, lapse): "UNKNOWN_STOPPED",
    (cancel, lapse, fail): "UNKNOWN_STOPPED",
    (fail, cancel, lapse): "STOPPED",
    (fail, lapse, cancel): "STOPPED",
    (lapse, fail, cancel): "STOPPED",
    (lapse, cancel, fail): "STOPPED",
}


def test_every_order_is_tried() -> None:
    assert set(ENDS) == {*permutations((cancel, complete, lapse)), *permutations((cancel, fail, lapse))}


def test_cancel_complete_and_lapse_one_after_the_other_leave_one_finished_state(
    conn: Connection, clock: Clock
) -> None:
    lease = submit_and_claim(conn, "job")
    clock.advance(31)

    for order, ending in ENDS.items():
        with undone(conn):
            for change in order:
                change(conn, lease)
            assert_ended_once(conn, ending)


@pytest.mark.parametrize("order", ENDS, ids=lambda order: "-".join(change.__name__ for change in order))
def test_cancel_complete_and_lapse_at_the_same_time_leave_one_finished_state(
    conn: Connection, clock: Clock, first: Session, second: Session, order: tuple[Change, ...]
) -> None:
    lease = submit_and_claim(conn, "job")
    clock.advance(31)
    opening, following, last = order
    first.begin()
    opening(first.conn, lease)

    if following is lapse:  # a sweep never waits: it leaves a busy job to the next sweep
        with second.impatient():
            following(second.conn, lease)
        first.commit()
        following(second.conn, lease)
    else:
        waiting = second.start_blocked(lambda conn: following(conn, lease))
        first.commit()
        answer(waiting)
    last(second.conn, lease)

    assert_ended_once(conn, ENDS[order])


def assert_ended_once(conn: Connection, ending: str) -> None:
    assert state(conn, "job") == ending
    assert rows(conn, "select from holdfast.jobs") == []
    assert len(rows(conn, "select from holdfast.archived_jobs")) == 1
    assert claim(conn) == []  # no retry after a cancel
    assert job(conn, "job")["finalized_at"] is not None


def test_a_cancel_that_waited_for_a_completion_says_how_the_job_ended(
    conn: Connection, first: Session, second: Session
) -> None:
    lease = submit_and_claim(conn, "job")
    first.begin()
    complete(first.conn, lease)

    waiting = second.start_blocked(lambda conn: call(conn, "cancel_job", p_job_id="job", p_worker_id="w"))
    first.commit()
    error = refusal(lambda: answer(waiting))

    assert error.sqlstate == "HF003"
    assert 'job "job" is COMPLETED' in str(error)


def test_a_failure_that_waited_for_a_cancel_is_refused_and_the_job_not_retried(
    conn: Connection, first: Session, second: Session
) -> None:
    lease = submit_and_claim(conn, "job")
    first.begin()
    cancel(first.conn, lease)

    waiting = second.start_blocked(lambda conn: fail(conn, lease))
    first.commit()

    assert answer(waiting) == {
        "job_id": "job",
        "ok": False,
        "state": "CANCELLING",
        "reason": "wrong_state",
    }
    assert settle(conn, "job", "stop_with_retry", lease, p_messages=["boom"])["state"] == "STOPPED"


def test_two_sweeps_at_once_let_each_lease_lapse_once(
    conn: Connection, clock: Clock, first: Session, second: Session
) -> None:
    for number in range(6):
        submit_and_claim(conn, f"job-{number}")
    clock.advance(31)
    first.begin()
    swept = call(first.conn, "lapse_leases", p_limit=3)

    with second.impatient():
        others = call(second.conn, "lapse_leases")
    first.commit()

    assert len(swept) == len(others) == 3
    assert call(second.conn, "lapse_leases") == []
    counted = rows(conn, "select lease_expiration_count, consecutive_expirations from holdfast.jobs")
    assert counted == [{"lease_expiration_count": 1, "consecutive_expirations": 1}] * 6


def test_an_extension_does_not_wait_for_a_job_that_somebody_is_changing(
    conn: Connection, clock: Clock, first: Session, second: Session
) -> None:
    """One settle in an open transaction must not let all other leases of a worker lapse."""
    leases = {name: submit_and_claim(conn, name, queue=name) for name in ("changing", "other")}
    first.begin()
    settle(first.conn, "changing", "complete", leases["changing"])

    clock.advance(29)
    with second.impatient():
        answers = call(
            second.conn,
            "extend_leases",
            p_job_ids=list(leases),
            p_lease_ids=list(leases.values()),
            p_seconds=60,
        )
    clock.advance(10)
    first.commit()

    assert [row["verdict"] for row in answers] == ["extended", "extended"]
    assert call(conn, "lapse_leases") == []
    assert (state(conn, "changing"), state(conn, "other")) == ("COMPLETED", "RUNNING")


def test_an_extension_of_a_lease_that_has_lapsed_meanwhile_does_not_revive_it(
    conn: Connection, clock: Clock, first: Session, second: Session
) -> None:
    lease = submit_and_claim(conn, "job")
    first.begin()
    call(first.conn, "report_progress", p_job_id="job", p_lease_id=lease, p_done=1)
    clock.advance(31)

    (answered,) = call(second.conn, "extend_leases", p_job_ids=["job"], p_lease_ids=[lease], p_seconds=60)
    first.commit()

    assert answered["verdict"] == "lapsed"


def test_a_sweep_that_races_an_extension_leaves_the_extended_lease_alone(
    conn: Connection, clock: Clock, first: Session, second: Session
) -> None:
    lease = submit_and_claim(conn, "job")
    first.begin()
    call(first.conn, "extend_leases", p_job_ids=["job"], p_lease_ids=[lease], p_seconds=600)
    clock.advance(31)

    with second.impatient():
        assert call(second.conn, "lapse_leases") == []
    first.commit()

    assert call(second.conn, "lapse_leases") == []
    assert state(conn, "job") == "RUNNING"
