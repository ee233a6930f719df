"""The line: priority, then due time, then insertion; over several queues by the same key."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.clock import Clock
from tests.engine.sql import Connection, call, claim, column, settle, submit, submit_and_claim, submit_many


def claimed(conn: Connection, *queues: str, limit: int = 1, **more: object) -> list[str]:
    taken = call(conn, "claim_jobs", p_worker_id="w", p_queues=list(queues), p_limit=limit, **more)
    return [row["job_id"] for row in taken]


def test_higher_priority_comes_first_then_due_time_then_insertion(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    due = {"late": 0, "early": -60}
    for name, priority in [("low", -5), ("normal", 0), ("high", 7)]:
        for when, seconds in due.items():
            for number in (1, 2):
                submit(
                    conn,
                    f"{name} {when} {number}",
                    p_priority=priority,
                    p_available_at=now + timedelta(seconds=seconds),
                )

    assert claimed(conn, "q", limit=99) == [
        f"{name} {when} {number}"
        for name in ("high", "normal", "low")
        for when in ("early", "late")
        for number in (1, 2)
    ]


@pytest.mark.parametrize("queues", [["q"], ["q", "r"]])
def test_the_answer_stands_in_line_however_the_jobs_came(
    conn: Connection, clock: Clock, queues: list[str]
) -> None:
    """Due times that fall, rise and repeat among the numbers; keys that make the claim look again."""
    now = clock.freeze()
    due = [50, 60, 60, 10, 20, 30, 30, 5, 70, 1, 2, 80]
    for number, seconds in enumerate(due):
        submit(
            conn,
            f"{number}",
            queue=queues[number % len(queues)],
            p_priority=number % 2,
            p_singleton_key="key" if seconds in (60, 30) else None,
            p_available_at=now - timedelta(seconds=seconds),
        )
    line = sorted(range(len(due)), key=lambda number: (-(number % 2), -due[number], number))
    keyed = [number for number in line if due[number] in (60, 30)]
    expected = [f"{number}" for number in line if number not in keyed[1:]]

    assert claimed(conn, *queues, limit=len(expected)) == expected


def test_one_by_one_and_in_batches_the_order_is_the_same(conn: Connection) -> None:
    names = [f"job-{number}" for number in range(9)]
    for number, name in enumerate(names):
        submit(conn, name, p_priority=number % 3)
    expected = names[2::3] + names[1::3] + names[::3]

    assert claimed(conn, "q") + claimed(conn, "q", limit=4) + claimed(conn, "q", limit=9) == expected


def test_the_extremes_of_priority_are_priorities(conn: Connection) -> None:
    for name, priority in [("lowest", -(2**31)), ("highest", 2**31 - 1), ("middle", 0)]:
        submit(conn, name, p_priority=priority)

    assert claimed(conn, "q", limit=9) == ["highest", "middle", "lowest"]


def test_a_claim_over_several_queues_takes_and_returns_by_the_same_key(
    conn: Connection, clock: Clock
) -> None:
    now = clock.freeze()
    for number, (queue, priority) in enumerate([("b", 0), ("a", 0), ("a", 1), ("c", 0), ("b", 1), ("a", 0)]):
        submit(
            conn,
            f"{queue}{number}",
            queue=queue,
            p_priority=priority,
            p_available_at=now - timedelta(seconds=10 - number),
        )

    assert claimed(conn, "a", "b", "c", limit=4) == ["a2", "b4", "b0", "a1"]
    assert claimed(conn, "c", "b", "a", limit=9) == ["c3", "a5"]


def test_a_claim_over_several_queues_takes_from_no_other(conn: Connection) -> None:
    for queue in ("a", "b", "c"):
        submit(conn, queue, queue=queue)

    assert claimed(conn, "a", "c", limit=9) == ["a", "c"]


def test_a_queue_named_twice_is_one_queue(conn: Connection) -> None:
    submit_many(conn, ["a", "b"])

    assert claimed(conn, "q", "q", limit=2) == ["a", "b"]


def test_a_job_nobody_may_take_does_not_pull_a_younger_one_before_an_older_one_of_another_queue(
    conn: Connection, clock: Clock
) -> None:
    """At the head of queue a stand a busy key, a set-aside job, an expired one and one with other tags."""
    now = clock.freeze()
    call(conn, "set_crash_concern_threshold", p_threshold=1)
    submit_and_claim(conn, "crashed", queue="a")
    clock.advance(31)
    call(conn, "lapse_leases")
    now = clock.now()
    submit_and_claim(conn, "holder", queue="elsewhere", p_singleton_key="busy")
    heads: list[dict[str, object]] = [
        {"p_singleton_key": "busy"},
        {"p_expires_at": now - timedelta(seconds=1)},
        {"p_tags": ["other"]},
    ]
    for number, more in enumerate(heads):
        at = now - timedelta(seconds=50 - number)
        submit(conn, f"head-{number}", queue="a", **{"p_tags": ["t"], "p_available_at": at, **more})
    submit(conn, "younger", queue="a", p_tags=["t"], p_available_at=now - timedelta(seconds=10))
    submit(conn, "older", queue="b", p_tags=["t"], p_available_at=now - timedelta(seconds=20))

    assert claimed(conn, "a", "b", p_tags=["t"]) == ["older"]
    assert claimed(conn, "a", "b", p_tags=["t"]) == ["younger"]


def test_jobs_that_share_a_key_do_not_pull_younger_ones_before_older_ones_of_another_queue(
    conn: Connection, clock: Clock
) -> None:
    now = clock.freeze()
    line = [("a", "k1", "key"), ("a", "k2", "key"), ("b", "b3", None), ("b", "b4", None), ("a", "a5", None)]
    for number, (queue, name, key) in enumerate([*line, ("a", "a6", None)]):
        at = now - timedelta(seconds=60 - number)
        submit(conn, name, queue=queue, p_singleton_key=key, p_available_at=at)

    assert claimed(conn, "a", "b", limit=4) == ["k1", "b3", "b4", "a5"]


def test_a_floor_hides_what_stands_before_it_and_nothing_else(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    for queue in ("a", "b"):
        for seconds in (30, 20, 10):
            at = now - timedelta(seconds=seconds)
            submit(conn, f"{queue}{seconds}", queue=queue, p_available_at=at)

    floor = now - timedelta(seconds=20)
    assert claimed(conn, "a", "b", limit=3, p_floor_at=floor) == ["a20", "b20", "a10"]


@pytest.mark.parametrize("queues", [["a"], ["a", "b"]])
def test_a_floor_of_one_priority_hides_nothing_of_another(
    conn: Connection, clock: Clock, queues: list[str]
) -> None:
    now = clock.freeze()
    for priority, seconds in [(0, 40), (5, 30), (5, 20), (0, 10)]:
        at = now - timedelta(seconds=seconds)
        submit(conn, f"{priority} {seconds}", queue="a", p_priority=priority, p_available_at=at)

    floor = now - timedelta(seconds=20)
    line = claimed(conn, *queues, limit=4, p_floor_at=floor, p_floor_priority=5)
    assert line == ["5 20", "0 40", "0 10"]


def test_an_immediate_retry_goes_behind_those_created_before_its_failure(
    conn: Connection, clock: Clock
) -> None:
    """Seed 004: ascending COALESCE(LastRetryAt, CreatedAt)."""
    clock.freeze()
    lease = submit_and_claim(conn, "retried")
    clock.advance(1)
    submit(conn, "before")
    clock.advance(1)
    settle(conn, "retried", "fail", lease, p_messages=["boom"])
    clock.advance(1)
    submit(conn, "after")

    assert claimed(conn, "q", limit=9) == ["before", "retried", "after"]


def test_a_job_is_not_leased_before_it_is_due(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    submit(conn, "at", p_available_at=now + timedelta(seconds=10))
    submit(conn, "delayed", p_delay=20)
    assert claimed(conn, "q", limit=9) == []

    clock.advance(10)
    assert claimed(conn, "q", limit=9) == ["at"]
    clock.advance(10)
    assert claimed(conn, "q", limit=9) == ["delayed"]


def test_a_claim_takes_only_jobs_that_have_all_its_tags(conn: Connection) -> None:
    """Seed 004: AND logic; no tags mean every job; case matters, order does not."""
    submit(conn, "none")
    submit(conn, "one", p_tags=["red"])
    submit(conn, "both", p_tags=["fast", "red", "more"])
    submit(conn, "case", p_tags=["RED", "fast"])

    assert claimed(conn, "q", limit=9, p_tags=["red", "fast"]) == ["both"]
    assert claimed(conn, "q", limit=9, p_tags=["red"]) == ["one"]
    assert claimed(conn, "q", limit=9, p_tags=[]) == ["none", "case"]


def test_the_next_due_moment_is_the_earliest_of_the_queues_and_the_leases(
    conn: Connection, clock: Clock
) -> None:
    now = clock.freeze()

    def next_due() -> object:
        return call(conn, "next_due", p_queues=["q", "r"])[0]["next_due"]

    assert next_due() is None
    submit(conn, "elsewhere", queue="z", p_delay=1)
    submit(conn, "late", queue="r", p_delay=60, p_priority=9)
    assert next_due() == now + timedelta(seconds=60)
    submit(conn, "soon", p_delay=40)
    assert next_due() == now + timedelta(seconds=40)
    submit(conn, "held")
    claim(conn, p_lease_seconds=30)
    assert next_due() == now + timedelta(seconds=30)


def test_a_claim_that_finds_nobody_in_line_does_not_look_through_the_line_once_more(conn: Connection) -> None:
    """Under a long transaction each look walks over the dead rows of all who stood there."""
    looked = "select calls from pg_stat_xact_user_functions where funcname = '_next_due'"

    def look(*queues: str) -> object:
        (row,) = call(
            conn,
            "settle_and_claim",
            p_job_ids=None,
            p_operations=None,
            p_lease_ids=None,
            p_worker_id="w",
            p_queues=list(queues),
            p_limit=1,
            p_lease_seconds=30,
        )
        assert row["kind"] == "next"
        return row["available_at"]

    submit(conn, "elsewhere", queue="z")
    lapses_at = claim(conn, "z", p_lease_seconds=30)[0]["lease_expires_at"]
    with conn.transaction():
        conn.execute("set local track_functions = 'all'")
        assert look("q") == lapses_at
        assert column(conn, looked) == []

        assert look("q", "r") == lapses_at
        submit(conn, "late", p_delay=20)
        due = look("q")
        assert isinstance(due, datetime)
        assert due < lapses_at
        assert column(conn, looked) == [2]
