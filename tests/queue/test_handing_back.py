"""Handing a running job back: requeue counts an attempt, reschedule and retry later do not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from holdfast import JobStatus, SyncQueue
from holdfast.errors import InvalidArgument, JobNotFound, LeaseLost, WrongState
from tests.clock import Clock
from tests.queue.hand import bring_all, claim, hold, status

S = JobStatus

NAIVE = datetime(2030, 1, 1)
LATER = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_requeued_job_counts_an_attempt_and_keeps_the_error(queue: SyncQueue, clock: Clock) -> None:
    hold(queue)
    now = clock.freeze()

    assert queue.requeue_job("job", now + timedelta(minutes=1), error="connection reset") is False

    found = queue.get_job("job")
    assert (found.status, found.retry_count, found.error_message) == (S.FAILED_RETRY, 1, "connection reset")
    assert (found.last_retry_at, found.available_at) == (now, now + timedelta(minutes=1))
    assert (found.finalized_at, found.worker_id) == (None, None)


def test_a_requeued_job_is_due_at_once_unless_a_moment_is_given(queue: SyncQueue, clock: Clock) -> None:
    hold(queue)
    now = clock.freeze()

    queue.requeue_job("job")

    assert queue.get_job("job").available_at == now
    assert claim(queue, "job").retry_count == 1


def test_a_requeue_without_a_text_keeps_the_last_error(queue: SyncQueue) -> None:
    hold(queue)
    queue.requeue_job("job", error="first")
    claim(queue, "job")

    queue.requeue_job("job")

    found = queue.get_job("job")
    assert (found.retry_count, found.error_message) == (2, "first")


def test_a_requeue_at_the_last_attempt_is_the_end_like_a_failure(queue: SyncQueue, clock: Clock) -> None:
    hold(queue, max_attempts=1)
    now = clock.freeze()

    assert queue.requeue_job("job", LATER, error="again") is True

    found = queue.get_job("job")
    assert (found.status, found.finalized_at, found.error_message) == (S.DEAD, now, "again")


def test_a_rescheduled_job_has_another_due_time_and_nobody_holds_it_and_nothing_else_changes(
    queue: SyncQueue, clock: Clock
) -> None:
    hold(queue)
    queue.fail_job("job", "earlier")
    claim(queue, "job")
    before = queue.get_job("job")

    queue.reschedule_job("job", LATER)

    found = queue.get_job("job")
    assert (found.status, found.available_at) == (S.RESCHEDULED, LATER)
    assert (found.worker_id, found.lease_id, found.lease_expires_at) == (None, None, None)
    kept = ("retry_count", "error_message", "last_retry_at", "finalized_at", "assignee_id", "assigned_at")
    for name in (*kept, "started_at", "created_at", "queue", "result"):
        assert getattr(found, name) == getattr(before, name), name
    assert queue.claim_jobs("w", queues=["job"]) == []
    clock.freeze(LATER)
    assert claim(queue, "job").retry_count == 1


def test_a_job_may_be_rescheduled_any_number_of_times_and_still_has_its_last_attempt(
    queue: SyncQueue,
) -> None:
    hold(queue, max_attempts=1)
    for _ in range(20):
        queue.reschedule_job("job", datetime.now(UTC))
        assert claim(queue, "job").retry_count == 0


def test_a_moment_may_be_given_in_any_zone(queue: SyncQueue) -> None:
    hold(queue)

    queue.reschedule_job("job", datetime(2030, 1, 1, 9, tzinfo=timezone(timedelta(hours=9))))

    assert queue.get_job("job").available_at == LATER


def test_a_reschedule_names_its_reason_in_the_trace(queue: SyncQueue, conn: psycopg.Connection[Any]) -> None:
    hold(queue, "rescheduled")
    hold(queue, "later")
    queue.reschedule_job("rescheduled", LATER)
    queue.retry_later("later", LATER)

    rows = conn.execute(
        "select job_id, input_data ->> 'reason' from holdfast.jobs_trace where event_type = 'reschedule_job'"
    ).fetchall()
    assert dict(rows) == {"rescheduled": "reschedule", "later": "retry_later"}


def test_retry_later_hides_the_job_until_then_without_an_attempt(queue: SyncQueue, clock: Clock) -> None:
    now = clock.freeze()
    hold(queue)

    assert queue.retry_later("job", now + timedelta(minutes=2)) is True

    found = queue.get_job("job")
    assert (found.status, found.retry_count, found.worker_id) == (S.RESCHEDULED, 0, None)
    clock.advance(119)
    assert queue.acquire_next("job", 1, 30) is None
    clock.advance(1)
    assert queue.acquire_next("job", 1, 30) is not None


def test_retry_later_of_what_does_not_run_is_false_and_changes_nothing(queue: SyncQueue) -> None:
    for job_id in bring_all(queue):
        if job_id == S.RUNNING:
            continue
        before = queue.get_job(job_id)
        assert queue.retry_later(job_id, LATER) is False
        assert queue.get_job(job_id) == before
    assert queue.retry_later("nobody", LATER) is False


Verb = Callable[..., object]


@pytest.mark.parametrize("name", ["requeue_job", "reschedule_job"])
def test_only_a_running_job_goes_back_and_the_error_names_what_was_found(queue: SyncQueue, name: str) -> None:
    verb: Verb = getattr(queue, name)
    for job_id in bring_all(queue):
        if job_id == S.RUNNING:
            continue
        before = queue.get_job(job_id)
        with pytest.raises(WrongState, match=f'job "{job_id}" is {job_id}.*it starts from RUNNING'):
            verb(job_id, LATER)
        assert queue.get_job(job_id) == before
    with pytest.raises(JobNotFound, match='job "nobody" does not exist'):
        verb("nobody", LATER)


@pytest.mark.parametrize("name", ["requeue_job", "reschedule_job"])
def test_the_guards_of_a_hand_back_are_checked_when_given(queue: SyncQueue, name: str) -> None:
    verb: Verb = getattr(queue, name)
    held = hold(queue)
    for guard in ({"lease_id": "another"}, {"worker_id": "another"}):
        with pytest.raises(LeaseLost, match='does not hold job "job"'):
            verb("job", LATER, **guard)
    assert status(queue, "job") is S.RUNNING

    verb("job", LATER, lease_id=held.lease_id, worker_id="w")

    assert status(queue, "job") is not S.RUNNING


@pytest.mark.parametrize("name", ["requeue_job", "reschedule_job", "retry_later"])
@pytest.mark.parametrize(("job_id", "moment"), [("", LATER), ("job", NAIVE), ("job", "soon"), ("job", 60)])
def test_an_empty_id_or_a_moment_without_a_zone_is_refused(
    queue: SyncQueue, name: str, job_id: str, moment: Any
) -> None:
    verb: Verb = getattr(queue, name)
    hold(queue)

    with pytest.raises(InvalidArgument, match=r"job_id is empty|available_at"):
        verb(job_id, moment)
    assert status(queue, "job") is S.RUNNING


def test_a_requeue_takes_text_only(queue: SyncQueue) -> None:
    hold(queue)

    with pytest.raises(InvalidArgument, match="error must be text"):
        queue.requeue_job("job", error=None)  # type: ignore[arg-type]
    assert status(queue, "job") is S.RUNNING
