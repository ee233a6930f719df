"""Taking jobs by hand, and keeping them: claim, acquire next, heartbeat, extend."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Job, JobStatus, SyncQueue
from holdfast.errors import InvalidArgument, JobNotFound, LeaseLost, WrongState
from tests.clock import Clock
from tests.queue.hand import bring, bring_all, cancelling, claim, enqueue, hold, soon, status

S = JobStatus


def ids(jobs: list[Job]) -> list[str]:
    return [job.id for job in jobs]


def test_a_claimed_job_is_running_held_and_the_same_as_when_it_is_read(
    queue: SyncQueue, clock: Clock
) -> None:
    now = clock.freeze()
    queue.enqueue_job(Job("job", "mail.send", {"a": 1}, ["t"], priority=3, max_attempts=4, singleton_key="s"))

    (job,) = queue.claim_jobs("w", lease=12.5)

    assert (job.status, job.worker_id, job.assignee_id) == (S.RUNNING, "w", "w")
    assert (job.assigned_at, job.started_at) == (now, now)
    assert job.lease_expires_at == now + timedelta(seconds=12.5)
    assert job == queue.get_job("job")


def test_only_waiting_jobs_are_eligible(queue: SyncQueue) -> None:
    brought = bring_all(queue)

    claimed = queue.claim_jobs("w", queues=brought, limit=100)

    assert sorted(ids(claimed)) == sorted([S.INITIAL_PENDING, S.RESCHEDULED, S.FAILED_RETRY, S.UNKNOWN_RETRY])


def test_jobs_are_taken_from_the_queues_named_and_the_default_one_otherwise(queue: SyncQueue) -> None:
    queue.enqueue_jobs([Job("plain"), Job("mail", queue="mail"), Job("fax", queue="fax")])

    assert ids(queue.claim_jobs("w", limit=9)) == ["plain"]
    assert sorted(ids(queue.claim_jobs("w", queues=["mail", "fax"], limit=9))) == ["fax", "mail"]


def test_a_job_matches_when_it_has_all_tags_of_the_claim(queue: SyncQueue) -> None:
    queue.enqueue_jobs([Job("one", tags=["a"]), Job("three", tags=["c", "b", "a"]), Job("none")])

    assert ids(queue.claim_jobs("w", tags=["a", "b"], limit=9)) == ["three"]
    assert ids(queue.claim_jobs("w", tags=["A"], limit=9)) == []
    assert sorted(ids(queue.claim_jobs("w", tags=[], limit=9))) == ["none", "one"]


def test_no_more_jobs_are_claimed_than_asked_for_the_oldest_first(queue: SyncQueue) -> None:
    queue.enqueue_jobs([Job("b"), Job("a"), Job("c"), Job("urgent", priority=1)])

    assert ids(queue.claim_jobs("w", limit=3)) == ["urgent", "b", "a"]
    assert ids(queue.claim_jobs("w")) == ["c"]


def test_a_retry_stands_in_line_by_its_last_retry(queue: SyncQueue, clock: Clock) -> None:
    clock.freeze()
    queue.enqueue_job(Job("retried"))
    queue.claim_jobs("w")
    clock.advance(1)
    queue.enqueue_job(Job("created before the retry"))
    clock.advance(1)
    queue.fail_job("retried", "boom")
    clock.advance(1)
    queue.enqueue_job(Job("created after the retry"))

    assert ids(queue.claim_jobs("w", limit=9)) == [
        "created before the retry",
        "retried",
        "created after the retry",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"worker_id": ""},
        {"worker_id": None},
        {"worker_id": True},
        {"queues": []},
        {"queues": "default"},
        {"queues": [""]},
        {"queues": ["x" * 41]},
        {"tags": "t"},
        {"tags": [""]},
        {"limit": 0},
        {"limit": 1.5},
        {"lease": 0},
        {"lease": -1},
        {"lease": timedelta(seconds=-1)},
        {"lease": float("inf")},
        {"lease": "30"},
    ],
    ids=repr,
)
def test_a_claim_that_makes_no_sense_is_refused_and_takes_nothing(
    queue: SyncQueue, wrong: dict[str, Any]
) -> None:
    queue.enqueue_job(Job("job"))

    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        queue.claim_jobs(**{"worker_id": "w", **wrong})
    assert status(queue, "job") is S.INITIAL_PENDING


def test_two_threads_never_get_the_same_job(database: str) -> None:
    with SyncQueue(database) as queue:
        queue.enqueue_jobs([Job(f"job-{number}") for number in range(60)])
        taken: list[str] = []

        def drain(worker: int) -> None:
            while job := queue.acquire_next("default", worker, 30):
                taken.append(job.id)

        threads = [threading.Thread(target=drain, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(taken) == len(set(taken)) == 60


# Acquire next


def test_acquire_next_takes_the_job_that_became_due_first_then_the_older(
    queue: SyncQueue, clock: Clock
) -> None:
    now = clock.freeze()
    queue.enqueue_jobs(
        [
            Job("second", queue="email", available_at=now - timedelta(seconds=30)),
            Job("first", queue="email", available_at=now - timedelta(seconds=90)),
            Job("third", queue="email", available_at=now - timedelta(seconds=30)),
            Job("later", queue="email", available_at=now + timedelta(seconds=30)),
            Job("other", queue="reports"),
        ]
    )

    taken = [queue.acquire_next("email", worker, timedelta(seconds=30)) for worker in (1, 2, 3, 4)]

    assert [job and job.id for job in taken] == ["first", "second", "third", None]
    first = taken[0]
    assert first is not None
    assert (first.status, first.queue, first.worker_id, first.assigned_at) == (S.RUNNING, "email", "1", now)
    assert first.lease_expires_at == now + timedelta(seconds=30)


@pytest.mark.parametrize(("worker_id", "stored"), [(0, "0"), ("0", "0"), (7, "7"), ("seven", "seven")])
def test_a_worker_id_is_stored_as_text_and_zero_is_a_worker(
    queue: SyncQueue, worker_id: str | int, stored: str
) -> None:
    enqueue(queue, "job")

    queue.acquire_next("job", worker_id, 30)

    assert queue.get_job("job").worker_id == stored
    queue.complete_job("job", worker_id=worker_id)


def test_a_lock_older_than_its_duration_is_taken_over(queue: SyncQueue, clock: Clock) -> None:
    clock.freeze()
    enqueue(queue, "job")
    queue.acquire_next("job", 1, 30)
    clock.advance(29.999)
    assert queue.acquire_next("job", 2, 30) is None
    clock.advance(0.001)

    taken = queue.acquire_next("job", 2, 30)

    assert taken is not None
    assert (taken.worker_id, taken.retry_count) == ("2", 0)


@pytest.mark.parametrize("wrong", [("", 1, 30), ("q", "", 30), ("q", None, 30), ("q", 1, 0), ("q", 1, -5)])
def test_an_acquisition_that_makes_no_sense_is_refused(queue: SyncQueue, wrong: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidArgument):
        queue.acquire_next(*wrong)


# Heartbeat and extension


@pytest.mark.parametrize("extend", [60, 60.0, timedelta(minutes=1)])
def test_a_heartbeat_extends_the_lease_and_answers_its_end(
    queue: SyncQueue, clock: Clock, extend: timedelta | float
) -> None:
    held = hold(queue)
    now = clock.freeze()
    end = now + timedelta(minutes=1)

    assert queue.heartbeat_job("job", "w", extend) == end

    found = queue.get_job("job")
    assert (found.lease_expires_at, found.lease_id) == (end, held.lease_id)


def test_an_extension_by_lease_does_the_same(queue: SyncQueue, clock: Clock) -> None:
    held = hold(queue)
    now = clock.freeze()
    assert held.lease_id is not None

    assert queue.extend_lease("job", held.lease_id, 60) == now + timedelta(minutes=1)
    assert queue.get_job("job").lease_expires_at == now + timedelta(minutes=1)


def test_an_extension_never_shortens_a_lease(queue: SyncQueue) -> None:
    held = hold(queue)
    assert held.lease_id is not None

    assert queue.heartbeat_job("job", "w", 1) == held.lease_expires_at
    assert queue.extend_lease("job", held.lease_id, 1) == held.lease_expires_at


def test_a_heartbeat_of_a_worker_that_does_not_hold_the_job_is_lease_lost(
    queue: SyncQueue, clock: Clock
) -> None:
    held = hold(queue)
    assert held.lease_id is not None
    with pytest.raises(LeaseLost, match=r'worker "other" does not hold job "job".*held by "w"'):
        queue.heartbeat_job("job", "other", 60)
    with pytest.raises(LeaseLost, match='lease "none" is not that of job "job"'):
        queue.extend_lease("job", "none", 60)
    clock.advance(31)
    claim(queue, "job", "next")

    with pytest.raises(LeaseLost, match='held by "next"'):
        queue.heartbeat_job("job", "w", 60)
    with pytest.raises(LeaseLost, match='held by "next"'):
        queue.extend_lease("job", held.lease_id, 60)


def test_a_lease_that_has_lapsed_cannot_be_extended_even_if_nobody_swept_it(
    queue: SyncQueue, clock: Clock
) -> None:
    held = hold(queue)
    assert held.lease_id is not None
    clock.advance(30)

    with pytest.raises(LeaseLost):
        queue.heartbeat_job("job", "w", 60)
    with pytest.raises(LeaseLost):
        queue.extend_lease("job", held.lease_id, 60)


def test_a_job_that_is_being_cancelled_is_not_extended_and_the_worker_learns_why(queue: SyncQueue) -> None:
    held = cancelling(queue)
    assert held.lease_id is not None

    extensions: list[Callable[[], object]] = [
        lambda: queue.heartbeat_job("job", "w", 600),
        lambda: queue.extend_lease("job", held.lease_id or "", 600),
    ]
    for extend in extensions:
        with pytest.raises(WrongState, match='job "job" is CANCELLING'):
            extend()
    assert queue.get_job("job").lease_expires_at == held.lease_expires_at


@pytest.mark.parametrize("state", [state for state in S if state not in (S.RUNNING, S.CANCELLING)])
def test_nothing_but_a_running_job_has_a_heartbeat(queue: SyncQueue, state: JobStatus) -> None:
    bring(queue, state, "job")
    before = queue.get_job("job")

    with pytest.raises((LeaseLost, WrongState), match=f'"job".*{state}'):
        queue.heartbeat_job("job", "w", 60)
    assert queue.get_job("job") == before


def test_a_heartbeat_that_makes_no_sense_is_refused(queue: SyncQueue) -> None:
    hold(queue)
    senseless: list[Callable[[], object]] = [
        lambda: queue.heartbeat_job("", "w", 60),
        lambda: queue.heartbeat_job("job", "", 60),
        lambda: queue.heartbeat_job("job", "w", 0),
        lambda: queue.heartbeat_job("job", "w", -1),
        lambda: queue.extend_lease("", "x", 60),
        lambda: queue.extend_lease("job", "", 60),
        lambda: queue.extend_lease("job", "x", timedelta(0)),
    ]
    for call in senseless:
        with pytest.raises(InvalidArgument):
            call()
    with pytest.raises(JobNotFound, match='job "no" does not exist'):
        queue.heartbeat_job("no", "w", 60)
    with pytest.raises(JobNotFound, match='job "no" does not exist'):
        queue.extend_lease("no", "x", 60)


def test_a_number_is_as_good_a_worker_for_a_heartbeat_as_for_an_acquisition(queue: SyncQueue) -> None:
    enqueue(queue, "job")
    queue.acquire_next("job", 0, 30)

    assert queue.heartbeat_job("job", 0, 600) > soon(500)
