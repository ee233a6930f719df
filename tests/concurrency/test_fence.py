"""A holder that has lost its job may say what it likes: nothing changes, and it is told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg.types.json import Jsonb

from tests.clock import Clock
from tests.concurrency.sessions import Session, answer
from tests.engine.sql import (
    Connection,
    call,
    claim,
    claim_one,
    contents,
    job,
    refusal,
    settle,
    state,
    submit,
    submit_and_claim,
    undone,
    value,
)

LEASE_LOST = "HF004"
OPERATIONS = [
    "complete",
    "fail",
    "requeue",
    "reschedule",
    "release",
    "undelivered",
    "undelivered_to_worker",
    "stop",
    "stop_with_retry",
    "mark_unknown_stopped",
    "acknowledge",
    "acknowledge_not_executing",
]

Lose = Callable[[Connection, Clock], str]


def taken_over(conn: Connection, clock: Clock) -> str:
    """The lease lapsed and another worker claimed the job."""
    lease = held(conn)
    clock.advance(31)
    assert claim_one(conn, "job", worker="other") != lease
    return lease


def taken_over_by_itself(conn: Connection, clock: Clock) -> str:
    """The same worker claimed the job again, so that only the lease tells its two selves apart."""
    lease = held(conn)
    clock.advance(31)
    claim_one(conn, "job")
    return lease


def taken_over_and_cancelling(conn: Connection, clock: Clock) -> str:
    lease = taken_over(conn, clock)
    call(conn, "cancel_job", p_job_id="job", p_worker_id="person")
    return lease


def handed_back(conn: Connection, clock: Clock) -> str:
    lease = held(conn)
    assert settle(conn, "job", "reschedule", lease)["ok"]
    return lease


def failed(conn: Connection, clock: Clock) -> str:
    lease = held(conn)
    assert settle(conn, "job", "fail", lease, p_messages=["first"])["ok"]
    return lease


def dead(conn: Connection, clock: Clock) -> str:
    lease = held(conn)
    assert settle(conn, "job", "fail", lease, p_messages=["first"], p_permanent=[True])["ok"]
    return lease


def completed_by_another(conn: Connection, clock: Clock) -> str:
    lease = held(conn)
    clock.advance(31)
    settle(conn, "job", "complete", claim_one(conn, "job", worker="other"))
    return lease


def held(conn: Connection) -> str:
    submit(conn, "child", p_wait_for=[submit(conn, "job", p_singleton_key="k")["job_id"]])
    return claim_one(conn, "job")


LOST: list[Lose] = [
    taken_over,
    taken_over_by_itself,
    taken_over_and_cancelling,
    handed_back,
    failed,
    dead,
    completed_by_another,
]


@pytest.mark.parametrize("lose", LOST)
def test_a_holder_that_lost_its_job_settles_as_often_as_it_likes_and_changes_nothing(
    conn: Connection, clock: Clock, lose: Lose
) -> None:
    lease = lose(conn, clock)
    before = contents(conn)

    for operation in OPERATIONS * 2:
        verdict = settle(conn, "job", operation, lease, p_messages=["late"], p_worker_id="w")
        assert (verdict["ok"], verdict["reason"]) == (False, "lease_lost"), operation

    assert contents(conn) == before


@pytest.mark.parametrize("lose", LOST)
def test_a_holder_that_lost_its_job_learns_it_in_a_batch_without_harm_to_the_rest(
    conn: Connection, clock: Clock, lose: Lose
) -> None:
    lease = lose(conn, clock)
    other = submit_and_claim(conn, "other", queue="elsewhere")
    before = job(conn, "job")

    verdicts = call(
        conn,
        "settle_jobs",
        p_job_ids=["job", "other"],
        p_operations=["complete", "complete"],
        p_lease_ids=[lease, other],
    )

    assert [(row["job_id"], row["ok"], row["reason"]) for row in verdicts] == [
        ("job", False, "lease_lost"),
        ("other", True, "settled"),
    ]
    assert job(conn, "job") == before


Act = Callable[[Connection, str], object]

REFUSED: dict[str, Act] = {
    "complete_job": lambda conn, lease: call(
        conn, "complete_job", p_job_id="job", p_lease_id=lease, p_worker_id="w"
    ),
    "reschedule_job": lambda conn, lease: call(
        conn, "reschedule_job", p_job_id="job", p_lease_id=lease, p_worker_id="w", p_next_need="z"
    ),
    "extend_lease": lambda conn, lease: call(
        conn, "extend_lease", p_job_id="job", p_lease_id=lease, p_worker_id="w"
    ),
    "acquire_resources": lambda conn, lease: call(
        conn, "acquire_resources", p_job_id="job", p_keys=["r"], p_lease_id=lease
    ),
    "fail_job": lambda conn, lease: call(conn, "fail_job", p_job_id="job", p_error="x", p_lease_id=lease),
    "requeue_job": lambda conn, lease: call(conn, "requeue_job", p_job_id="job", p_lease_id=lease),
    "stop_job": lambda conn, lease: call(conn, "stop_job", p_job_id="job", p_lease_id=lease),
    "stop_job_with_retry": lambda conn, lease: call(
        conn, "stop_job_with_retry", p_job_id="job", p_lease_id=lease
    ),
    "mark_job_unknown_stopped": lambda conn, lease: call(
        conn, "mark_job_unknown_stopped", p_job_id="job", p_lease_id=lease
    ),
    "acknowledge_cancellation": lambda conn, lease: call(
        conn, "acknowledge_cancellation", p_job_id="job", p_was_executing=True, p_lease_id=lease
    ),
}


@pytest.mark.parametrize("lose", [taken_over, taken_over_and_cancelling, handed_back, failed])
def test_every_verb_of_a_holder_that_lost_its_job_is_refused_and_changes_nothing(
    conn: Connection, clock: Clock, lose: Lose
) -> None:
    lease = lose(conn, clock)
    before = contents(conn)

    refused = {verb: refusal(act, conn, lease).sqlstate for verb, act in REFUSED.items()}

    assert set(refused.values()) == {LEASE_LOST}, refused
    assert contents(conn) == before


@pytest.mark.parametrize("lose", LOST)
def test_a_holder_that_lost_its_job_gets_a_quiet_no_from_the_verbs_that_answer_one(
    conn: Connection, clock: Clock, lose: Lose
) -> None:
    lease = lose(conn, clock)
    before = contents(conn)

    for _ in range(2):
        assert value(conn, "release_job", p_job_id="job", p_lease_id=lease) is False
        assert value(conn, "retry_later", p_job_id="job", p_lease_id=lease) is False
        assert value(conn, "report_progress", p_job_id="job", p_lease_id=lease, p_done=1) is False
        assert value(conn, "release_resources", p_job_id="job", p_lease_id=lease) == 0

    assert contents(conn) == before


@pytest.mark.parametrize(
    ("lose", "verdict"),
    [
        (taken_over, "taken"),
        (taken_over_by_itself, "taken"),
        (taken_over_and_cancelling, "taken"),
        (handed_back, "taken"),
        (failed, "taken"),
        (completed_by_another, "taken"),
    ],
)
def test_a_keeper_learns_that_its_job_is_gone(
    conn: Connection, clock: Clock, lose: Lose, verdict: str
) -> None:
    lease = lose(conn, clock)
    before = contents(conn)

    (answered,) = call(conn, "extend_leases", p_job_ids=["job"], p_lease_ids=[lease], p_seconds=60)

    assert answered["verdict"] == verdict
    assert contents(conn) == before


def lapsed_unswept(conn: Connection, clock: Clock) -> str:
    lease = submit_and_claim(conn, "job")
    clock.advance(31)
    return lease


def lapsed_and_swept(conn: Connection, clock: Clock) -> str:
    lease = lapsed_unswept(conn, clock)
    assert call(conn, "lapse_leases") == [{"job_id": "job", "state": "UNKNOWN_RETRY"}]
    return lease


LATE_RESULTS = {
    "complete": "COMPLETED",
    "fail": "FAILED_RETRY",
    "stop": "STOPPED",
    "mark_unknown_stopped": "UNKNOWN_STOPPED",
}


@pytest.mark.parametrize("lapse", [lapsed_unswept, lapsed_and_swept])
def test_a_lapsed_job_nobody_claimed_still_takes_its_holders_late_result(
    conn: Connection, clock: Clock, lapse: Lose
) -> None:
    lease = lapse(conn, clock)

    for operation, ends in LATE_RESULTS.items():
        with undone(conn):
            verdict = settle(conn, "job", operation, lease, p_messages=["late"])
            assert (verdict["ok"], verdict["state"], state(conn, "job")) == (True, ends, ends)


@pytest.mark.parametrize("lapse", [lapsed_unswept, lapsed_and_swept])
def test_the_leased_functions_refuse_a_lapsed_lease_even_before_the_sweep(
    conn: Connection, clock: Clock, lapse: Lose
) -> None:
    lease = lapse(conn, clock)
    before = contents(conn)

    for verb in ("complete_job", "reschedule_job", "extend_lease"):
        assert refusal(REFUSED[verb], conn, lease).sqlstate == LEASE_LOST, verb

    assert contents(conn) == before


@pytest.mark.parametrize("lapse", [lapsed_unswept, lapsed_and_swept])
def test_a_keeper_learns_that_its_lease_lapsed_and_cannot_revive_it(
    conn: Connection, clock: Clock, lapse: Lose
) -> None:
    lease = lapse(conn, clock)
    before = contents(conn)

    (answered,) = call(conn, "extend_leases", p_job_ids=["job"], p_lease_ids=[lease], p_seconds=60)

    assert answered["verdict"] == "lapsed"
    assert contents(conn) == before


def test_a_late_result_that_races_the_next_claim_is_taken_or_refused_but_never_both(
    conn: Connection, clock: Clock, first: Session, second: Session
) -> None:
    lease = lapsed_and_swept(conn, clock)
    first.begin()
    next_lease = claim_one(first.conn, "job", worker="other")

    late = second.start_blocked(lambda conn: settle(conn, "job", "complete", lease))
    first.commit()

    assert answer(late)["reason"] == "lease_lost"
    assert settle(conn, "job", "complete", next_lease)["ok"]


def test_a_claim_that_races_a_late_result_leaves_the_job_to_it(
    conn: Connection, clock: Clock, first: Session, second: Session
) -> None:
    lease = lapsed_and_swept(conn, clock)
    first.begin()
    assert settle(first.conn, "job", "complete", lease)["ok"]

    with second.impatient():
        assert claim(second.conn, worker="other") == []
    first.commit()

    assert claim(second.conn, worker="other") == []
    assert state(conn, "job") == "COMPLETED"


def test_a_settle_repeated_because_its_answer_was_lost_is_told_so_and_changes_nothing(
    conn: Connection, first: Session, second: Session
) -> None:
    lease = submit_and_claim(conn, "job")
    first.begin()
    settle(first.conn, "job", "complete", lease)

    again = second.start_blocked(lambda conn: settle(conn, "job", "complete", lease))
    first.commit()

    assert answer(again)["reason"] == "already"


def test_the_lease_is_the_guard_and_a_worker_id_is_checked_when_given(conn: Connection) -> None:
    lease = submit_and_claim(conn, "job")
    before = contents(conn)

    assert settle(conn, "job", "complete", lease, p_worker_id="other")["reason"] == "lease_lost"
    assert contents(conn) == before
    assert call(conn, "complete_job", p_job_id="job", p_lease_id=lease, p_worker_id="other") == [
        {"complete_job": True}
    ]


def test_a_lease_that_never_was_opens_nothing(conn: Connection) -> None:
    submit_and_claim(conn, "job")
    before = contents(conn)

    for nonsense in ("", "not a uuid", "00000000-0000-0000-0000-000000000000"):
        assert settle(conn, "job", "complete", nonsense)["reason"] == "lease_lost"

    assert contents(conn) == before


def test_of_two_results_for_one_job_in_a_batch_only_the_holders_counts(
    conn: Connection, clock: Clock
) -> None:
    """A worker that lost a lease and claimed the job again may come with both results at once."""
    for operation, ends in [("complete", "COMPLETED"), ("fail", "FAILED_RETRY")]:
        old = submit_and_claim(conn, operation, queue=operation)
        clock.advance(31)
        new = claim_one(conn, operation, queue=operation)
        for leases, order in [((old, new), ("old", "new")), ((new, old), ("new", "old"))]:
            with undone(conn):
                verdicts = call(
                    conn,
                    "settle_jobs",
                    p_job_ids=[operation, operation],
                    p_operations=[operation, operation],
                    p_lease_ids=list(leases),
                    p_results=[Jsonb(result) for result in order],
                    p_messages=list(order),
                )
                found = job(conn, operation)

            reasons = dict(zip(order, [row["reason"] for row in verdicts], strict=True))
            assert reasons == {"new": "settled", "old": "lease_lost"}
            assert found["state"] == ends
            assert (found["result"] or found["error_message"]) == "new"
