"""A queue with a limit: never more of its jobs are held at once, and nothing else is in its way."""

from __future__ import annotations

import pytest

from tests.clock import Clock
from tests.engine.sql import (
    Connection,
    Rows,
    call,
    claim,
    column,
    listen,
    refusal,
    rows,
    settle,
    signals,
    status,
    submit,
    submit_many,
    value,
)

NEED = ("holdfast.need.q", "")


def limit(conn: Connection, most: int | None, queue: str = "q") -> None:
    assert value(conn, "set_queue_limit", p_queue=queue, p_limit=most) == most


def ids(claimed: Rows) -> list[str]:
    return [row["job_id"] for row in claimed]


def test_no_more_jobs_of_a_queue_are_held_than_its_limit(conn: Connection) -> None:
    submit_many(conn, ["a", "b", "c", "d"])
    limit(conn, 3)

    assert ids(claim(conn, limit=2)) == ["a", "b"]
    assert ids(claim(conn, limit=2)) == ["c"]
    assert claim(conn, limit=2) == []
    assert status(conn, "d") == "READY"


def test_a_job_being_cancelled_is_still_held(conn: Connection) -> None:
    submit_many(conn, ["a", "b"])
    limit(conn, 1)
    claim(conn)
    call(conn, "cancel_job", p_job_id="a", p_worker_id="me")

    assert claim(conn) == []


@pytest.mark.parametrize("operation", ["complete", "fail", "reschedule", "release", "stop"])
def test_whatever_ends_a_lease_makes_room(conn: Connection, operation: str) -> None:
    submit_many(conn, ["a", "b"])
    limit(conn, 1)
    (held,) = claim(conn)

    settle(conn, "a", operation, held["lease_id"], p_delays=[600.0] if operation == "fail" else None)

    assert len(claim(conn)) == 1
    assert claim(conn) == []


def test_a_lapsed_lease_makes_room(conn: Connection, clock: Clock) -> None:
    submit_many(conn, ["a", "b"])
    limit(conn, 1)
    claim(conn, p_lease_seconds=10)
    clock.advance(11)

    assert ids(claim(conn)) == ["a"]
    assert claim(conn) == []


def test_a_full_queue_does_not_hold_up_the_others_of_a_claim(conn: Connection) -> None:
    submit_many(conn, ["full-1", "full-2", "full-3"], "full", p_priorities=5)
    submit_many(conn, ["half-1", "half-2"], "half", p_priorities=1)
    submit_many(conn, ["free-1", "free-2"], "free")
    limit(conn, 1, "full")
    limit(conn, 1, "half")
    claim(conn, "full")

    claimed = call(conn, "claim_jobs", p_worker_id="w", p_queues=["full", "free", "half"], p_limit=10)

    assert ids(claimed) == ["half-1", "free-1", "free-2"]


def test_a_claim_over_queues_takes_of_each_up_to_its_limit(conn: Connection) -> None:
    for queue in ("a", "b", "c"):
        submit_many(conn, [f"{queue}{number}" for number in range(5)], queue)
    limit(conn, 2, "a")
    limit(conn, 4, "b")

    claimed = call(conn, "claim_jobs", p_worker_id="w", p_queues=["a", "b", "c"], p_limit=100)

    assert sorted(ids(claimed)) == ["a0", "a1", "b0", "b1", "b2", "b3", "c0", "c1", "c2", "c3", "c4"]


def test_a_limit_goes_over_all_priorities(conn: Connection) -> None:
    for priority in range(4):
        submit(conn, f"p{priority}", p_priority=priority)
    limit(conn, 3)

    assert ids(claim(conn, limit=10)) == ["p3", "p2", "p1"]


def test_a_limit_and_singleton_keys_go_together(conn: Connection) -> None:
    submit_many(conn, ["k1", "k2", "k3"], p_singleton_keys="k")
    submit_many(conn, ["x", "y", "z"])
    limit(conn, 3)

    assert ids(claim(conn, limit=10)) == ["k1", "x", "y"]


def test_a_lower_limit_takes_nothing_away_and_lets_nothing_in(conn: Connection) -> None:
    submit_many(conn, ["a", "b", "c", "d"])
    first, second = claim(conn, limit=2)
    limit(conn, 1)

    settle(conn, "a", "complete", first["lease_id"])
    assert claim(conn) == []
    settle(conn, "b", "complete", second["lease_id"])
    assert ids(claim(conn, limit=2)) == ["c"]


def test_a_queue_without_a_limit_again_is_as_it_was(conn: Connection) -> None:
    submit_many(conn, ["a", "b", "c"])
    limit(conn, 1)
    claim(conn)
    limit(conn, None)

    assert ids(claim(conn, limit=5)) == ["b", "c"]
    assert rows(conn, "select * from holdfast.queues") == []


def test_a_queue_can_be_paused_and_limited_one_without_the_other(conn: Connection) -> None:
    submit_many(conn, ["a", "b"])
    limit(conn, 1)
    assert status(conn, "a") == "READY"
    assert value(conn, "pause_queue", p_queue="q") is True
    assert value(conn, "pause_queue", p_queue="q") is False
    assert claim(conn) == []
    assert status(conn, "a") == "PAUSED"

    assert value(conn, "resume_queue", p_queue="q") is True
    assert value(conn, "resume_queue", p_queue="q") is False
    assert ids(claim(conn, limit=2)) == ["a"]
    assert column(conn, "select max_running from holdfast.queues") == [1]

    value(conn, "pause_queue", p_queue="q")
    limit(conn, None)
    assert claim(conn) == []


@pytest.mark.parametrize("operation", ["complete", "fail", "stop"])
def test_a_job_that_leaves_a_queue_with_a_limit_signals(conn: Connection, operation: str) -> None:
    submit_many(conn, ["a", "b"])
    (held,) = claim(conn)
    limit(conn, 1)
    listen(conn, "q")

    settle(conn, "a", operation, held["lease_id"], p_permanent=[True])

    assert signals(conn) == [NEED]


def test_a_job_with_dependents_signals_once_for_them_and_the_room(conn: Connection) -> None:
    submit(conn, "a")
    submit(conn, "child", p_wait_for=["a"])
    limit(conn, 1)
    (held,) = claim(conn)
    listen(conn, "q")

    settle(conn, "a", "complete", held["lease_id"])

    assert signals(conn) == [NEED]


def test_a_job_that_moves_elsewhere_signals_both_queues(conn: Connection) -> None:
    submit(conn, "a")
    limit(conn, 1)
    (held,) = claim(conn)
    listen(conn, "q", "other")

    call(
        conn,
        "reschedule_job",
        p_job_id="a",
        p_lease_id=held["lease_id"],
        p_worker_id="w",
        p_next_need="other",
    )

    assert sorted(signals(conn)) == [("holdfast.need.other", "a"), NEED]


def test_a_new_limit_signals(conn: Connection) -> None:
    listen(conn, "q")
    limit(conn, 2)
    assert signals(conn) == [NEED]


def test_queues_without_a_limit_are_not_signalled_when_jobs_leave(conn: Connection) -> None:
    submit_many(conn, ["a", "b"])
    (held,) = claim(conn)
    limit(conn, 1, "other")
    listen(conn, "q")

    settle(conn, "a", "complete", held["lease_id"])

    assert signals(conn) == []


def test_the_figures_of_a_queue_show_its_limit(conn: Connection) -> None:
    submit(conn, "a")
    limit(conn, 2, "empty")

    found = {row["queue"]: row["max_running"] for row in call(conn, "get_queue_stats")}

    assert found == {"q": None, "empty": 2}


def test_a_limit_is_at_least_one(conn: Connection) -> None:
    error = refusal(value, conn, "set_queue_limit", p_queue="q", p_limit=0)
    assert error.sqlstate == "22023"
    assert 'the limit of queue "q" must be at least 1, or null for none, not 0' in str(error)


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_claim_that_could_not_see_what_others_hold_is_refused(conn: Connection, level: str) -> None:
    submit(conn, "a")
    limit(conn, 1)
    conn.execute(f"begin isolation level {level}".encode())

    error = refusal(claim, conn)

    conn.execute("rollback")
    assert error.sqlstate == "25000"
    assert level in str(error)
