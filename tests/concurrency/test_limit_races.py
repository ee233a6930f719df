"""Claims side by side on a queue with a limit: never one too many, nobody waits, and nobody is forgotten."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from tests.concurrency.sessions import Session
from tests.conftest import Connect
from tests.engine.sql import (
    Connection,
    Rows,
    call,
    claim,
    column,
    listen,
    settle,
    signals,
    submit,
    submit_many,
    value,
)

LIMIT = 3
THREADS = 6
JOBS = 150

CHECK = f"""
create function too_many() returns trigger language plpgsql as $$
begin
  if {LIMIT} < (
    select count(*) from holdfast.jobs where queue = 'q' and state in ('RUNNING', 'CANCELLING')
  ) then
    raise exception 'too many are held';
  end if;
  return null;
end $$;
create trigger too_many after update on holdfast.jobs execute function too_many();
"""


def ids(claimed: Rows) -> list[str]:
    return [row["job_id"] for row in claimed]


def look(conn: Connection, *queues: str) -> Rows:
    """Claim as a stream does that has nothing to settle."""
    return call(
        conn,
        "settle_and_claim",
        p_job_ids=[],
        p_operations=[],
        p_lease_ids=[],
        p_worker_id="w",
        p_queues=list(queues),
        p_limit=5,
    )


def test_a_claim_does_not_wait_for_another_and_does_not_exceed_the_limit_with_it(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, ["a", "b", "c", "d"])
    value(conn, "set_queue_limit", p_queue="q", p_limit=2)
    first.begin()
    assert ids(claim(first.conn)) == ["a"]

    with second.impatient():
        assert claim(second.conn, limit=2) == []
    first.commit()

    assert ids(claim(second.conn, limit=2)) == ["b"]


def test_a_claim_that_passes_a_queue_over_takes_from_the_others(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, ["a", "b"])
    submit_many(conn, ["x", "y"], "other")
    value(conn, "set_queue_limit", p_queue="q", p_limit=2)
    first.begin()
    claim(first.conn)

    with second.impatient():
        assert ids(claim_of(second.conn, "q", "other")) == ["x", "y"]


def claim_of(conn: Connection, *queues: str) -> Rows:
    return call(conn, "claim_jobs", p_worker_id="w", p_queues=list(queues), p_limit=10)


def test_a_claim_that_was_rolled_back_leaves_its_room(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, ["a", "b"])
    value(conn, "set_queue_limit", p_queue="q", p_limit=1)
    first.begin()
    claim(first.conn)
    first.rollback()

    assert ids(claim(second.conn)) == ["a"]


def test_whoever_passed_a_queue_over_for_another_claim_is_told_to_look_again_at_once(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, ["a", "b"])
    value(conn, "set_queue_limit", p_queue="q", p_limit=2)
    first.begin()
    claim(first.conn)

    (again,) = look(second.conn, "q")
    assert (again["kind"], again["available_at"] <= again["created_at"]) == ("next", True)
    first.commit()

    assert [row["kind"] for row in look(second.conn, "q")] == ["claimed"]
    (later,) = look(second.conn, "q")
    assert later["available_at"] > later["created_at"]  # full: when the first lease ends


def test_a_claim_that_finds_the_limit_reached_before_an_end_commits_is_signalled_after_it(
    conn: Connection, first: Session, second: Session
) -> None:
    """However few the other one saw held when it ended its job."""
    value(conn, "set_queue_limit", p_queue="q", p_limit=2)
    submit(conn, "a")
    (held,) = claim(conn)
    listen(second.conn, "q")
    first.begin()
    settle(first.conn, "a", "complete", held["lease_id"])
    submit_many(conn, ["b", "c"])
    assert ids(claim(second.conn, limit=2)) == ["b"]
    assert claim(second.conn) == []
    signals(second.conn)
    first.commit()

    assert signals(second.conn) == [("holdfast.need.q", "")]
    assert ids(claim(second.conn)) == ["c"]


@pytest.mark.parametrize("seed", range(3))
def test_at_random_never_more_jobs_are_held_than_the_limit_and_all_get_their_turn(
    conn: Connection, database: str, connect: Connect, seed: int
) -> None:
    submit_many(conn, [f"job-{number}" for number in range(JOBS)])
    submit_many(conn, [f"free-{number}" for number in range(JOBS)], "free")
    value(conn, "set_queue_limit", p_queue="q", p_limit=LIMIT)
    # Every statement that claims is checked as it ends, against all that is committed and its own.
    conn.execute(CHECK.encode())
    stop = Event()

    def work(chance: random.Random, own: Connection) -> tuple[int, int]:
        try:
            return work_at_random(own, chance, stop)
        finally:
            stop.set()  # done, or failed: then the others need not go on

    with ThreadPoolExecutor(THREADS) as threads:
        chances = [random.Random(100 * seed + number) for number in range(THREADS)]
        seen = list(threads.map(work, chances, [connect(database) for _ in range(THREADS)]))

    assert sum(done for done, _ in seen) == 2 * JOBS
    assert max(most for _, most in seen) <= LIMIT
    assert column(conn, "select count(*) from holdfast.jobs") == [0]


def work_at_random(conn: Connection, chance: random.Random, stop: Event) -> tuple[int, int]:
    """Claim and end jobs until there are none; answer how many were done, and the most seen held in "q"."""
    held: list[tuple[str, str]] = []
    done = most = 0
    while held or (not stop.is_set() and column(conn, "select exists (select from holdfast.jobs)") == [True]):
        if chance.random() < 0.5:
            queues = chance.sample(["q", "free"], chance.choice([1, 2]))
            taken = call(
                conn,
                "claim_jobs",
                p_worker_id="w",
                p_queues=queues,
                p_limit=chance.randrange(1, 6),
                p_lease_seconds=600,
            )
            held += [(row["job_id"], row["lease_id"]) for row in taken]
        else:
            chance.shuffle(held)
            for _ in range(min(len(held), chance.randrange(1, 4))):
                job_id, lease_id = held.pop()
                operation = chance.choice(["complete", "complete", "reschedule"])
                assert settle(conn, job_id, operation, lease_id)["ok"]
                done += operation == "complete"
        (now,) = column(
            conn,
            "select count(*) from holdfast.jobs where queue = 'q' and state in ('RUNNING', 'CANCELLING')",
        )
        most = max(most, now)
    return done, most
