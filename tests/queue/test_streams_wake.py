"""What wakes a stream that waits: every event that makes a job eligible, and moments known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import psycopg
import pytest

from holdfast import Job, SyncQueue
from tests.queue.streaming import Face, Table, in_thread, jobs, until

LONG = {"poll": 600.0, "lease": 600.0}


def _claim(queue: SyncQueue, job_id: str) -> Job:
    (job,) = queue.claim_jobs(f"holder of {job_id}", queues=[job_id], lease=600)
    return job


def _dead(queue: SyncQueue, job_id: str) -> None:
    queue.fail_job(_claim(queue, job_id).id, "boom", permanent=True)


EVENTS: dict[str, tuple[Callable[[SyncQueue, str], object], Callable[[SyncQueue, str], object]]] = {
    "revived": (_dead, lambda queue, job_id: queue.revive_job(job_id)),
    "failed": (_claim, lambda queue, job_id: queue.fail_job(job_id, "boom")),
    "failed and due soon": (_claim, lambda queue, job_id: queue.fail_job(job_id, "boom", delay=0.3)),
    "requeued": (_claim, lambda queue, job_id: queue.requeue_job(job_id)),
    "rescheduled": (_claim, lambda queue, job_id: queue.reschedule_job(job_id, _soon())),
    "retried later": (_claim, lambda queue, job_id: queue.retry_later(job_id, _soon())),
    "released": (_claim, lambda queue, job_id: queue.release(job_id)),
    "marked unresponsive": (
        _claim,
        lambda queue, job_id: queue.mark_worker_unresponsive(f"holder of {job_id}"),
    ),
    "reset": (_claim, lambda queue, _: queue.reset_running_jobs()),
}


def _soon() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=0.3)


def test_a_stream_that_waits_wakes_for_every_event_that_makes_a_job_eligible(
    side: Face, database: str
) -> None:
    queue = side.open(database, **LONG)
    readers = {}
    for name, (prepare, _) in EVENTS.items():
        queue.enqueue_job(Job(name, queue=name))
        prepare(queue, name)
        readers[name] = side.stream(queue, "me", queues=[name])
        readers[name].start()

    for name, (_, happen) in EVENTS.items():
        happen(queue, name)
        assert readers[name].read_ids(1) == [name]


def test_new_jobs_wake_a_stream_once_and_all_of_them_arrive(side: Face, database: str) -> None:
    queue = side.open(database, **LONG)
    reader = side.stream(queue, "me", None, 100)
    reader.start()
    queue.enqueue_job(Job("one"))
    assert reader.read_ids(1) == ["one"]
    reader.start()
    queue.enqueue_jobs(jobs("a", "b", "c"))
    assert sorted(reader.read_ids(3)) == ["a", "b", "c"]


def test_every_stream_with_room_and_matching_tags_may_take_what_comes(side: Face, database: str) -> None:
    queue = side.open(database, **LONG)
    red, blue, every = (
        side.stream(queue, "red", ["red"], 10),
        side.stream(queue, "blue", ["blue"], 10),
        side.stream(queue, "all", None, 10),
    )
    for reader in (red, blue, every):
        reader.start()
    queue.enqueue_jobs([Job("r", tags=["red"]), Job("b", tags=["blue"]), Job("n")])
    until(lambda: red.held + blue.held + every.held == 3)
    until(lambda: every.held >= 1)
    assert red.held <= 1
    assert blue.held <= 1


def test_a_resumed_queue_wakes_its_streams(side: Face, database: str, table: Table) -> None:
    queue = side.open(database, **LONG)
    table.say("select holdfast.pause_queue('default')")
    reader = side.stream(queue)
    queue.enqueue_job(Job("a"))
    assert reader.is_blocked()

    table.say("select holdfast.resume_queue('default')")

    assert reader.read_ids(1) == ["a"]


def test_a_stream_that_waits_for_room_under_a_limit_is_woken_when_a_job_leaves(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database, **LONG)
    table.say("select holdfast.set_queue_limit('default', 1)")
    queue.enqueue_jobs(jobs("a", "b", "c"))
    first = side.stream(queue, "first")
    (held,) = first.read()
    second = side.stream(queue, "second")
    assert second.is_blocked()

    queue.complete_job(held.id)

    until(lambda: table.held() and table.held() != [held.id])
    assert len(table.held()) == 1


def test_a_dependent_arrives_when_the_last_it_waits_for_is_completed(side: Face, database: str) -> None:
    queue = side.open(database, **LONG)
    queue.enqueue_jobs([Job("parent"), Job("child", wait_for=["parent"], queue="children")])
    children = side.stream(queue, queues=["children"])
    assert children.is_blocked(0.1)
    (parent,) = side.stream(queue).read()

    queue.complete_job(parent.id)

    assert children.read_ids(1) == ["child"]


def test_jobs_of_an_open_transaction_arrive_when_it_commits_and_not_before(
    side: Face, database: str, conn: psycopg.Connection[Any]
) -> None:
    queue = side.open(database, **LONG)
    reader = side.stream(queue)
    with conn.transaction():
        conn.execute("select holdfast.submit_jobs(p_job_ids => array['a'])")
        assert reader.is_blocked()
    assert len(reader.read()) == 1


@pytest.mark.parametrize("known", ["before", "after"])
def test_a_job_that_is_due_later_arrives_at_its_time_and_not_at_the_next_poll(
    side: Face, database: str, known: str
) -> None:
    queue = side.open(database, **LONG)
    due = datetime.now(UTC) + timedelta(seconds=1.5)
    if known == "before":
        queue.enqueue_job(Job("a", available_at=due))
    reader = side.stream(queue)
    reader.start()
    if known == "after":
        queue.enqueue_job(Job("a", available_at=due))

    (job,) = reader.read()

    assert job.assigned_at is not None
    assert due <= job.assigned_at <= due + timedelta(seconds=5)


def test_the_end_of_anothers_lease_is_met_though_nobody_signals_it(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database, **LONG)
    queue.enqueue_job(Job("a"))
    (theirs,) = queue.claim_jobs("gone", lease=1.5)
    assert theirs.lease_expires_at is not None
    reader = side.stream(queue)

    (job,) = reader.read()

    assert job.assigned_at is not None
    assert theirs.lease_expires_at <= job.assigned_at <= theirs.lease_expires_at + timedelta(seconds=5)
    assert job.lease_id != theirs.lease_id


def test_jobs_that_were_reset_before_a_stream_connects_are_found_by_it(side: Face, database: str) -> None:
    queue = side.open(database, **LONG)
    queue.enqueue_jobs(jobs("a", "b", "c"))
    queue.claim_jobs("gone", limit=3, lease=600)
    assert queue.reset_running_jobs() == 3

    assert sorted(side.stream(queue, "me", None, 3).read_ids(3)) == ["a", "b", "c"]


def test_without_signals_a_stream_polls(side: Face, database: str, table: Table) -> None:
    table.say("select holdfast.set_notify(false)")
    queue = side.open(database, poll=0.2)
    reader = side.stream(queue)
    assert reader.is_blocked(0.1)
    queue.enqueue_job(Job("a"))
    assert reader.read_ids(1) == ["a"]


def test_a_stream_that_waits_is_served_within_moments(side: Face, database: str) -> None:
    queue = side.open(database, **LONG)
    reader = side.stream(queue)
    waits: list[float] = []
    for number in range(20):
        pending = reader.start()
        assert reader.is_blocked(0.02)
        began = monotonic()
        queue.enqueue_job(Job(f"job {number}"))
        pending.result(30)
        waits.append(monotonic() - began)
        (job,) = reader.read()
        queue.complete_job(job.id)
    assert sorted(waits)[10] < 0.5, waits


def test_streams_that_end_do_not_put_the_others_of_their_line_to_sleep(side: Face, database: str) -> None:
    """A look for a stream that has just ended is for the others too."""
    queue = side.open(database, poll=0.5, lease=600)
    staying = side.stream(queue, "staying", None, 1000)
    got: list[str] = []

    def come_and_go() -> None:
        for _ in range(30):
            side.stream(queue, "passing", None, 3).close()

    going = in_thread(come_and_go)
    for number in range(60):
        queue.enqueue_job(Job(f"job {number:02}"))
    going.result(30)
    while len(got) < 60:
        got += [job.id for job in staying.read()]
    assert sorted(got) == [f"job {number:02}" for number in range(60)]
