"""Jobs are part of the caller's transaction: they and their signals commit with it, or never were."""

from __future__ import annotations

import pytest
from psycopg.types.json import Jsonb

from tests.concurrency.sessions import Session, answer
from tests.engine.sql import (
    Connection,
    call,
    claim,
    claim_one,
    contents,
    job,
    listen,
    refusal,
    rows,
    settle,
    signals,
    state,
    submit,
    submit_and_claim,
)

JOB_EXISTS = "HF002"


def test_a_job_submitted_in_a_transaction_that_rolls_back_never_was(
    conn: Connection, first: Session, second: Session
) -> None:
    listen(second.conn, "q")
    before = contents(conn)
    first.begin()
    submit(first.conn, "job")
    assert claim(second.conn) == []
    first.rollback()

    assert contents(conn) == before
    assert signals(second.conn) == []
    submit(conn, "job")  # the id is still free


def test_a_job_submitted_in_a_transaction_exists_and_is_signalled_once_it_commits(
    first: Session, second: Session
) -> None:
    listen(second.conn, "q")
    first.begin()
    first.conn.execute("create table orders (id integer)")
    submit(first.conn, "job")
    assert signals(second.conn) == []
    first.commit()

    assert signals(second.conn) == [("holdfast.need.q", "job")]
    claim_one(second.conn, "job")


def test_a_completion_in_a_transaction_that_rolls_back_leaves_the_job_held_and_its_child_waiting(
    conn: Connection, first: Session, second: Session
) -> None:
    lease = submit_and_claim(conn, "job", p_singleton_key="k")
    submit(conn, "child", p_wait_for=["job"])
    listen(second.conn, "q")
    before = contents(conn)
    first.begin()
    settle(first.conn, "job", "complete", lease)
    assert state(first.conn, "job") == "COMPLETED"
    assert state(second.conn, "job") == "RUNNING"
    first.rollback()

    assert contents(conn) == before
    assert signals(second.conn) == []
    assert settle(conn, "job", "complete", lease)["ok"]


def test_work_and_its_completion_commit_together(conn: Connection, first: Session) -> None:
    conn.execute("create table ledger (entry text primary key)")
    lease = submit_and_claim(conn, "job")
    first.begin()
    first.conn.execute("insert into ledger values ('booked')")
    call(first.conn, "complete_job", p_job_id="job", p_lease_id=lease, p_worker_id="w")
    first.commit()

    assert rows(conn, "select entry from ledger") == [{"entry": "booked"}]
    assert state(conn, "job") == "COMPLETED"


def test_a_savepoint_undoes_a_claim_and_frees_its_key(
    conn: Connection, first: Session, second: Session
) -> None:
    submit(conn, "a", p_singleton_key="k")
    submit(conn, "b", p_singleton_key="k")
    first.begin()
    first.conn.execute("savepoint here")
    claim_one(first.conn, "a")
    first.conn.execute("rollback to here")

    with second.impatient():
        assert len(claim(second.conn, limit=9)) == 1


def test_the_same_id_submitted_twice_at_once_goes_to_one_and_the_other_is_told(
    conn: Connection, first: Session, second: Session
) -> None:
    first.begin()
    submit(first.conn, "job", p_payload=Jsonb({"from": "first"}))

    other = second.start_blocked(lambda conn: submit(conn, "job"))
    first.commit()
    error = refusal(lambda: answer(other))

    assert error.sqlstate == JOB_EXISTS
    assert 'job "job" already exists (INITIAL_PENDING)' in str(error)
    assert job(conn, "job")["payload"] == {"from": "first"}


def test_an_id_is_free_again_when_the_transaction_that_took_it_rolls_back(
    conn: Connection, first: Session, second: Session
) -> None:
    first.begin()
    submit(first.conn, "job")

    other = second.start_blocked(lambda conn: submit(conn, "job"))
    first.rollback()

    assert answer(other)["job_id"] == "job"
    assert state(conn, "job") == "INITIAL_PENDING"


def test_an_id_whose_finish_is_not_committed_yet_cannot_be_resubmitted(
    conn: Connection, first: Session, second: Session
) -> None:
    lease = submit_and_claim(conn, "job")
    first.begin()
    settle(first.conn, "job", "complete", lease)

    with second.impatient():
        open_error = refusal(lambda: submit(second.conn, "job"))
    own_error = refusal(lambda: submit(first.conn, "job"))
    first.rollback()
    settle(conn, "job", "complete", lease)
    error = refusal(lambda: submit(second.conn, "job"))

    assert [each.sqlstate for each in (open_error, own_error, error)] == [JOB_EXISTS] * 3
    assert '"job" already exists' in str(open_error)
    for completed in (own_error, error):
        assert 'job "job" has already completed and cannot be resubmitted' in str(completed)


def test_an_id_whose_deletion_is_open_is_free_once_that_commits(
    conn: Connection, first: Session, second: Session
) -> None:
    settle(conn, "job", "complete", submit_and_claim(conn, "job"))
    first.begin()
    call(first.conn, "delete_jobs", p_job_ids=["job"])

    again = second.start_blocked(lambda conn: submit(conn, "job"))
    first.commit()

    assert answer(again)["job_id"] == "job"


@pytest.mark.parametrize("function", ["set_trace", "set_notify"])
def test_a_switch_is_in_force_for_others_only_once_committed(
    first: Session, second: Session, function: str
) -> None:
    reader = {"set_trace": "trace_level", "set_notify": "is_notify_enabled"}[function]
    before = call(second.conn, reader)
    first.begin()
    call(first.conn, function, p_enabled=False)
    assert call(first.conn, reader) != before
    assert call(second.conn, reader) == before
    first.commit()

    assert call(second.conn, reader) != before


def test_a_threshold_is_in_force_for_others_only_once_committed(first: Session, second: Session) -> None:
    first.begin()
    call(first.conn, "set_crash_concern_threshold", p_threshold=1)
    assert call(second.conn, "crash_concern_threshold") == [{"crash_concern_threshold": 5}]
    first.commit()

    assert call(second.conn, "crash_concern_threshold") == [{"crash_concern_threshold": 1}]
