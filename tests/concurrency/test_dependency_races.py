"""A child submitted while its parent ends, and the reverse: no order of commits strands it."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.errors import SerializationFailure

from tests.clock import Clock
from tests.concurrency.sessions import Session, answer
from tests.engine.sql import (
    Connection,
    call,
    claim_one,
    contents,
    job,
    refusal,
    rows,
    settle,
    state,
    states,
    status,
    submit,
    submit_and_claim,
)

LEVELS = ["read committed", "repeatable read"]


def complete(conn: Connection, lease: str) -> object:
    return call(conn, "complete_job", p_job_id="parent", p_lease_id=lease, p_worker_id="w")


def settle_complete(conn: Connection, lease: str) -> object:
    return settle(conn, "parent", "complete", lease)


COMPLETIONS = [complete, settle_complete]


def submit_child(conn: Connection) -> object:
    return submit(conn, "child", p_wait_for=["parent"])


@pytest.mark.parametrize("finish", COMPLETIONS)
def test_a_child_submitted_while_its_parents_completion_is_open_is_not_stranded(
    conn: Connection, first: Session, second: Session, finish: Callable[[Connection, str], object]
) -> None:
    lease = submit_and_claim(conn, "parent")
    first.begin()
    finish(first.conn, lease)

    submission = second.start_blocked(submit_child)
    first.commit()
    answer(submission)

    assert (job(conn, "child")["wait_for"], status(conn, "child")) == ([], "READY")


@pytest.mark.parametrize("finish", COMPLETIONS)
def test_a_parent_completed_while_its_childs_submission_is_open_releases_it(
    conn: Connection, first: Session, second: Session, finish: Callable[[Connection, str], object]
) -> None:
    lease = submit_and_claim(conn, "parent")
    first.begin()
    submit_child(first.conn)

    completion = second.start_blocked(lambda conn: finish(conn, lease))
    first.commit()
    answer(completion)

    assert (job(conn, "child")["wait_for"], status(conn, "child")) == ([], "READY")


def test_a_parent_whose_completion_is_rolled_back_keeps_its_new_child_waiting(
    conn: Connection, first: Session, second: Session
) -> None:
    lease = submit_and_claim(conn, "parent")
    first.begin()
    complete(first.conn, lease)
    submission = second.start_blocked(submit_child)
    first.rollback()
    answer(submission)
    assert status(conn, "child") == "PENDING_JOBS"

    complete(conn, lease)

    assert status(conn, "child") == "READY"


def test_at_repeatable_read_a_submission_that_cannot_see_its_parents_end_is_refused_and_may_be_repeated(
    conn: Connection, first: Session, second: Session
) -> None:
    lease = submit_and_claim(conn, "parent")
    second.begin("repeatable read")
    second.conn.execute("select 1")  # its view of the world begins here
    first.begin("repeatable read")
    complete(first.conn, lease)

    submission = second.start_blocked(submit_child)
    first.commit()
    with pytest.raises(SerializationFailure):
        answer(submission)
    second.rollback()
    submit_child(second.conn)

    assert status(conn, "child") == "READY"


@pytest.mark.parametrize("finish", COMPLETIONS)
def test_at_repeatable_read_a_completion_that_cannot_see_the_child_is_refused_and_may_be_repeated(
    conn: Connection, first: Session, second: Session, finish: Callable[[Connection, str], object]
) -> None:
    lease = submit_and_claim(conn, "parent")
    second.begin("repeatable read")
    second.conn.execute("select 1")
    first.begin("repeatable read")
    submit_child(first.conn)

    completion = second.start_blocked(lambda conn: finish(conn, lease))
    first.commit()
    with pytest.raises(SerializationFailure):
        answer(completion)
    second.rollback()
    finish(second.conn, lease)

    assert status(conn, "child") == "READY"


@pytest.mark.parametrize("level", LEVELS)
def test_at_every_level_a_submission_after_the_parents_end_sees_it_or_is_refused(
    conn: Connection, first: Session, second: Session, level: str
) -> None:
    lease = submit_and_claim(conn, "parent")
    second.begin(level)
    second.conn.execute("select 1")
    complete(first.conn, lease)

    try:
        submit_child(second.conn)
    except SerializationFailure:
        second.rollback()
        submit_child(second.conn)
    else:
        second.commit()

    assert status(conn, "child") == "READY"


def test_two_parents_that_complete_at_once_release_their_child(
    conn: Connection, first: Session, second: Session
) -> None:
    leases = {job_id: submit_and_claim(conn, job_id) for job_id in ("a", "b")}
    submit(conn, "child", p_wait_for=["a", "b"])
    first.begin()
    settle(first.conn, "a", "complete", leases["a"])

    other = second.start_blocked(lambda conn: settle(conn, "b", "complete", leases["b"]))
    first.commit()

    assert answer(other)["ok"]
    assert status(conn, "child") == "READY"


def test_a_child_submitted_while_its_parent_is_being_cancelled_is_refused_afterwards(
    conn: Connection, first: Session, second: Session
) -> None:
    submit(conn, "parent")
    first.begin()
    call(first.conn, "cancel_job", p_job_id="parent", p_worker_id="w")

    submission = second.start_blocked(submit_child)
    first.commit()
    error = refusal(lambda: answer(submission))

    assert error.sqlstate == "22023"
    assert 'names job "parent", which was cancelled (UNSCHEDULED)' in str(error)
    assert rows(conn, "select from holdfast.job_names where name = 'child'") == []


def test_a_parent_cancelled_while_its_childs_submission_is_open_takes_it_along(
    conn: Connection, first: Session, second: Session
) -> None:
    submit(conn, "parent")
    first.begin()
    submit_child(first.conn)

    cancelling = second.start_blocked(
        lambda conn: call(conn, "cancel_job", p_job_id="parent", p_worker_id="w")
    )
    first.commit()
    answer(cancelling)

    assert states(conn, "parent", "child") == ["UNSCHEDULED", "UNSCHEDULED"]


def test_a_child_submitted_while_its_parent_dies_follows_its_rule(
    conn: Connection, first: Session, second: Session
) -> None:
    lease = submit_and_claim(conn, "parent", p_max_attempts=1)
    first.begin()
    settle(first.conn, "parent", "fail", lease, p_messages=["boom"])

    submission = second.start_blocked(
        lambda conn: submit(conn, "child", p_wait_for=["parent"], p_if_parent_fails="cancel")
    )
    first.commit()
    answer(submission)

    assert states(conn, "parent", "child") == ["DEAD", "UNSCHEDULED"]


def unknown_stopped(conn: Connection) -> str:
    """A parent that ended and may still be completed, because nobody knew what its worker did."""
    lease = submit_and_claim(conn, "parent")
    settle(conn, "parent", "mark_unknown_stopped", lease)
    return lease


def submit_waiting_child(conn: Connection) -> object:
    return submit(conn, "child", p_wait_for=["parent"], p_if_parent_fails="wait")


def test_a_child_submitted_while_its_unknown_stopped_parent_is_completed_is_not_stranded(
    conn: Connection, first: Session, second: Session
) -> None:
    lease = unknown_stopped(conn)
    first.begin()
    assert settle_complete(first.conn, lease)

    submission = second.start_blocked(submit_waiting_child)
    first.commit()
    answer(submission)

    assert status(conn, "child") == "READY"


def test_an_unknown_stopped_parent_completed_while_its_childs_submission_is_open_releases_it(
    conn: Connection, first: Session, second: Session
) -> None:
    lease = unknown_stopped(conn)
    first.begin()
    submit_waiting_child(first.conn)

    completion = second.start_blocked(lambda conn: settle_complete(conn, lease))
    first.commit()
    answer(completion)

    assert status(conn, "child") == "READY"


def test_at_repeatable_read_an_unknown_stopped_parent_is_not_completed_past_a_new_child(
    conn: Connection, first: Session, second: Session
) -> None:
    lease = unknown_stopped(conn)
    second.begin("repeatable read")
    second.conn.execute("select 1")
    submit_waiting_child(first.conn)

    with pytest.raises(SerializationFailure):
        settle_complete(second.conn, lease)
    second.rollback()
    settle_complete(second.conn, lease)

    assert status(conn, "child") == "READY"


def end_parent(conn: Connection, ending: str) -> None:
    if ending == "STOPPED":
        lease = submit_and_claim(conn, "parent")
        settle(conn, "parent", "stop", lease)
    else:
        lease = submit_and_claim(conn, "parent", p_max_attempts=1)
        settle(conn, "parent", "fail", lease, p_messages=["boom"])
    assert state(conn, "parent") == ending


def delete_parent(conn: Connection) -> object:
    return call(conn, "delete_jobs", p_job_ids=["parent"])


@pytest.mark.parametrize("ending", ["STOPPED", "DEAD"])
def test_a_child_submitted_while_its_parent_is_being_deleted_is_refused(
    conn: Connection, first: Session, second: Session, ending: str
) -> None:
    end_parent(conn, ending)
    first.begin()
    delete_parent(first.conn)

    submission = second.start_blocked(submit_waiting_child)
    first.commit()
    error = refusal(lambda: answer(submission))

    assert 'names job "parent", which does not exist' in str(error)
    assert rows(conn, "select from holdfast.jobs") == []


@pytest.mark.parametrize("ending", ["STOPPED", "DEAD"])
def test_a_parent_is_not_deleted_while_its_childs_submission_is_open(
    conn: Connection, first: Session, second: Session, ending: str
) -> None:
    end_parent(conn, ending)
    first.begin()
    submit_waiting_child(first.conn)

    deletion = second.start_blocked(delete_parent)
    first.commit()
    error = refusal(lambda: answer(deletion))

    assert error.sqlstate == "HF003"
    assert 'job "child" waits for job "parent"' in str(error)
    assert (state(conn, "parent"), status(conn, "child")) == (ending, "PENDING_JOBS")


def test_two_deletions_of_one_job_count_it_once(conn: Connection, first: Session, second: Session) -> None:
    end_parent(conn, "STOPPED")
    first.begin()
    assert delete_parent(first.conn) == [{"delete_jobs": 1}]

    other = second.start_blocked(delete_parent)
    first.commit()

    assert answer(other) == [{"delete_jobs": 0}]


def reschedule(conn: Connection, job_id: str, lease: str, parent: str) -> object:
    return call(
        conn,
        "reschedule_job",
        p_job_id=job_id,
        p_lease_id=lease,
        p_worker_id="w",
        p_next_need="q",
        p_wait_for=[parent],
    )


def test_two_reschedules_at_once_that_wait_for_each_other_do_not_close_a_cycle(
    conn: Connection, first: Session, second: Session
) -> None:
    leases = {job_id: submit_and_claim(conn, job_id) for job_id in ("a", "b")}
    first.begin()
    reschedule(first.conn, "a", leases["a"], "b")

    other = second.start_blocked(lambda conn: reschedule(conn, "b", leases["b"], "a"))
    first.commit()
    error = refusal(lambda: answer(other))

    assert error.sqlstate == "22023"
    assert "b waits for a, which waits for b" in str(error)


def test_two_reschedules_of_different_jobs_at_once_do_not_close_a_longer_cycle(
    conn: Connection, first: Session, second: Session
) -> None:
    leases = {job_id: submit_and_claim(conn, job_id) for job_id in ("a", "c")}
    submit(conn, "b", p_wait_for=["c"])
    submit(conn, "d", p_wait_for=["a"])
    first.begin()
    reschedule(first.conn, "a", leases["a"], "b")

    other = second.start_blocked(lambda conn: reschedule(conn, "c", leases["c"], "d"))
    first.commit()
    error = refusal(lambda: answer(other))

    assert isinstance(error, psycopg.errors.InvalidParameterValue)
    assert "c waits for d, which waits for a, which waits for b, which waits for c" in str(error)


def test_a_lapse_races_a_childs_submission_without_stranding_it(
    conn: Connection, clock: Clock, first: Session, second: Session
) -> None:
    submit_and_claim(conn, "parent")
    call(conn, "cancel_job", p_job_id="parent", p_worker_id="w")
    clock.advance(100)
    first.begin()
    submit_child(first.conn)

    with second.impatient():
        assert call(second.conn, "lapse_leases") == []  # somebody is busy with the parent: next time
    first.commit()
    call(second.conn, "lapse_leases")

    assert states(conn, "parent", "child") == ["UNKNOWN_STOPPED", "UNSCHEDULED"]


def test_a_refused_submission_leaves_nothing_behind(
    conn: Connection, first: Session, second: Session
) -> None:
    submit(conn, "parent")
    claim_one(conn, "parent")
    before = contents(conn)
    first.begin()
    submit_child(first.conn)
    first.rollback()

    assert contents(second.conn) == before
