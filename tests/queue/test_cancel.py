"""Cancelling jobs by tags and by id, and reviving the dead."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import JobStatus, SyncQueue
from holdfast.errors import InvalidArgument, JobNotFound, WrongState
from tests.clock import Clock
from tests.queue.hand import bring, bring_all, cancelling, claim, enqueue, hold, status

S = JobStatus

CANCELLED = {
    S.INITIAL_PENDING: S.UNSCHEDULED,
    S.RUNNING: S.CANCELLING,
    S.CANCELLING: S.CANCELLING,
    S.FAILED_RETRY: S.STOPPED,
    S.UNKNOWN_RETRY: S.STOPPED,
    S.RESCHEDULED: S.STOPPED,
    S.DEAD: S.STOPPED,
}


def test_a_job_named_is_cancelled_according_to_its_state_and_finished_ones_are_unknown(
    queue: SyncQueue,
) -> None:
    ids = bring_all(queue)

    cancelled, unknown = queue.cancel_jobs(job_ids=[*ids, "nobody"])

    assert sorted(cancelled) == sorted(CANCELLED)
    assert sorted(unknown) == sorted([*(set(ids) - set(CANCELLED)), "nobody"])
    assert {S(job_id): status(queue, job_id) for job_id in cancelled} == CANCELLED
    for job_id in set(ids) - set(CANCELLED):
        assert status(queue, job_id) is S(job_id)


def test_a_job_that_is_cancelling_already_is_left_as_it_is(queue: SyncQueue) -> None:
    cancelling(queue)
    before = queue.get_job("job")

    assert queue.cancel_jobs(job_ids=["job"]) == (["job"], [])

    assert queue.get_job("job") == before


def test_what_ends_by_it_has_the_moment_of_its_end_and_what_runs_has_not(
    queue: SyncQueue, clock: Clock
) -> None:
    enqueue(queue, "waiting")
    hold(queue, "running")
    now = clock.freeze()

    queue.cancel_jobs(job_ids=["waiting", "running"])

    assert queue.get_job("waiting").finalized_at == now
    assert queue.get_job("running").finalized_at is None


def test_jobs_are_found_by_all_of_the_tags_and_finished_ones_are_not_mentioned(queue: SyncQueue) -> None:
    enqueue(queue, "both", tags=["b", "x", "a"])
    enqueue(queue, "one", tags=["a"])
    enqueue(queue, "case", tags=["A", "B"])
    bring(queue, S.COMPLETED, "done", tags=["a", "b"])

    assert queue.cancel_jobs(tags=["a", "b"]) == (["both"], [])
    assert status(queue, "one") is S.INITIAL_PENDING


def test_tags_and_ids_together_are_the_union_and_a_job_of_both_is_answered_once(queue: SyncQueue) -> None:
    enqueue(queue, "tagged", tags=["t"])
    enqueue(queue, "named")
    enqueue(queue, "both", tags=["t"])

    cancelled, unknown = queue.cancel_jobs(tags=["t"], job_ids=["named", "both", "both"])

    assert sorted(cancelled) == ["both", "named", "tagged"]
    assert unknown == []


def test_finished_jobs_are_unknown_only_when_they_are_named(queue: SyncQueue) -> None:
    bring(queue, S.COMPLETED, "done", tags=["t"])

    assert queue.cancel_jobs(tags=["t"]) == ([], [])
    assert queue.cancel_jobs(tags=["t"], job_ids=["done"]) == ([], ["done"])


@pytest.mark.parametrize("selection", [{}, {"tags": []}, {"job_ids": []}, {"tags": [], "job_ids": ()}])
@pytest.mark.parametrize("verb", ["cancel_jobs", "delete_jobs"])
def test_neither_tags_nor_ids_is_an_error_and_never_means_every_job(
    queue: SyncQueue, verb: str, selection: dict[str, Any]
) -> None:
    enqueue(queue, "job")

    with pytest.raises(InvalidArgument, match=f"{verb} needs tags or job ids"):
        getattr(queue, verb)(**selection)
    assert status(queue, "job") is S.INITIAL_PENDING


@pytest.mark.parametrize(
    "selection", [{"tags": "ab"}, {"job_ids": "ab"}, {"tags": [""]}, {"job_ids": [""]}, {"job_ids": [7]}]
)
@pytest.mark.parametrize("verb", ["cancel_jobs", "delete_jobs"])
def test_what_is_no_list_of_texts_is_refused(queue: SyncQueue, verb: str, selection: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(selection))):
        getattr(queue, verb)(**selection)


def test_a_cancelling_job_waits_for_its_workers_word(queue: SyncQueue) -> None:
    job = cancelling(queue)

    assert queue.claim_jobs("other", queues=["job"]) == []
    queue.acknowledge_cancellation("job", True, lease_id=job.lease_id)

    assert status(queue, "job") is S.STOPPED


def test_a_cancelled_job_takes_those_that_wait_for_it_along(queue: SyncQueue) -> None:
    enqueue(queue, "parent")
    enqueue(queue, "child", wait_for=["parent"])

    queue.cancel_jobs(job_ids=["parent"])

    assert status(queue, "child") is S.UNSCHEDULED


def test_a_dead_job_is_revived_due_now_with_its_attempts_at_zero_and_its_end_forgotten(
    queue: SyncQueue, clock: Clock
) -> None:
    bring(queue, S.DEAD, "job")
    now = clock.freeze()

    queue.revive_job("job")

    found = queue.get_job("job")
    assert (found.status, found.retry_count, found.finalized_at) == (S.RESCHEDULED, 0, None)
    assert (found.available_at, found.error_message) == (now, "boom")
    assert claim(queue, "job").retry_count == 0


def test_only_the_dead_are_revived(queue: SyncQueue) -> None:
    for job_id in bring_all(queue):
        if job_id != S.DEAD:
            with pytest.raises(WrongState, match=f'job "{job_id}" is {job_id}'):
                queue.revive_job(job_id)
    with pytest.raises(JobNotFound, match="nobody"):
        queue.revive_job("nobody")
    with pytest.raises(InvalidArgument, match="job_id is empty"):
        queue.revive_job("")


def test_dead_jobs_are_listed_by_queue_the_latest_first(queue: SyncQueue, clock: Clock) -> None:
    clock.freeze()
    for job_id in ("a", "b", "c"):
        bring(queue, S.DEAD, job_id)
        clock.advance(1)
    bring(queue, S.FAILED_RETRY, "alive")

    assert [job.id for job in queue.list_dead_jobs()] == ["c", "b", "a"]
    assert [job.id for job in queue.list_dead_jobs("b")] == ["b"]
    assert [job.id for job in queue.list_dead_jobs(limit=2)] == ["c", "b"]
    assert queue.list_dead_jobs("alive") == []
    assert all(job.status is S.DEAD for job in queue.list_dead_jobs())
    with pytest.raises(InvalidArgument, match="queue is empty"):
        queue.list_dead_jobs("")
