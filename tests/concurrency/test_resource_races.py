"""Resources under contention: all or none, never more than the capacity, no deadlock."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from psycopg.errors import SerializationFailure, UniqueViolation

from tests.concurrency.sessions import Session, answer
from tests.conftest import Connect
from tests.engine.sql import (
    Connection,
    call,
    claim,
    column,
    settle,
    submit_and_claim,
    submit_many,
    value,
)

THREADS = 8


def acquire(job_id: str, *keys: str) -> Callable[[Connection], object]:
    return lambda conn: value(conn, "acquire_resources", p_job_id=job_id, p_keys=list(keys))


def held(conn: Connection, job_id: str) -> list[str]:
    return column(
        conn,
        "select key from holdfast.holds where kind = 'resource' and job_id = "
        "(select id from holdfast.job_names where name = %s) order by key",
        job_id,
    )


def test_two_keys_taken_in_opposite_orders_do_not_deadlock_and_go_to_one_job(
    conn: Connection, first: Session, second: Session, third: Session
) -> None:
    for job_id in ("one", "other"):
        submit_and_claim(conn, job_id)
    call(conn, "set_resource_capacity", p_key="a", p_capacity=1)
    call(conn, "set_resource_capacity", p_key="b", p_capacity=1)
    third.begin()
    third.conn.execute("select from holdfast.resources where key = 'a' for update")

    forth = first.start_blocked(acquire("one", "a", "b"))
    back = second.start_blocked(acquire("other", "b", "a"))
    third.commit()

    assert answer(forth) == []
    assert answer(back) == ["a", "b"]
    assert (held(conn, "one"), held(conn, "other")) == (["a", "b"], [])


def test_two_unheard_of_keys_taken_in_opposite_orders_do_not_deadlock(
    conn: Connection, first: Session, second: Session
) -> None:
    for job_id in ("one", "other"):
        submit_and_claim(conn, job_id)
    first.begin()
    assert acquire("one", "a", "b")(first.conn) == []

    back = second.start_blocked(acquire("other", "b", "a"))
    first.commit()

    assert answer(back) == ["a", "b"]


def test_when_one_of_several_keys_is_busy_none_is_taken(conn: Connection) -> None:
    for job_id in ("one", "other"):
        submit_and_claim(conn, job_id)
    acquire("one", "b")(conn)

    assert acquire("other", "a", "b", "c")(conn) == ["b"]
    assert held(conn, "other") == []


def test_an_acquisition_that_is_rolled_back_takes_nothing(
    conn: Connection, first: Session, second: Session
) -> None:
    for job_id in ("one", "other"):
        submit_and_claim(conn, job_id)
    first.begin()
    acquire("one", "a")(first.conn)

    waiting = second.start_blocked(acquire("other", "a"))
    first.rollback()

    assert answer(waiting) == []


def test_a_resource_freed_by_an_open_settle_still_counts_as_held(
    conn: Connection, first: Session, second: Session
) -> None:
    lease = submit_and_claim(conn, "one")
    submit_and_claim(conn, "other")
    acquire("one", "a")(conn)
    first.begin()
    settle(first.conn, "one", "complete", lease)

    assert acquire("other", "a")(second.conn) == ["a"]
    first.rollback()
    assert acquire("other", "a")(second.conn) == ["a"]
    settle(first.conn, "one", "complete", lease)

    assert acquire("other", "a")(second.conn) == []


def test_at_repeatable_read_an_acquisition_that_cannot_see_the_holder_is_refused(
    conn: Connection, first: Session, second: Session
) -> None:
    for job_id in ("one", "other"):
        submit_and_claim(conn, job_id)
    second.begin("repeatable read")
    second.conn.execute("select 1")
    assert acquire("one", "a")(first.conn) == []

    with pytest.raises((SerializationFailure, UniqueViolation)):
        acquire("other", "a")(second.conn)
    second.rollback()

    assert acquire("other", "a")(second.conn) == ["a"]


def test_two_workers_contend_for_a_resource_and_only_one_executes(
    conn: Connection, first: Session, second: Session
) -> None:
    """Seed 000: TwoWorkers_ResourceContention_OnlyOneExecutes."""
    submit_many(conn, ["one", "other"])
    leases = {row["job_id"]: row["lease_id"] for row in claim(conn, limit=2)}
    first.begin()
    assert acquire("one", "a")(first.conn) == []
    late = second.start_blocked(acquire("other", "a"))
    first.commit()
    assert answer(late) == ["a"]

    rescheduled = settle(conn, "other", "reschedule", leases["other"], p_messages=["resource_busy"])
    assert rescheduled["state"] == "RESCHEDULED"
    settle(conn, "one", "complete", leases["one"])
    (again,) = claim(conn)

    assert (again["job_id"], again["attempts"]) == ("other", 0)
    assert acquire("other", "a")(conn) == []


def test_a_capacity_of_two_is_never_exceeded_by_many_threads(
    conn: Connection, database: str, connect: Connect
) -> None:
    call(conn, "set_resource_capacity", p_key="printer", p_capacity=2)
    submit_many(conn, [f"job-{number}" for number in range(THREADS)])
    leases = [(row["job_id"], row["lease_id"]) for row in claim(conn, limit=THREADS)]
    together = Barrier(THREADS)

    def contend(conn: Connection, job_id: str, lease: str) -> int:
        """Take the resource and give it back, again and again; answer the most holders ever seen."""
        most = 0
        together.wait()
        for _ in range(25):
            if value(conn, "acquire_resources", p_job_id=job_id, p_keys=["printer"], p_lease_id=lease) == []:
                most = max(most, *column(conn, "select count(*) from holdfast.holds"))
                value(conn, "release_resources", p_job_id=job_id, p_lease_id=lease)
        return most

    with ThreadPoolExecutor(THREADS) as threads:
        seen = [threads.submit(contend, connect(database), job_id, lease) for job_id, lease in leases]

    assert max(answer(each) for each in seen) in (1, 2)
    assert column(conn, "select count(*) from holdfast.holds") == [0]


def test_a_capacity_of_two_takes_exactly_two_of_many_at_once(
    conn: Connection, database: str, connect: Connect
) -> None:
    call(conn, "set_resource_capacity", p_key="printer", p_capacity=2)
    submit_many(conn, [f"job-{number}" for number in range(THREADS)])
    claimed = [row["job_id"] for row in claim(conn, limit=THREADS)]

    with ThreadPoolExecutor(THREADS) as threads:
        answers = list(threads.map(lambda job_id: acquire(job_id, "printer")(connect(database)), claimed))

    assert sorted(answers, key=str) == [["printer"]] * (THREADS - 2) + [[]] * 2
