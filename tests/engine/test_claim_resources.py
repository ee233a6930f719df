"""Resources taken with the claim: as many as are free, never more, and nobody waits for them."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.concurrency.conftest import first, open_session, second
from tests.concurrency.sessions import Session
from tests.conftest import Connect
from tests.engine.sql import Connection, Rows, call, claim, column, settle, submit_many, value

__all__ = ["first", "open_session", "second"]

CAPACITY = 3


def capacity(conn: Connection, most: int = CAPACITY, key: str = "r") -> None:
    value(conn, "set_resource_capacity", p_key=key, p_capacity=most)


def submit(conn: Connection, job_ids: list[str], *keys: str) -> None:
    submit_many(conn, job_ids, p_resource_keys=Jsonb(list(keys)))


def take(conn: Connection, limit: int = 10, **more: Any) -> dict[str, bool]:
    """Claim as a worker does; which jobs were claimed, and whether each has its resource."""
    given: Rows = call(
        conn,
        "settle_and_claim",
        p_worker_id="w",
        p_queues=["q"],
        p_limit=limit,
        p_take_resources=True,
        **({"p_job_ids": [], "p_operations": [], "p_lease_ids": []} | more),
    )
    return {row["job_id"]: row["reason"] == "holding" for row in given if row["kind"] == "claimed"}


def holders(conn: Connection, key: str = "r") -> list[str]:
    return column(
        conn,
        """select coalesce(job.name, 'j' || job.id) from holdfast.holds hold
        join holdfast.jobs job on job.id = hold.job_id and job.lease_id = hold.lease_id and job.has_holds
        where hold.kind = 'resource' and hold.key = %s order by 1""",
        key,
    )


def test_a_free_resource_is_taken_with_the_claim(conn: Connection) -> None:
    capacity(conn)
    submit(conn, ["a", "b"], "r")
    submit_many(conn, ["plain"])

    assert take(conn) == {"a": True, "b": True, "plain": False}
    assert holders(conn) == ["a", "b"]


def test_no_more_jobs_get_a_resource_than_it_has_room_for_the_first_in_line_first(conn: Connection) -> None:
    capacity(conn)
    submit(conn, ["a", "b", "c", "d", "e"], "r")

    assert take(conn, 2) == {"a": True, "b": True}
    assert take(conn) == {"c": True, "d": False, "e": False}
    assert holders(conn) == ["a", "b", "c"]


def test_who_got_nothing_with_the_claim_is_told_so_when_it_asks(conn: Connection) -> None:
    capacity(conn, 1)
    submit(conn, ["a", "b"], "r")
    take(conn)

    assert value(conn, "acquire_resources", p_job_id="b", p_keys=["r"]) == ["r"]
    assert value(conn, "acquire_resources", p_job_id="a", p_keys=["r"]) == []


def test_a_lower_capacity_lets_nobody_in_though_slots_are_free(conn: Connection) -> None:
    capacity(conn, 3)
    submit(conn, ["a", "b", "c", "d"], "r")
    leases = {row["job_id"]: row["lease_id"] for row in claim(conn, limit=3, p_take_resources=True)}
    settle(conn, "a", "complete", leases["a"])
    capacity(conn, 2)

    assert take(conn) == {"d": False}


def test_a_resource_taken_with_the_claim_is_free_when_the_job_ends(conn: Connection) -> None:
    capacity(conn, 1)
    submit(conn, ["a", "b"], "r")
    (held,) = claim(conn, p_take_resources=True)

    taken = take(conn, p_job_ids=["a"], p_operations=["complete"], p_lease_ids=[held["lease_id"]])

    assert taken == {"b": True}


def test_jobs_that_take_several_resources_take_them_themselves(conn: Connection) -> None:
    capacity(conn, 5, "r")
    capacity(conn, 5, "s")
    submit(conn, ["both"], "r", "s")

    assert take(conn) == {"both": False}
    assert column(conn, "select count(*) from holdfast.holds") == [0]


def test_a_resource_nobody_has_ever_taken_is_left_to_the_worker(conn: Connection) -> None:
    submit(conn, ["a"], "new")
    assert take(conn) == {"a": False}


def test_whoever_does_not_ask_gets_none(conn: Connection) -> None:
    capacity(conn)
    submit(conn, ["a"], "r")
    claim(conn)
    assert column(conn, "select count(*) from holdfast.holds") == [0]


def test_a_key_and_a_resource_go_together(conn: Connection) -> None:
    capacity(conn)
    submit_many(conn, ["a", "b"], p_singleton_keys="k", p_resource_keys=Jsonb(["r"]))

    assert take(conn) == {"a": True}
    assert holders(conn) == ["a"]
    assert column(conn, "select count(*) from holdfast.holds where kind = 'singleton'") == [1]


def test_a_claim_does_not_wait_for_somebody_who_is_taking_the_resource(
    conn: Connection, first: Session, second: Session
) -> None:
    capacity(conn)
    submit(conn, ["a", "b"], "r")
    submit(conn, ["other"], "s")
    capacity(conn, 1, "s")
    first.begin()
    assert take(first.conn, 1) == {"a": True}

    with second.impatient():
        assert take(second.conn) == {"b": False, "other": True}
    first.commit()

    assert value(conn, "acquire_resources", p_job_id="b", p_keys=["r"]) == []


@pytest.mark.parametrize("seed", range(2))
def test_at_random_a_resource_is_never_held_more_often_than_it_has_room_for(
    conn: Connection, database: str, connect: Connect, seed: int
) -> None:
    """By claims and by those who ask themselves, side by side."""
    capacity(conn)
    jobs = [f"job-{number}" for number in range(120)]
    submit(conn, jobs, "r")
    stop = Event()

    def work(own: Connection, chance: random.Random) -> int:
        try:
            return work_at_random(own, chance, stop)
        finally:
            stop.set()

    with ThreadPoolExecutor(4) as threads:
        chances = [random.Random(10 * seed + number) for number in range(4)]
        most = max(threads.map(work, [connect(database) for _ in range(4)], chances))

    assert most <= CAPACITY
    assert column(conn, "select count(*) from holdfast.holds") == [0]
    assert column(conn, "select count(*) from holdfast.jobs_archive") == [len(jobs)]


def work_at_random(conn: Connection, chance: random.Random, stop: Event) -> int:
    """Take what there is, run it if it has its resource, hand it back if not; the most seen held at once."""
    most = 0
    while not stop.is_set() and column(conn, "select exists (select from holdfast.jobs)") == [True]:
        taken = claim(conn, limit=chance.randrange(1, 5), p_take_resources=chance.random() < 0.7)
        for row in taken:
            busy = value(conn, "acquire_resources", p_job_id=row["job_id"], p_keys=["r"])
            (held,) = column(conn, "select count(*) from holdfast.holds")
            most = max(most, held)
            assert settle(conn, row["job_id"], "reschedule" if busy else "complete", row["lease_id"])["ok"]
    return most


def test_jobs_completed_together_leave_no_key_and_no_resource_held(conn: Connection) -> None:
    capacity(conn)
    submit(conn, ["a", "b"], "r")
    submit_many(conn, ["c"])
    submit_many(conn, ["d"], p_singleton_keys="k")
    take(conn)
    assert column(conn, "select key from holdfast.holds order by key") == ["k", "r", "r"]

    done = call(conn, "settle_jobs", p_job_ids=["a", "b", "c", "d"], p_operations=["complete"] * 4)

    assert [verdict["reason"] for verdict in done] == ["settled"] * 4
    assert column(conn, "select key from holdfast.holds") == []


@pytest.mark.parametrize("others", [[], ["failed"]], ids=["all completed", "several outcomes"])
def test_only_what_was_refused_is_answered_to_whoever_asks_for_that(
    conn: Connection, others: list[str]
) -> None:
    submit_many(conn, ["a", "b", *others])
    claim(conn, limit=5)
    said = {"a": "complete", "b": "complete", **dict.fromkeys(others, "fail")}
    terms = {"p_job_ids": [*said, "nobody"], "p_operations": [*said.values(), "complete"]}

    answered = call(conn, "settle_jobs", **terms, p_only_refused=True)

    assert [(row["job_id"], row["reason"]) for row in answered] == [("nobody", "not_found")]
    assert column(conn, "select state::text from holdfast.jobs") == ["FAILED_RETRY"] * len(others)
