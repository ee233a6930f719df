"""Claims side by side: a job goes to one worker, a singleton key to one job, and nobody waits for anybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from psycopg.errors import SerializationFailure, UniqueViolation

from holdfast.store import SyncStore
from tests.clock import Clock
from tests.concurrency.sessions import Session, answer
from tests.conftest import Connect
from tests.engine.sql import (
    Connection,
    call,
    claim,
    claim_one,
    column,
    rows,
    settle,
    state,
    submit,
    submit_and_claim,
    submit_many,
)

JOBS = 2000
THREADS = 8


def ids(claimed: list[dict[str, object]]) -> list[object]:
    return [row["job_id"] for row in claimed]


def test_a_job_is_never_leased_twice(conn: Connection, first: Session, second: Session) -> None:
    submit(conn, "only")
    first.begin()
    assert ids(claim(first.conn, worker="one")) == ["only"]

    with second.impatient():
        assert claim(second.conn, worker="two") == []
    first.commit()

    assert claim(second.conn, worker="two") == []
    assert rows(conn, "select assignee_id from holdfast.jobs") == [{"assignee_id": "one"}]


def test_a_job_whose_claim_was_rolled_back_goes_to_the_next(
    conn: Connection, first: Session, second: Session
) -> None:
    submit(conn, "only", p_singleton_key="k")
    first.begin()
    claim(first.conn, worker="one")
    first.rollback()

    assert ids(claim(second.conn, worker="two")) == ["only"]


def test_many_workers_drain_a_queue_and_claim_each_job_exactly_once(
    conn: Connection, database: str, connect: Connect
) -> None:
    submit_many(conn, [f"job-{number}" for number in range(JOBS)])

    with ThreadPoolExecutor(THREADS) as threads:
        drained = threads.map(drain, [connect(database) for _ in range(THREADS)])
    times_claimed = Counter(job_id for claimed in drained for job_id in claimed)

    assert set(times_claimed.values()) == {1}
    assert len(times_claimed) == JOBS


def drain(conn: Connection) -> list[str]:
    """Claim until there is nothing left, in batches of changing size."""
    claimed: list[str] = []
    while batch := claim(conn, worker=f"worker-{conn.info.backend_pid}", limit=1 + len(claimed) % 13):
        claimed += [row["job_id"] for row in batch]
    return claimed


def test_many_workers_never_run_two_jobs_of_a_key_at_once(
    conn: Connection, database: str, connect: Connect
) -> None:
    for key in ("red", "green", "blue"):
        submit_many(conn, [f"{key}-{number}" for number in range(40)], p_singleton_keys=key)
    conn.execute("create unique index on holdfast.jobs (singleton_key) where state = 'RUNNING'")

    with ThreadPoolExecutor(THREADS) as threads:
        done = sum(threads.map(work_off, [connect(database) for _ in range(THREADS)]))

    assert done == 120
    assert column(conn, "select count(*) from holdfast.jobs_archive where state = 'COMPLETED'") == [120]


def work_off(conn: Connection) -> int:
    """Claim and complete until the queue is empty; the index above refuses a second running job of a key."""
    done = 0
    while column(conn, "select exists (select from holdfast.jobs)") == [True]:
        for row in claim(conn, limit=4):
            done += settle(conn, row["job_id"], "complete", row["lease_id"])["ok"]
    return done


def test_the_leases_of_a_batch_are_each_for_one_job_only(conn: Connection) -> None:
    submit_many(conn, [f"job-{number}" for number in range(20)])
    taken = claim(conn, limit=20)
    assert len({row["lease_id"] for row in taken}) == 20

    exchanged = [settle(conn, a["job_id"], "complete", b["lease_id"]) for a, b in pairwise(taken)]
    assert {verdict["reason"] for verdict in exchanged} == {"lease_lost"}


def test_a_batch_claim_never_returns_two_jobs_of_one_singleton_key(conn: Connection) -> None:
    for job_id, key in [("a1", "a"), ("a2", "a"), ("b1", "b"), ("free", None), ("a3", "a"), ("b2", "b")]:
        submit(conn, job_id, p_singleton_key=key)

    assert ids(claim(conn, limit=10)) == ["a1", "b1", "free"]
    assert claim(conn, limit=10) == []


def test_a_batch_claim_looks_past_a_run_of_jobs_of_one_key(conn: Connection) -> None:
    submit_many(conn, [f"a{number}" for number in range(30)], p_singleton_keys="a")
    submit_many(conn, ["x", "y"])

    assert ids(claim(conn, limit=3)) == ["a0", "x", "y"]


def test_a_batch_claim_over_queues_and_priorities_never_returns_two_jobs_of_one_key(conn: Connection) -> None:
    for job_id, queue, priority in [("low", "a", 0), ("high", "a", 5), ("other", "b", 5), ("last", "b", 0)]:
        submit(conn, job_id, queue, p_priority=priority, p_singleton_key="k")
    submit(conn, "free", "b")

    claimed = call(conn, "claim_jobs", p_worker_id="w", p_queues=["a", "b"], p_limit=10)

    assert ids(claimed) == ["high", "free"]


def test_at_repeatable_read_a_claim_that_cannot_see_who_holds_a_key_is_refused(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, ["a1", "a2"], p_singleton_keys="a")
    second.begin("repeatable read")
    second.conn.execute("select 1")  # its view of the world begins here
    assert ids(claim(first.conn)) == ["a1"]

    with pytest.raises((SerializationFailure, UniqueViolation)):
        claim(second.conn)
    second.rollback()

    assert claim(second.conn) == []


def test_a_worker_whose_jobs_have_keys_that_others_are_just_taking_is_told_that_there_was_nothing(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, ["a1", "a2"], p_singleton_keys="a")
    first.begin()
    assert ids(claim(first.conn, worker="one")) == ["a1"]

    for brief in (True, False):
        with second.impatient():
            answer = call(
                second.conn,
                "settle_and_claim",
                p_job_ids=[],
                p_operations=[],
                p_lease_ids=[],
                p_worker_id="two",
                p_queues=["q"],
                p_limit=5,
                p_brief=brief,
            )
        assert [row["kind"] for row in answer] == ["next"]


def test_two_overlapping_claims_never_return_two_jobs_of_one_singleton_key(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, ["a1", "a2", "a3"], p_singleton_keys="a")
    submit(conn, "free")
    first.begin()
    assert ids(claim(first.conn, worker="one")) == ["a1"]

    with second.impatient():
        assert ids(claim(second.conn, worker="two", limit=10)) == ["free"]
    first.commit()

    assert claim(second.conn, worker="two", limit=10) == []


def test_a_key_goes_on_to_the_next_job_once_its_holder_ended_and_not_before(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, ["a1", "a2"], p_singleton_keys="a")
    lease = claim_one(conn, "a1")
    first.begin()
    settle(first.conn, "a1", "complete", lease)

    with second.impatient():
        assert claim(second.conn) == []
    first.commit()

    assert ids(claim(second.conn)) == ["a2"]


def test_a_singleton_key_holds_over_queues(conn: Connection, first: Session, second: Session) -> None:
    submit(conn, "here", queue="one", p_singleton_key="k")
    submit(conn, "there", queue="two", p_singleton_key="k")
    first.begin()
    assert ids(claim(first.conn, "one")) == ["here"]

    with second.impatient():
        assert claim(second.conn, "two") == []


def test_an_open_claim_of_one_job_does_not_hide_the_other_nine(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, [f"job-{number}" for number in range(10)])
    first.begin()
    assert ids(claim(first.conn)) == ["job-0"]

    with second.impatient():
        claimed = claim(second.conn, limit=10)

    assert ids(claimed) == [f"job-{number}" for number in range(1, 10)]


def test_an_open_claim_of_one_key_does_not_hide_the_jobs_of_nine_others(
    conn: Connection, first: Session, second: Session
) -> None:
    for number in range(10):
        submit(conn, f"job-{number}", p_singleton_key=f"key-{number}")
    first.begin()
    assert ids(claim(first.conn)) == ["job-0"]

    with second.impatient():
        claimed = claim(second.conn, limit=10)

    assert ids(claimed) == [f"job-{number}" for number in range(1, 10)]


def test_an_open_claim_over_two_queues_does_not_hide_jobs_of_either(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, ["a1", "a2"], queue="a")
    submit_many(conn, ["b1", "b2"], queue="b")
    first.begin()
    assert len(call(first.conn, "get_work", p_worker_id="w", p_worker_caps=["a", "b"], p_limit_jobs=2)) == 2

    with second.impatient():
        claimed = call(second.conn, "get_work", p_worker_id="w", p_worker_caps=["a", "b"], p_limit_jobs=9)

    assert ids(claimed) == ["b1", "b2"]


OPEN_CHANGES: dict[str, Callable[[Connection, str], object]] = {
    "claim": lambda conn, lease: claim(conn),
    "complete": lambda conn, lease: settle(conn, "held", "complete", lease),
    "fail": lambda conn, lease: settle(conn, "held", "fail", lease, p_messages=["no"]),
    "reschedule": lambda conn, lease: settle(conn, "held", "reschedule", lease),
    "cancel a held job": lambda conn, lease: call(conn, "cancel_job", p_job_id="held", p_worker_id="w"),
    "cancel a waiting job": lambda conn, lease: call(conn, "cancel_job", p_job_id="ready", p_worker_id="w"),
    "cancel with children": lambda conn, lease: call(conn, "cancel_job", p_job_id="root", p_worker_id="w"),
    "extend": lambda conn, lease: call(
        conn, "extend_leases", p_job_ids=["held"], p_lease_ids=[lease], p_seconds=9
    ),
    "submit a child": lambda conn, lease: submit(conn, "late", p_wait_for=["held", "ready"]),
    "acquire": lambda conn, lease: call(conn, "acquire_resources", p_job_id="held", p_keys=["r"]),
    "pause": lambda conn, lease: call(conn, "pause_queue", p_queue="other"),
    "set_trace": lambda conn, lease: call(conn, "set_trace", p_enabled=True),
    "reset": lambda conn, lease: call(conn, "reset_running_jobs"),
}


@pytest.mark.parametrize("change", OPEN_CHANGES)
def test_a_claim_never_waits_for_an_open_change(
    conn: Connection, clock: Clock, first: Session, second: Session, change: str
) -> None:
    lease = submit_and_claim(conn, "held", p_singleton_key="k")
    submit(conn, "ready")
    submit(conn, "also ready")
    submit(conn, "same key", p_singleton_key="k")
    submit(conn, "root", queue="elsewhere")
    submit(conn, "child", p_wait_for=["held", "root"])
    first.begin()
    OPEN_CHANGES[change](first.conn, lease)

    clock.advance(100)  # the lease is overdue: the claim sweeps as well
    with second.impatient():
        claimed = ids(claim(second.conn, limit=10))

    assert "also ready" in claimed


def test_a_sweep_inside_a_claim_does_not_wait_for_an_open_change_of_a_dependent(
    conn: Connection, clock: Clock, first: Session, second: Session
) -> None:
    submit_and_claim(conn, "parent")
    submit(conn, "child", p_wait_for=["parent"])
    submit(conn, "ready")
    call(conn, "cancel_job", p_job_id="parent", p_worker_id="w")
    clock.advance(100)  # to sweep the parent means to cancel the child, which somebody else is changing
    first.begin()
    call(first.conn, "cancel_job", p_job_id="child", p_worker_id="w")

    with second.impatient():
        assert ids(claim(second.conn, limit=10)) == ["ready"]
    first.commit()
    claim(second.conn)

    assert state(conn, "parent") == "UNKNOWN_STOPPED"
    assert state(conn, "child") == "UNSCHEDULED"


def test_pausing_a_queue_does_not_wait_for_a_claim_and_does_not_undo_it(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, ["a", "b"])
    first.begin()
    lease = claim_one(first.conn, "a")

    with second.impatient():
        call(second.conn, "pause_queue", p_queue="q")
        assert claim(second.conn) == []
    first.commit()

    assert settle(first.conn, "a", "complete", lease)["ok"]
    assert claim(first.conn) == []


def test_a_pause_that_is_not_committed_stops_nobody(
    conn: Connection, first: Session, second: Session
) -> None:
    submit(conn, "a")
    first.begin()
    call(first.conn, "pause_queue", p_queue="q")

    with second.impatient():
        assert ids(claim(second.conn)) == ["a"]


def test_what_a_stream_holds_is_answered_when_its_claims_under_way_are_over(
    conn: Connection, first: Session, second: Session
) -> None:
    """Its owner gave the claim up and asks what became of it; the server still works on it."""
    submit_many(conn, ["a", "b"])
    first.begin()
    taken = claim(first.conn, limit=1, p_stream_id=7)

    asked = second.start_blocked(lambda session: call(session, "jobs_of_stream", p_stream_id=7))
    first.commit()

    assert [row["lease_id"] for row in answer(asked)] == [row["lease_id"] for row in taken]


def test_a_claim_that_begins_while_somebody_asks_what_its_stream_holds_takes_nothing_and_waits_for_nobody(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, ["a", "b"])
    first.begin()
    call(first.conn, "jobs_of_stream", p_stream_id=7)

    with second.impatient():
        assert claim(second.conn, limit=1, p_stream_id=7) == []
        assert len(claim(second.conn, limit=1, p_stream_id=8)) == 1
    first.commit()

    assert len(claim(second.conn, limit=1, p_stream_id=7)) == 1


def claim_waiting(conn: Connection, job_id: str, **more: object) -> list[dict[str, object]]:
    """What somebody gets who was told of this job."""
    asked: dict[str, object] = {"p_worker_id": "w", "p_queues": ["q"], "p_limit": 5}
    return call(conn, "claim_waiting_job", p_job_id=job_id, **{**asked, **more})


def test_who_was_told_of_a_job_gets_that_job(conn: Connection) -> None:
    submit_many(conn, ["before", "told", "after"])

    (claimed,) = claim_waiting(conn, "told", p_lease_seconds=60, p_stream_id=7)

    ordinary = claim(conn, worker="w", limit=1, p_lease_seconds=60, p_stream_id=7)[0]
    assert claimed["job_id"] == "told"
    assert claimed.keys() == ordinary.keys()
    told, other = column(conn, "select to_jsonb(jobs) as row from holdfast.jobs where state = 'RUNNING'")
    assert {name for name in told if told[name] != other[name]} == {
        *("id", "name", "lease_id", "lease_expires_at", "lapses_at", "assigned_at", "started_at"),
    }


def test_who_asks_for_no_tag_gets_the_job_he_was_told_of(conn: Connection, database: str) -> None:
    submit_many(conn, ["before", "told"])
    submit(conn, "tagged", p_tags=["yes"])

    with SyncStore(database) as store:
        claimed = [store.claim_waiting_job(job_id, "w", ["q"]) for job_id in ("told", "tagged")]

    assert [[job.job_id for job in jobs] for jobs in claimed] == [["told"], ["tagged"]]


def test_an_empty_list_of_tags_asks_for_none(conn: Connection) -> None:
    submit_many(conn, ["before", "told"])

    assert ids(claim_waiting(conn, "told", p_tags=[])) == ["told"]


def test_who_was_told_of_a_job_that_somebody_takes_now_waits_for_nobody_and_gets_another(
    conn: Connection, first: Session, second: Session
) -> None:
    submit_many(conn, ["told", "other"])
    first.begin()
    assert ids(claim_waiting(first.conn, "told")) == ["told"]

    with second.impatient():
        assert ids(claim_waiting(second.conn, "told")) == ["other"]
        assert claim_waiting(second.conn, "told") == []
    first.commit()

    assert claim_waiting(second.conn, "told") == []


def test_two_who_were_told_of_one_job_do_not_both_get_it(
    conn: Connection, database: str, connect: Connect
) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        sessions = [connect(database) for _ in range(THREADS)]
        for number in range(50):
            submit(conn, f"job-{number}")
            told = threads.map(lambda session, job=f"job-{number}": claim_waiting(session, job), sessions)
            assert [job for claimed in told for job in ids(claimed)] == [f"job-{number}"]


@pytest.mark.parametrize(
    "terms",
    [
        {"p_queues": ["elsewhere"]},
        {"p_tags": ["no"]},
    ],
    ids=["queue", "tags"],
)
def test_a_job_told_of_that_does_not_fit_is_not_claimed(conn: Connection, terms: dict[str, object]) -> None:
    submit(conn, "told", p_tags=["yes"])

    assert claim_waiting(conn, "told", **terms) == []
    assert state(conn, "told") == "INITIAL_PENDING"


def test_no_job_of_a_paused_queue_is_claimed_though_somebody_was_told_of_it(conn: Connection) -> None:
    submit(conn, "told")
    call(conn, "pause_queue", p_queue="q")

    assert claim_waiting(conn, "told") == []


def test_a_job_told_of_takes_its_singleton_key_or_is_not_claimed(conn: Connection) -> None:
    submit(conn, "told", p_singleton_key="k")
    submit(conn, "second", p_singleton_key="k")

    assert ids(claim_waiting(conn, "told", p_limit=1)) == ["told"]
    assert claim_waiting(conn, "second") == []
    assert rows(conn, "select key from holdfast.holds") == [{"key": "k"}]


def test_a_job_told_of_is_traced_like_any_other(conn: Connection) -> None:
    call(conn, "set_trace_level", p_level="all")
    submit(conn, "told")

    claim_waiting(conn, "told")

    assert "job_retrieved" in column(conn, "select event_type from holdfast.jobs_trace where job_id = 'told'")


def test_a_claim_that_nobody_waits_for_any_more_claims_nothing_it_was_told_of(
    conn: Connection, first: Session
) -> None:
    submit(conn, "told")
    first.begin()
    call(first.conn, "jobs_of_stream", p_stream_id=7)

    assert claim_waiting(conn, "told", p_stream_id=7) == []
    first.commit()
    assert ids(claim_waiting(conn, "told", p_stream_id=7)) == ["told"]
