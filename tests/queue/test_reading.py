"""Reading, counting and forgetting jobs."""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast import Job, JobStats, JobStatus, SyncQueue
from holdfast.errors import InvalidArgument, JobNotFound, WrongState
from tests.clock import Clock
from tests.queue.hand import bring, bring_all, cancelling, claim, enqueue, hold, status

S = JobStatus


def test_a_job_is_read_with_every_field_at_each_step_of_its_life(queue: SyncQueue, clock: Clock) -> None:
    born = clock.freeze()
    enqueue(queue, "job", tags=["t"], max_attempts=5)
    started = clock.advance(1)
    first = claim(queue, "job", "one")
    assert queue.get_job("job") == first
    failed = clock.advance(1)
    queue.fail_job("job", "boom")
    assigned = clock.advance(1)
    held = claim(queue, "job", "two")
    assert queue.get_job("job") == held
    assert (held.worker_id, held.lease_expires_at) == ("two", assigned + timedelta(seconds=30))
    ended = clock.advance(1)
    queue.complete_job("job", {"ok": True})

    assert queue.get_job("job") == Job(
        "job",
        tags=("t",),
        status=S.COMPLETED,
        queue="job",
        created_at=born,
        available_at=failed,
        max_attempts=5,
        started_at=started,
        finalized_at=ended,
        error_message="boom",
        result={"ok": True},
        retry_count=1,
        last_retry_at=failed,
        assignee_id="two",
        assigned_at=assigned,
    )


def test_whether_a_job_is_held_is_told_by_its_worker_and_not_by_its_assignee(queue: SyncQueue) -> None:
    for job_id in bring_all(queue):
        found = queue.get_job(job_id)
        held = job_id in (S.RUNNING, S.CANCELLING)
        assert (found.worker_id == "w", found.lease_id is not None) == (held, held)
        assert (found.lease_expires_at is not None) == held
        assert (found.assignee_id == "w") == (job_id not in (S.INITIAL_PENDING, S.UNSCHEDULED))


def test_a_final_status_always_has_its_moment_and_no_other_has(queue: SyncQueue) -> None:
    final = {S.COMPLETED, S.STOPPED, S.UNKNOWN_STOPPED, S.UNSCHEDULED, S.DEAD}
    for job_id in bring_all(queue):
        found = queue.get_job(job_id)
        assert (found.finalized_at is not None) == (found.status in final), job_id


def test_every_moment_is_in_utc(queue: SyncQueue) -> None:
    hold(queue, expires_at=datetime(2999, 1, 1, tzinfo=UTC))
    queue.fail_job("job", "boom")
    held = claim(queue, "job")
    queue.complete_job("job")

    for job in (held, queue.get_job("job")):
        moments = [getattr(job, each.name) for each in fields(Job)]
        assert {moment.tzinfo for moment in moments if isinstance(moment, datetime)} == {UTC}


def test_a_job_that_does_not_exist_is_an_error(queue: SyncQueue) -> None:
    with pytest.raises(JobNotFound, match='job "nobody" does not exist'):
        queue.get_job("nobody")
    with pytest.raises(KeyError):
        queue.get_job("j7")
    with pytest.raises(InvalidArgument, match="job_id is empty"):
        queue.get_job("")


def contents(conn: psycopg.Connection[Any]) -> list[Any]:
    return conn.execute(
        "select 1, jobs::text, xmin::text from holdfast.jobs "
        "union all select 2, archived::text, xmin::text from holdfast.archived_jobs as archived order by 1, 2"
    ).fetchall()


def test_reading_and_counting_change_nothing(queue: SyncQueue, conn: psycopg.Connection[Any]) -> None:
    ids = bring_all(queue)
    before = contents(conn)

    for job_id in ids:
        queue.get_job(job_id)
    queue.get_job_stats()
    queue.list_dead_jobs()
    queue.list_stuck_jobs(1)

    assert contents(conn) == before


def test_the_statistics_count_every_state_once_and_add_up(queue: SyncQueue) -> None:
    bring_all(queue, tags=["t", "u"])
    enqueue(queue, "untagged")

    stats = queue.get_job_stats(["t"])

    # Two retries: FAILED_RETRY and DEAD have one each.
    assert stats == JobStats(("t",), 11, 2, 2, 1, 3, 3, 2)
    assert stats.total_jobs == sum(
        (
            stats.pending_jobs,
            stats.running_jobs,
            stats.completed_jobs,
            stats.stopped_jobs,
            stats.failed_jobs,
        )
    )


def test_statistics_are_of_the_jobs_with_all_tags_and_of_all_jobs_without_tags(queue: SyncQueue) -> None:
    enqueue(queue, "both", tags=["b", "a"])
    enqueue(queue, "one", tags=["a"])
    enqueue(queue, "none")

    assert queue.get_job_stats(["a", "b", "a"]) == JobStats(("a", "b"), 1, 1, 0, 0, 0, 0, 0)
    assert queue.get_job_stats(["a"]).total_jobs == 2
    assert queue.get_job_stats(["A"]).total_jobs == 0
    for none in (queue.get_job_stats(), queue.get_job_stats([]), queue.get_job_stats(())):
        assert (none.tags, none.total_jobs) == ((), 3)
    with pytest.raises(InvalidArgument, match="tags must be a list"):
        queue.get_job_stats("a")


def test_cleanup_deletes_completed_jobs_older_than_the_ttl_by_their_end_and_no_others(
    queue: SyncQueue, clock: Clock
) -> None:
    clock.freeze()
    bring_all(queue)
    enqueue(queue, "late")
    claim(queue, "late", lease=10_000)
    clock.advance(60)
    queue.complete_job("late")

    assert queue.cleanup_expired_jobs(60) == 0
    clock.advance(1)
    assert queue.cleanup_expired_jobs(timedelta(minutes=1)) == 1

    with pytest.raises(JobNotFound):
        queue.get_job(S.COMPLETED)
    assert status(queue, "late") is S.COMPLETED
    assert queue.get_job_stats().total_jobs == 11
    queue.enqueue_job(Job(S.COMPLETED))


@pytest.mark.parametrize("ttl", [0, -1, timedelta(seconds=-1), float("nan"), "1h"])
def test_the_ttl_must_be_above_zero(queue: SyncQueue, ttl: Any) -> None:
    with pytest.raises(InvalidArgument, match="ttl must be"):
        queue.cleanup_expired_jobs(ttl)


def test_finished_jobs_are_deleted_by_tags_and_by_id_and_unknown_ids_passed_over(queue: SyncQueue) -> None:
    for state in (S.COMPLETED, S.STOPPED, S.UNSCHEDULED, S.UNKNOWN_STOPPED, S.DEAD):
        bring(queue, state, tags=["t"] if state in (S.STOPPED, S.DEAD) else [])

    deleted = queue.delete_jobs(
        tags=["t"], job_ids=[S.COMPLETED, S.UNSCHEDULED, S.UNKNOWN_STOPPED, S.DEAD, "nobody"]
    )

    assert deleted == 5
    assert queue.get_job_stats().total_jobs == 0
    assert queue.delete_jobs(job_ids=["nobody"]) == 0
    queue.enqueue_job(Job(S.DEAD))


@pytest.mark.parametrize(
    "state",
    [S.INITIAL_PENDING, S.RESCHEDULED, S.FAILED_RETRY, S.UNKNOWN_RETRY, S.RUNNING, S.CANCELLING],
)
def test_one_job_that_has_not_ended_keeps_all_of_them(queue: SyncQueue, state: JobStatus) -> None:
    bring(queue, state, tags=["t"])
    bring(queue, S.COMPLETED, tags=["t"])

    for selection in ({"tags": ["t"]}, {"job_ids": [state.value, "COMPLETED"]}):
        with pytest.raises(WrongState, match=f'job "{state}" is {state} and not finished'):
            queue.delete_jobs(**selection)
    assert queue.get_job_stats().total_jobs == 2


def test_a_dead_job_is_kept_while_a_live_one_waits_for_it(queue: SyncQueue) -> None:
    bring(queue, S.RUNNING, "parent")
    enqueue(queue, "child", wait_for=["parent"])
    queue.fail_job("parent", "boom", permanent=True)

    with pytest.raises(WrongState, match="parent"):
        queue.delete_jobs(job_ids=["parent"])

    queue.cancel_jobs(job_ids=["child"])
    assert queue.delete_jobs(job_ids=["parent", "child"]) == 2


def test_a_cancelling_job_counts_as_running(queue: SyncQueue) -> None:
    cancelling(queue)

    assert queue.get_job_stats().running_jobs == 1
