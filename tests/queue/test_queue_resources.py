"""Resources: taken for a running job, busy for others, given back by hand or by the end of the lease."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import JobStatus, SyncQueue
from holdfast.errors import InvalidArgument, JobNotFound, LeaseLost, ResourceBusy, WrongState
from tests.clock import Clock
from tests.queue.hand import bring_all, claim, hold

S = JobStatus


def test_a_resource_is_taken_by_one_job_and_busy_for_the_next(queue: SyncQueue) -> None:
    hold(queue, "one")
    hold(queue, "two")
    queue.acquire_resource("db", "one", "w")

    with pytest.raises(ResourceBusy, match=r'resource "db" is busy.*"two"'):
        queue.acquire_resource("db", "two", "w")

    queue.acquire_resource("other", "two", "w")


def test_a_job_that_holds_it_already_may_ask_again(queue: SyncQueue) -> None:
    hold(queue, "one")
    queue.acquire_resource("db", "one", "w")

    queue.acquire_resource("db", "one", "w")

    assert queue.release_resource("db", "one") is True
    assert queue.release_resource("db", "one") is False


def test_a_job_that_does_not_run_takes_nothing(queue: SyncQueue) -> None:
    for job_id in bring_all(queue):
        if job_id != S.RUNNING:
            with pytest.raises(WrongState, match=f'job "{job_id}" is {job_id}'):
                queue.acquire_resource("db", job_id, "w")
    with pytest.raises(JobNotFound, match="nobody"):
        queue.acquire_resource("db", "nobody", "w")


def test_only_the_worker_that_holds_the_job_takes_something_for_it(queue: SyncQueue) -> None:
    hold(queue, "job")

    with pytest.raises(LeaseLost, match='"job"'):
        queue.acquire_resource("db", "job", "another")
    assert queue.release_resource("db", "job") is False


@pytest.mark.parametrize("wrong", [("", "job", "w"), ("db", "", "w"), ("db", "job", ""), (None, "job", "w")])
def test_an_empty_key_job_or_worker_is_refused(queue: SyncQueue, wrong: tuple[Any, ...]) -> None:
    hold(queue, "job")

    with pytest.raises(InvalidArgument):
        queue.acquire_resource(*wrong)


def test_giving_back_says_whether_it_was_held(queue: SyncQueue) -> None:
    hold(queue, "one")
    hold(queue, "two")
    queue.acquire_resource("db", "one", "w")

    assert queue.release_resource("db", "two") is False
    assert queue.release_resource("db", "one") is True
    queue.acquire_resource("db", "two", "w")
    with pytest.raises(JobNotFound, match='job "nobody" does not exist'):
        queue.release_resource("db", "nobody")
    with pytest.raises(InvalidArgument, match="key is empty"):
        queue.release_resource("", "two")


@pytest.mark.parametrize(
    "end",
    [
        lambda queue: queue.complete_job("one"),
        lambda queue: queue.fail_job("one", "boom"),
        lambda queue: queue.reschedule_job("one", datetime.now(UTC)),
        lambda queue: queue.release("one"),
        lambda queue: queue.reset_running_jobs() and claim(queue, "two"),
    ],
    ids=["complete", "fail", "reschedule", "release", "reset"],
)
def test_a_resource_is_free_when_the_lease_of_its_job_ends(
    queue: SyncQueue, end: Callable[[SyncQueue], object]
) -> None:
    hold(queue, "one")
    hold(queue, "two")
    queue.acquire_resource("db", "one", "w")

    end(queue)

    queue.acquire_resource("db", "two", "w")


def test_a_resource_is_never_free_by_age_while_its_job_is_held(queue: SyncQueue, clock: Clock) -> None:
    hold(queue, "one")
    queue.heartbeat_job("one", "w", 100_000)
    queue.acquire_resource("db", "one", "w")
    clock.advance(90_000)
    hold(queue, "two")

    with pytest.raises(ResourceBusy):
        queue.acquire_resource("db", "two", "w")


def test_a_capacity_says_how_many_may_hold_it(queue: SyncQueue) -> None:
    queue.set_resource_capacity("printer", 2)
    for job_id in ("a", "b", "c"):
        hold(queue, job_id)
    queue.acquire_resource("printer", "a", "w")
    queue.acquire_resource("printer", "b", "w")

    with pytest.raises(ResourceBusy):
        queue.acquire_resource("printer", "c", "w")
    wrongs: list[tuple[Any, Any]] = [("", 1), ("printer", 0), ("printer", "two")]
    for wrong in wrongs:
        with pytest.raises(InvalidArgument):
            queue.set_resource_capacity(*wrong)


def test_a_busy_resource_postpones_a_job_without_an_attempt(queue: SyncQueue, clock: Clock) -> None:
    """What a hand-written worker does: acquire, and reschedule when it is busy."""
    now = clock.freeze()
    hold(queue, "one", "1", max_attempts=1)
    hold(queue, "two", "2", max_attempts=1)
    queue.acquire_resource("db", "one", "1")

    with pytest.raises(ResourceBusy):
        queue.acquire_resource("db", "two", "2")
    queue.reschedule_job("two", now)
    queue.complete_job("one")
    again = claim(queue, "two", "2")
    queue.acquire_resource("db", "two", "2")

    assert again.retry_count == 0


def test_of_two_threads_that_ask_at_once_one_gets_it(database: str) -> None:
    with SyncQueue(database) as queue:
        jobs = [hold(queue, f"job-{number}").id for number in range(8)]
        barrier = threading.Barrier(len(jobs))
        got: list[str] = []

        def try_it(job_id: str) -> None:
            barrier.wait()
            try:
                queue.acquire_resource("db", job_id, "w")
            except ResourceBusy:
                return
            got.append(job_id)

        threads = [threading.Thread(target=try_it, args=[job_id]) for job_id in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(got) == 1
