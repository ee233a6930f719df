"""How streams end, and what becomes of what they had not delivered."""

from __future__ import annotations

import asyncio
import threading
from time import monotonic

import pytest

from holdfast import Job, Queue, SyncQueue
from holdfast.errors import InvalidArgument, QueueClosed, StreamEnded
from tests.queue.streaming import PATIENCE_S, Face, Table, in_thread, jobs, numbered, pass_time, until


def test_closing_ends_a_reader_that_waits(side: Face, database: str) -> None:
    queue = side.open(database)
    reader = side.stream(queue)
    pending = reader.start()
    assert reader.is_blocked(0.1)

    reader.close()

    assert pending.result(PATIENCE_S) is None


def test_closing_the_queue_ends_every_stream_and_every_reader_that_waits(side: Face, database: str) -> None:
    queue = side.open(database)
    readers = [side.stream(queue, name, queues=["q", name]) for name in ("a", "b", "c")]
    pending = [reader.start() for reader in readers[:2]]

    queue.close()

    assert [each.result(PATIENCE_S) for each in pending] == [None, None]
    assert readers[2].has_ended()
    with pytest.raises(QueueClosed):
        side.stream(queue)


def test_an_ended_stream_brings_nothing_more_however_often_it_is_asked(side: Face, database: str) -> None:
    queue = side.open(database)
    queue.enqueue_jobs(jobs("a", "b"))
    reader = side.stream(queue)
    reader.read()
    reader.close()

    assert reader.has_ended()
    assert reader.has_ended()


def test_what_was_not_delivered_goes_back_at_once_and_says_why_without_an_attempt(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database, lease=600)
    queue.enqueue_jobs(jobs(*numbered(5)))
    reader = side.stream(queue, "me", None, 2)
    delivered = reader.read_ids(2)
    queue.complete_job(delivered[0])
    table.await_held(reader, 2)
    (undelivered,) = set(table.held(reader)) - set(delivered)

    reader.close()

    assert table.state(undelivered) == "FAILED_RETRY"
    assert "not delivered: the stream of me ended" in table.error(undelivered)
    assert table.attempts(undelivered) == 0
    assert table.held() == [delivered[1]]
    stored = queue.get_job(undelivered)
    assert (stored.worker_id, stored.finalized_at) == (None, None)
    assert undelivered in side.stream(queue, "you", None, 9).read_ids(3)


def test_closing_the_queue_hands_back_what_no_stream_had_delivered(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database, lease=600)
    queue.enqueue_jobs(jobs(*numbered(2500)))
    readers = [side.stream(queue, name, None, 1100) for name in ("a", "b")]
    table.await_held(None, 2200)
    delivered = readers[0].read_ids(1100)

    queue.close()

    assert table.held() == sorted(delivered)
    assert {table.state(job_id) for job_id in table.waiting()} == {"FAILED_RETRY", "INITIAL_PENDING"}


def test_what_was_being_cancelled_and_not_delivered_is_stopped_at_the_end(
    side: Face, database: str, table: Table
) -> None:
    # Nobody hears of the cancellation before the stream ends.
    table.say("select holdfast.set_notify(false)")
    queue = side.open(database, lease=600)
    queue.enqueue_jobs(jobs("a", "b"))
    reader = side.stream(queue, "me", None, 2)
    table.await_held(reader, 2)
    table.say("select 1 from holdfast.cancel_jobs(p_job_ids => array['a'])")
    assert table.state("a") == "CANCELLING"

    reader.close()

    assert (table.state("a"), table.state("b")) == ("STOPPED", "FAILED_RETRY")


def test_a_batch_that_came_while_its_reader_did_something_else_is_delivered_though_the_stream_ends_then(
    side: Face, database: str, table: Table
) -> None:
    """The read ran out of patience, not the stream: what it takes later is its reader's and nobody else's."""
    queue = side.open(database, lease=600)
    reader = side.stream(queue, "me")
    with pytest.raises(TimeoutError):
        reader.read(0.01)
    queue.enqueue_jobs(jobs("a"))
    until(lambda: not reader.is_reading)

    (job,) = reader.close_and_take_rest()

    assert table.held() == ["a"]
    queue.complete_job("a", lease_id=job.lease_id)
    assert table.held() == []


def test_delivered_jobs_can_be_settled_after_the_end_and_their_leases_are_kept_until_then(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database, lease=1.0)
    queue.enqueue_jobs(jobs("a", "b"))
    reader = side.stream(queue, "me", None, 2)
    first, second = reader.read_jobs(2)
    reader.close()

    pass_time(2.5)  # twice the lease and more
    assert table.say("select count(*) from holdfast.lapse_leases()") == 0
    assert table.held() == ["a", "b"]
    queue.complete_job(first.id, lease_id=first.lease_id)
    queue.fail_job(second.id, "boom", lease_id=second.lease_id)
    assert table.held() == []


def test_after_the_queue_is_closed_leases_are_not_kept(side: Face, database: str, table: Table) -> None:
    queue = side.open(database, lease=1.0)
    queue.enqueue_job(Job("a"))
    side.stream(queue).read()
    queue.close()

    until(lambda: table.lease_left_s("a") < 0)

    other = side.open(database)
    (job,) = side.stream(other, "other").read()
    assert (job.id, job.retry_count) == ("a", 0)


def test_the_end_of_a_stream_concerns_no_other(side: Face, database: str, table: Table) -> None:
    queue = side.open(database)
    ending, going_on = side.stream(queue, "me"), side.stream(queue, "me")
    pending = going_on.start()
    ending.close()
    queue.enqueue_job(Job("a"))
    batch = pending.result(PATIENCE_S)
    assert batch is not None
    assert [job.id for job in batch] == ["a"]


def test_closing_twice_is_closing_once(side: Face, database: str) -> None:
    queue = side.open(database)
    reader = side.stream(queue)
    reader.close()
    began = monotonic()
    reader.close()
    queue.close()
    reader.close()
    queue.close()
    assert monotonic() - began < 4


def test_a_callback_cannot_be_added_to_an_ended_stream(side: Face, database: str) -> None:
    queue = side.open(database)
    reader = side.stream(queue)
    reader.close()
    with pytest.raises(StreamEnded, match="has ended; open another"):
        reader.stream.on_cancel(print)
    with pytest.raises(StreamEnded):
        reader.stream.on_lost(print)


def test_an_ended_sync_stream_cannot_be_entered(database: str) -> None:
    with SyncQueue(database) as queue:
        stream = queue.stream_jobs("me")
        stream.close()
        with pytest.raises(StreamEnded), stream:
            pass


def test_leaving_the_block_ends_a_sync_stream_and_an_error_goes_through(database: str, table: Table) -> None:
    with SyncQueue(database, lease=600) as queue:
        queue.enqueue_jobs(jobs("a", "b"))
        stream = queue.stream_jobs("me", max_assigned_jobs=1)

        def work() -> None:
            with stream:
                for batch in stream:
                    queue.complete_job(batch[0].id)
                    until(lambda: len(table.held()) == 1)  # the next is assigned already
                    raise LookupError

        with pytest.raises(LookupError):
            work()
        assert table.held() == []
        assert list(stream) == []


def test_a_sync_stream_may_be_closed_by_any_thread(database: str) -> None:
    with SyncQueue(database) as queue, queue.stream_jobs("me") as stream:
        reading = in_thread(lambda: list(stream))
        until(lambda: stream._reading.locked())
        closing = threading.Thread(target=stream.close)
        closing.start()
        assert reading.result(PATIENCE_S) == []
        closing.join()


def test_two_threads_cannot_read_one_stream(database: str) -> None:
    with SyncQueue(database) as queue, queue.stream_jobs("me") as stream:
        reading = in_thread(lambda: next(stream))
        until(lambda: stream._reading.locked())
        with pytest.raises(InvalidArgument, match="is being read already"):
            next(stream)
        queue.enqueue_job(Job("a"))
        assert [job.id for job in reading.result(PATIENCE_S)] == ["a"]


@pytest.mark.anyio
async def test_two_tasks_cannot_read_one_stream(database: str) -> None:
    async with Queue(database) as queue, queue.stream_jobs("me") as stream:
        reading = asyncio.create_task(anext(stream))
        await asyncio.sleep(0)
        with pytest.raises(InvalidArgument, match="is being read already"):
            await anext(stream)
        await queue.enqueue_job(Job("a"))
        assert [job.id for job in await reading] == ["a"]


@pytest.mark.anyio
async def test_an_ended_stream_cannot_be_entered(database: str) -> None:
    async with Queue(database) as queue:
        stream = queue.stream_jobs("me")
        await stream.aclose()
        with pytest.raises(StreamEnded):
            async with stream:
                pass


@pytest.mark.anyio
async def test_leaving_the_block_ends_a_stream_also_when_its_task_is_cancelled(
    database: str, table: Table
) -> None:
    async with Queue(database, lease=600) as queue:
        await queue.enqueue_jobs(jobs("a", "b", "c"))
        got: list[str] = []

        async def work() -> None:
            async with queue.stream_jobs("me", max_assigned_jobs=1) as stream:
                async for batch in stream:
                    got.extend(job.id for job in batch)
                    if len(got) < 2:
                        await queue.complete_job(batch[0].id)

        task = asyncio.create_task(work())
        await asyncio.to_thread(until, lambda: len(got) == 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert table.held() == [got[1]]
        assert table.waiting() == ["c"]


@pytest.mark.anyio
async def test_a_pending_read_that_is_cancelled_loses_nothing_and_the_stream_goes_on(
    database: str, table: Table
) -> None:
    async with Queue(database) as queue, queue.stream_jobs("me", max_assigned_jobs=100) as stream:
        got: list[str] = []
        for number in range(60):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(stream), 0.001 * (number % 4))
            reading = asyncio.create_task(anext(stream))
            await asyncio.sleep(0)
            await queue.enqueue_job(Job(f"job {number:02}"))
            await asyncio.sleep(0.0005 * (number % 7))
            reading.cancel()
            try:
                got.extend(job.id for job in await reading)
            except asyncio.CancelledError:
                got.extend(job.id for job in await anext(stream))
        assert sorted(got) == [f"job {number:02}" for number in range(60)]
        assert len(table.held()) == 60


@pytest.mark.anyio
async def test_a_read_that_is_cancelled_while_it_asks_about_old_jobs_loses_nothing(
    database: str, table: Table
) -> None:
    async with Queue(database) as queue:
        await queue.enqueue_jobs(jobs(*numbered(20)))
        stream = queue.stream_jobs("me", max_assigned_jobs=20)
        await asyncio.to_thread(table.await_held, None, 20)
        for pause_s in (0.0, 0.0, 0.001, 0.002, 0.003):
            await asyncio.sleep(0.08)  # so long that the reader looks first
            reading = asyncio.create_task(anext(stream))
            await asyncio.sleep(pause_s)
            reading.cancel()
            try:
                batch = await reading
                break
            except asyncio.CancelledError:
                continue
        else:
            batch = await anext(stream)
        assert sorted(job.id for job in batch) == numbered(20)
