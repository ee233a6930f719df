"""Cancelled, taken over, settled by others: what a reader gets to see, and what its callbacks are told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from holdfast import Job, Queue, SyncQueue
from holdfast.queue.feeding import Feeding
from tests.clock import Clock
from tests.queue.streaming import Face, Table, jobs, numbered, until

CANCEL = "select 1 from holdfast.cancel_jobs(p_job_ids => array[%s])"


def _cancel(by: str, queue: SyncQueue, other: SyncQueue, table: Table, job_id: str) -> None:
    if by == "sql":
        table.say(CANCEL, job_id)
    else:
        (queue if by == "this queue" else other).cancel_jobs(job_ids=[job_id])


@pytest.mark.parametrize("by", ["this queue", "another queue", "sql"])
def test_cancelled_between_assignment_and_delivery_is_stopped_and_frees_the_slot(
    side: Face, database: str, table: Table, by: str
) -> None:
    queue, other = (side.open(database, poll=600, lease=600) for _ in range(2))
    queue.enqueue_jobs(jobs(*numbered(3)))
    reader = side.stream(queue, "me", None, 2)
    told: list[str] = []
    reader.stream.on_cancel(told.append)
    table.await_held(reader, 2)
    first, second = table.held(reader)
    (third,) = table.waiting()

    _cancel(by, queue, other, table, first)

    table.await_state(first, "STOPPED")
    table.await_state(third, "RUNNING")
    assert sorted(reader.read_ids(2)) == [second, third]
    assert "not delivered: cancelled while it waited" in table.error(first)
    assert told == []


def test_a_job_cancelled_long_before_the_reader_comes_is_not_delivered_though_nobody_was_told(
    side: Face, database: str, table: Table
) -> None:
    table.say("select holdfast.set_notify(false)")
    queue = side.open(database, lease=600)
    queue.enqueue_jobs(jobs("a", "b"))
    reader = side.stream(queue, "me", None, 2)
    until(lambda: reader.held == 2)
    table.say(CANCEL, "a")
    until(lambda: len(reader.inside.doubtful()) == 2)  # it takes jobs for granted only while they are fresh

    assert reader.read_ids(1) == ["b"]
    table.await_state("a", "STOPPED")
    until(lambda: reader.held == 1)


def test_the_slot_of_a_cancelled_job_is_not_used_before_the_job_is_handed_back(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database, lease=600)
    reader = side.stream(queue, "me", None, 3)

    def check() -> None:
        held = table.held(reader)
        assert len(held) <= 3, held

    def is_empty() -> bool:
        check()
        return reader.held == 0

    for round_ in range(15):
        names = numbered(6, f"round {round_}")
        queue.enqueue_jobs(jobs(*names))
        until(lambda: reader.held == 3)
        # By name: how many are held or wait a moment later is a race, and to cancel an empty list an error.
        queue.cancel_jobs(job_ids=names[:2])
        check()
        table.say("select count(*) from holdfast.cancel_jobs(p_job_ids => %s::text[])", names[2:5])
        check()
        queue.cancel_jobs(job_ids=names)
        until(is_empty)


@pytest.mark.parametrize("by", ["this queue", "another queue", "sql"])
def test_on_cancel_is_told_of_a_delivered_job_exactly_once(
    side: Face, database: str, table: Table, by: str
) -> None:
    queue, other = (side.open(database, poll=600, lease=1.5) for _ in range(2))
    queue.enqueue_jobs(jobs("a", "b"))
    reader = side.stream(queue, "me", None, 2)
    told: list[str] = []
    assert reader.stream.on_cancel(told.append) == told.append
    reader.read_jobs(2)

    _cancel(by, queue, other, table, "a")
    until(lambda: told)
    table.say(CANCEL, "a")
    end = table.lease_end("a")
    until(lambda: table.lease_end("a") > end)  # looked at once more, and kept: it is still ours
    assert told == ["a"]

    queue.acknowledge_cancellation("a", True)
    assert table.state("a") == "STOPPED"
    assert table.state("b") == "RUNNING"
    assert told == ["a"]


LOSSES: dict[str, Callable[[SyncQueue], object]] = {
    "stop": lambda other: other.stop_job("a"),
    "fail": lambda other: other.fail_job("a", "boom", delay=100),
    "fail for good": lambda other: other.fail_job("a", "boom", permanent=True),
    "requeue": lambda other: other.requeue_job("a", datetime(2100, 1, 1, tzinfo=UTC)),
    "unknown stopped": lambda other: other.mark_job_unknown_stopped("a"),
}


@pytest.mark.parametrize("how", LOSSES)
def test_on_lost_is_told_once_when_somebody_else_ends_or_hands_back_a_delivered_job(
    side: Face, database: str, table: Table, how: str
) -> None:
    queue, other = (side.open(database, poll=600, lease=600) for _ in range(2))
    queue.enqueue_jobs(jobs("a"))
    reader = side.stream(queue, "me")
    lost: list[str] = []

    @reader.stream.on_lost
    def _(job_id: str) -> None:
        lost.append(job_id)

    reader.read()
    LOSSES[how](other)

    until(lambda: lost)
    queue.enqueue_job(Job("next", priority=9))
    assert reader.read_ids(1) == ["next"]
    assert lost == ["a"]


def test_on_lost_is_not_told_of_completed_jobs_nor_of_what_this_queue_settled_itself(
    side: Face, database: str, table: Table
) -> None:
    queue, other = (side.open(database, poll=600, lease=600) for _ in range(2))
    queue.enqueue_jobs(jobs(*"abcdef"))
    reader = side.stream(queue, "me", None, 6)
    lost: list[str] = []
    reader.stream.on_lost(lost.append)
    reader.read_jobs(6)

    other.complete_job("a")
    queue.complete_job("b")
    queue.fail_job("c", "boom", delay=100)
    queue.stop_job("d")
    queue.retry_later("e", queue.get_job("e").lease_expires_at)  # type: ignore[arg-type]
    other.stop_job("f")

    until(lambda: lost)
    assert lost == ["f"]
    assert reader.held == 0


def test_a_lapse_is_no_loss_until_somebody_takes_the_job_and_a_late_result_is_welcome(
    side: Face, database: str, table: Table, clock: Clock
) -> None:
    queue = side.open(database, poll=600, lease=600)
    queue.enqueue_jobs(jobs("a", "b"))
    reader = side.stream(queue, "me", None, 2)
    lost: list[str] = []
    reader.stream.on_lost(lost.append)
    held = {job.id: job for job in reader.read_jobs(2)}
    table.say("select holdfast.pause_queue('default')")
    clock.advance(601)
    table.lapse("a", "b")
    until(lambda: reader.held == 0)
    assert lost == []

    queue.complete_job("a", "late", lease_id=held["a"].lease_id)
    assert table.state("a") == "COMPLETED"
    clock.thaw()
    table.say("select holdfast.resume_queue('default')")
    (again,) = reader.read()  # taken by the stream itself
    assert again.id == "b"
    assert again.lease_id != held["b"].lease_id
    until(lambda: lost)
    assert lost == ["b"]


@pytest.mark.parametrize("is_done", [False, True])
def test_what_another_worker_took_over_is_lost(
    side: Face, database: str, table: Table, clock: Clock, is_done: bool
) -> None:
    """Also if it is done by now: not by this handler, which still runs and does what does not count."""
    queue = side.open(database, poll=600, lease=600)
    queue.enqueue_job(Job("a"))
    reader = side.stream(queue)
    lost: list[str] = []
    reader.stream.on_lost(lost.append)
    reader.read()

    with table.conn.transaction():  # the keeper hears of what came of it, not of every step
        clock.advance(601)
        table.take_over("a")
        if is_done:
            lease_id = table.say("select lease_id from holdfast.jobs_with_status where job_id = 'a'")
            table.say("select holdfast.complete_job('a', %s, 'other')", lease_id)
    clock.thaw()

    until(lambda: lost)
    assert lost == ["a"]
    assert reader.held == 0


@pytest.mark.parametrize("capacity", [1, 2])
def test_what_is_released_through_its_own_queue_is_lost_and_delivered_anew(
    side: Face, database: str, capacity: int
) -> None:
    """Whoever releases a job takes its holder for gone, and is not the holder."""
    queue = side.open(database, poll=600, lease=600)
    queue.enqueue_job(Job("a"))
    reader = side.stream(queue, "me", None, capacity)
    lost: list[str] = []
    reader.stream.on_lost(lost.append)
    (first,) = reader.read()

    assert queue.release("a")

    (again,) = reader.read()
    assert (again.id, again.lease_id == first.lease_id) == ("a", False)
    until(lambda: lost)
    queue.complete_job("a", lease_id=again.lease_id)
    assert lost == ["a"]


@pytest.mark.parametrize("verb", ["mark_worker_unresponsive", "reset_running_jobs", "release"])
def test_what_its_own_queue_takes_away_is_heard_of_at_once_without_signals(
    side: Face, database: str, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(Feeding, "on_freed", lambda self, callback: lambda: None)
    queue = side.open(database, poll=600, lease=600)
    queue.enqueue_job(Job("a"))
    reader = side.stream(queue, "me")
    (first,) = reader.read()

    named = {"mark_worker_unresponsive": ["me"], "release": ["a"]}
    assert getattr(queue, verb)(*named.get(verb, [])) == 1

    (again,) = reader.read()
    assert again.id == "a"
    assert again.lease_id != first.lease_id


def test_a_callback_that_raises_is_logged_and_hurts_nobody(
    side: Face, database: str, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    queue = side.open(database, poll=600, lease=600)
    queue.enqueue_jobs(jobs("a", "b"))
    reader = side.stream(queue, "me", None, 2)
    told: list[str] = []

    @reader.stream.on_cancel
    def _(job_id: str) -> None:
        raise ArithmeticError(job_id)

    reader.stream.on_cancel(told.append)
    reader.read_jobs(2)

    table.say(CANCEL, "a")
    until(lambda: told == ["a"])
    table.say(CANCEL, "b")
    until(lambda: told == ["a", "b"])
    assert "a callback of the stream of me failed for job a" in caplog.text


@pytest.mark.anyio
async def test_callbacks_may_be_coroutines_and_run_on_the_loop(database: str, table: Table) -> None:
    async with Queue(database, poll=600, lease=600) as queue:
        await queue.enqueue_jobs(jobs("a", "b"))
        stream = queue.stream_jobs("me", max_assigned_jobs=2)
        threads: list[threading.Thread] = []
        acknowledged = asyncio.Event()
        lost: asyncio.Queue[str] = asyncio.Queue()

        @stream.on_cancel
        async def _(job_id: str) -> None:
            threads.append(threading.current_thread())
            await queue.acknowledge_cancellation(job_id, True)
            acknowledged.set()

        @stream.on_lost
        async def _(job_id: str) -> None:
            await lost.put(job_id)

        assert len(await anext(stream)) == 2
        table.say(CANCEL, "a")
        await asyncio.wait_for(acknowledged.wait(), 30)
        table.say("select holdfast.stop_job('b')")
        assert await asyncio.wait_for(lost.get(), 30) == "b"
        assert threads == [threading.current_thread()]
        assert table.state("a") == "STOPPED"


def test_a_callback_of_a_thread_may_use_the_queue(database: str, table: Table) -> None:
    with SyncQueue(database, poll=600, lease=600) as queue:
        queue.enqueue_jobs(jobs("a", "b"))
        stream = queue.stream_jobs("me", max_assigned_jobs=1)

        @stream.on_cancel
        def _(job_id: str) -> None:
            queue.acknowledge_cancellation(job_id, True)

        (job,) = next(stream)
        table.say(CANCEL, job.id)
        assert len(next(stream)) == 1
        assert table.state(job.id) == "STOPPED"
