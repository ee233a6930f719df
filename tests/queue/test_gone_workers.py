"""Workers that are gone: marked unresponsive, reset, released, found stuck, or simply lapsed."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from holdfast import JobStatus, SyncQueue
from holdfast.errors import InvalidArgument
from tests.clock import Clock
from tests.queue.hand import bring, bring_all, cancelling, claim, enqueue, hold, status

S = JobStatus


def test_a_worker_marked_unresponsive_loses_what_it_runs_and_what_it_was_asked_to_stop(
    queue: SyncQueue,
) -> None:
    running = hold(queue, "running", "gone")
    stopping = cancelling(queue, "cancelling", worker_id="gone")
    hold(queue, "other", "here")

    assert queue.mark_worker_unresponsive("gone") == 2

    assert [status(queue, job_id) for job_id in ("running", "cancelling", "other")] == [
        S.UNKNOWN_RETRY,
        S.UNKNOWN_STOPPED,
        S.RUNNING,
    ]
    for before in (running, stopping):
        found = queue.get_job(before.id)
        assert (found.assignee_id, found.assigned_at) == ("gone", before.assigned_at)
        assert (found.worker_id, found.lease_id) == (None, None)
    assert claim(queue, "running", "next").retry_count == 0


def test_a_worker_without_jobs_is_no_error(queue: SyncQueue) -> None:
    bring(queue, S.COMPLETED)

    assert queue.mark_worker_unresponsive("w") == 0
    assert queue.mark_worker_unresponsive("never was") == 0


def test_a_worker_may_be_a_number_and_zero_is_one(queue: SyncQueue) -> None:
    enqueue(queue, "job")
    queue.acquire_next("job", 0, 30)

    assert queue.mark_worker_unresponsive(0) == 1
    assert queue.mark_worker_unresponsive("0") == 0


def test_the_assignee_must_not_be_empty(queue: SyncQueue) -> None:
    with pytest.raises(InvalidArgument, match="assignee_id is empty"):
        queue.mark_worker_unresponsive("")
    with pytest.raises(InvalidArgument, match="assignee_id must be text"):
        queue.mark_worker_unresponsive(None)  # type: ignore[arg-type]


def test_a_reset_takes_every_held_job_from_its_worker_and_no_other(queue: SyncQueue) -> None:
    ids = bring_all(queue)
    before = {job_id: queue.get_job(job_id) for job_id in ids}

    assert queue.reset_running_jobs() == 2

    for job_id in ids:
        found = queue.get_job(job_id)
        assert (found.assignee_id, found.assigned_at) == (
            before[job_id].assignee_id,
            before[job_id].assigned_at,
        )
        if job_id == S.RUNNING:
            assert found.status is S.UNKNOWN_RETRY
        elif job_id == S.CANCELLING:
            assert (found.status, found.finalized_at is None) == (S.UNKNOWN_STOPPED, False)
        else:
            assert found == before[job_id]


def test_a_reset_of_nothing_is_no_error(queue: SyncQueue) -> None:
    enqueue(queue, "waiting")

    assert queue.reset_running_jobs() == 0
    assert queue.reset_running_jobs() == 0


def test_a_released_job_is_eligible_at_once_for_any_worker(queue: SyncQueue) -> None:
    held = hold(queue, worker_id="1")

    assert queue.release("job") is True

    found = queue.get_job("job")
    assert (found.status, found.worker_id, found.lease_id) == (S.UNKNOWN_RETRY, None, None)
    assert (found.assignee_id, found.retry_count) == ("1", 0)
    assert claim(queue, "job", "2").lease_id != held.lease_id


def test_a_release_of_what_nobody_holds_is_false_and_changes_nothing(queue: SyncQueue) -> None:
    for job_id in bring_all(queue):
        before = queue.get_job(job_id)
        if job_id in (S.RUNNING, S.CANCELLING):
            continue
        assert queue.release(job_id) is False
        assert queue.get_job(job_id) == before
    assert queue.release(S.CANCELLING) is True
    assert status(queue, S.CANCELLING) is S.UNKNOWN_STOPPED
    assert queue.release("nobody") is False
    with pytest.raises(InvalidArgument, match="job_id is empty"):
        queue.release("")


def test_stuck_jobs_are_those_held_whose_last_claim_is_longer_ago(queue: SyncQueue, clock: Clock) -> None:
    clock.freeze()
    for state in (S.RUNNING, S.CANCELLING, S.INITIAL_PENDING, S.COMPLETED):
        bring(queue, state)
    clock.advance(600)
    enqueue(queue, "fresh")
    # Not through a claim: that would sweep what is overdue.
    assert [job.id for job in queue.list_stuck_jobs(600)] == []
    clock.advance(1)

    stuck = queue.list_stuck_jobs(timedelta(minutes=10))

    assert sorted(job.id for job in stuck) == [S.CANCELLING, S.RUNNING]
    assert {job.status for job in stuck} == {S.RUNNING, S.CANCELLING}
    assert {job.worker_id for job in stuck} == {"w"}


def test_a_job_whose_lease_is_extended_is_not_stuck(queue: SyncQueue, clock: Clock) -> None:
    clock.freeze()
    hold(queue, "quiet")
    hold(queue, "busy")
    for _ in range(30):
        clock.advance(25)
        queue.heartbeat_job("busy", "w", 30)
    clock.advance(20)

    assert [job.id for job in queue.list_stuck_jobs(600)] == ["quiet"]


def test_stuck_jobs_come_oldest_first_and_no_more_than_asked_for(queue: SyncQueue, clock: Clock) -> None:
    clock.freeze()
    for job_id in ("b", "a", "c"):
        enqueue(queue, job_id)
        claim(queue, job_id, lease=10_000)
        clock.advance(1)
    clock.advance(100)

    assert [job.id for job in queue.list_stuck_jobs(50)] == ["b", "a", "c"]
    assert [job.id for job in queue.list_stuck_jobs(50, limit=1)] == ["b"]


@pytest.mark.parametrize("stale", [0, -1, timedelta(0), "ten"])
def test_what_is_no_duration_is_refused(queue: SyncQueue, stale: float) -> None:
    with pytest.raises(InvalidArgument, match="stale must be"):
        queue.list_stuck_jobs(stale)


def test_a_stuck_job_is_found_released_and_taken_by_another(queue: SyncQueue, clock: Clock) -> None:
    """The scenario of the specification: acquire, crash, list, release, acquire."""
    clock.freeze()
    enqueue(queue, "mail")
    queue.acquire_next("mail", 3, timedelta(hours=1))
    clock.advance(15 * 60)

    for job in queue.list_stuck_jobs(timedelta(minutes=10)):
        queue.release(job.id)

    taken = queue.acquire_next("mail", 4, 30)
    assert taken is not None
    assert (taken.id, taken.worker_id) == ("mail", "4")


def test_a_lease_that_lapsed_is_swept_by_the_next_claim_and_costs_no_attempt(
    queue: SyncQueue, clock: Clock
) -> None:
    hold(queue, "job", "gone")
    cancelling(queue, "stopping")
    clock.advance(31)

    again = claim(queue, "job", "next")

    assert (again.retry_count, again.assignee_id) == (0, "next")
    assert status(queue, "stopping") is S.UNKNOWN_STOPPED


@pytest.mark.parametrize("leave", ["release", "reset", "unresponsive", "lapse"])
def test_only_a_lapse_counts_towards_a_crash_concern(
    queue: SyncQueue, clock: Clock, conn: psycopg.Connection[object], leave: str
) -> None:
    conn.execute("select holdfast.set_crash_concern_threshold(1)")
    hold(queue, "job", "gone")
    match leave:
        case "release":
            queue.release("job")
        case "reset":
            queue.reset_running_jobs()
        case "unresponsive":
            queue.mark_worker_unresponsive("gone")
        case _:
            clock.advance(31)

    taken = queue.claim_jobs("next", queues=["job"])

    assert [job.id for job in taken] == ([] if leave == "lapse" else ["job"])
