"""Capacity: never exceeded, counted at assignment, and free again whoever ended the job in whatever way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import pytest

from holdfast import Job, SyncQueue
from holdfast.queue import returns
from holdfast.queue.book import Entry
from holdfast.queue.stream import OpenStream
from tests.clock import Clock
from tests.queue.streaming import PATIENCE_S, Face, Reader, Table, jobs, numbered, until

LATER = datetime(2100, 1, 1, tzinfo=UTC)

End = Callable[[SyncQueue, str], object]

ENDS: dict[str, End] = {
    "complete": lambda queue, job_id: queue.complete_job(job_id, 1),
    "fail": lambda queue, job_id: queue.fail_job(job_id, "boom", delay=3600),
    "fail for good": lambda queue, job_id: queue.fail_job(job_id, "boom", permanent=True),
    "stop": lambda queue, job_id: queue.stop_job(job_id),
    "stop with retry": lambda queue, job_id: _cancelled(queue, job_id).stop_job_with_retry(job_id),
    "mark unknown stopped": lambda queue, job_id: queue.mark_job_unknown_stopped(job_id),
    "requeue": lambda queue, job_id: queue.requeue_job(job_id, LATER),
    "reschedule": lambda queue, job_id: queue.reschedule_job(job_id, LATER),
    "retry later": lambda queue, job_id: queue.retry_later(job_id, LATER),
    "release": lambda queue, job_id: queue.release(job_id),
    "complete many": lambda queue, job_id: queue.complete_jobs([(job_id, None)]),
    "fail many": lambda queue, job_id: queue.fail_jobs([(job_id, "boom")]),
    "stop many": lambda queue, job_id: queue.stop_jobs([(job_id, "boom")]),
    "mark unresponsive": lambda queue, job_id: queue.mark_worker_unresponsive(f"me {job_id}"),
    "reset": lambda queue, job_id: queue.reset_running_jobs(),
    "acknowledge": lambda queue, job_id: _cancelled(queue, job_id).acknowledge_cancellation(job_id, True),
}


def _cancelled(queue: SyncQueue, job_id: str) -> SyncQueue:
    queue.cancel_jobs(job_ids=[job_id])
    return queue


RAW = {
    "complete": "select holdfast.settle_jobs(array['first'], array['complete'])",
    "complete under its lease": "select holdfast.complete_job('first', lease_id, 'me') "
    "from holdfast.jobs_with_status where job_id = 'first'",
    "fail": "select holdfast.fail_job('first', 'boom', p_delay => 3600)",
    "stop": "select holdfast.stop_job('first')",
    "stop with retry": "select holdfast.stop_job_with_retry(job_id) "
    "from holdfast.cancel_jobs(p_job_ids => array['first'])",
    "mark unknown stopped": "select holdfast.mark_job_unknown_stopped('first')",
    "requeue": "select holdfast.requeue_job('first', '2100-01-01')",
    "retry later": "select holdfast.retry_later('first', '2100-01-01')",
    "release": "select holdfast.release_job('first')",
    "mark unresponsive": "select holdfast.mark_worker_unresponsive('me')",
    "reset": "select holdfast.reset_running_jobs()",
    "acknowledge": "select holdfast.acknowledge_cancellation(job_id, true) "
    "from holdfast.cancel_jobs(p_job_ids => array['first'])",
}


def _hold_first(side: Face, queue: SyncQueue, table: Table, **options: Any) -> Reader:
    """A full stream whose reader has "first"; "second" waits behind it and comes before any retry."""
    queue.enqueue_job(Job("first", priority=9))
    reader = side.stream(queue, "me", None, 1, **options)
    assert [job.id for job in reader.read()] == ["first"]
    queue.enqueue_job(Job("second", priority=10))
    assert reader.is_blocked(0.1)
    assert table.held(reader) == ["first"]
    return reader


def _held_in_lines(side: Face, queue: SyncQueue, verbs: Iterable[str]) -> dict[str, Reader]:
    """For each verb a full stream on a line of its own; it waits for the next job there."""
    readers: dict[str, Reader] = {}
    for verb in verbs:
        queue.enqueue_job(Job(f"first {verb}", queue=verb))
        readers[verb] = side.stream(queue, f"me first {verb}", None, 1, queues=[verb])
        assert readers[verb].read_ids(1) == [f"first {verb}"]
        queue.enqueue_job(Job(f"second {verb}", queue=verb, priority=1))
        readers[verb].start()
    return readers


def _each_brings_its_second(readers: dict[str, Reader]) -> None:
    got = {verb: reader.read_ids(1) for verb, reader in readers.items()}
    assert got == {verb: [f"second {verb}"] for verb in readers}


def test_every_end_through_this_queue_frees_the_slot_at_once(side: Face, database: str) -> None:
    # Neither a poll nor the next extension would be in time.
    queue = side.open(database, poll=600, lease=600)
    verbs = [verb for verb in ENDS if verb != "reset"]
    readers = _held_in_lines(side, queue, verbs)

    for verb in verbs:
        ENDS[verb](queue, f"first {verb}")

    _each_brings_its_second(readers)


def test_every_end_through_another_queue_of_the_process_frees_the_slot(side: Face, database: str) -> None:
    queue, other = (side.open(database, poll=600, lease=600) for _ in range(2))
    verbs = [verb for verb in ENDS if verb != "reset"]
    readers = _held_in_lines(side, queue, verbs)

    for verb in verbs:
        ENDS[verb](other, f"first {verb}")

    _each_brings_its_second(readers)


def test_every_end_by_sql_frees_the_slot_through_the_signal(side: Face, database: str, table: Table) -> None:
    queue = side.open(database, poll=600, lease=600)
    verbs = [verb for verb in RAW if verb != "reset"]
    readers = _held_in_lines(side, queue, verbs)

    for verb in verbs:
        table.say(RAW[verb].replace("'first'", f"'first {verb}'").replace("'me'", f"'me first {verb}'"))

    _each_brings_its_second(readers)


@pytest.mark.parametrize("by", ["this queue", "another queue", "sql"])
def test_a_reset_of_all_running_jobs_frees_all_slots(
    side: Face, database: str, table: Table, by: str
) -> None:
    queue, other = (side.open(database, poll=600, lease=600) for _ in range(2))
    readers = _held_in_lines(side, queue, ["a", "b", "c"])

    if by == "sql":
        table.say(RAW["reset"])
    else:
        (queue if by == "this queue" else other).reset_running_jobs()

    _each_brings_its_second(readers)


def test_what_others_ended_is_learnt_within_a_second(side: Face, database: str, table: Table) -> None:
    queue = side.open(database, poll=600, lease=600)
    ids = numbered(30)
    queue.enqueue_jobs(jobs(*ids))
    reader = side.stream(queue, "me", None, 1)
    waits: list[float] = []
    for _ in range(12):
        (job,) = reader.read()
        table.say("select holdfast.settle_jobs(array[%s], array['complete'])", job.id)
        ended_at = monotonic()
        reader.start().result(PATIENCE_S)
        waits.append(monotonic() - ended_at)
    assert sorted(waits)[6] < 1.0, waits  # the median: other tests have the machine too


@pytest.mark.parametrize("verb", ["complete", "fail", "release", "reset"])
def test_without_signals_it_is_learnt_at_the_next_extension(
    side: Face, database: str, table: Table, verb: str
) -> None:
    table.say("select holdfast.set_notify(false)")
    queue = side.open(database, poll=0.2, lease=1.5)
    queue.enqueue_jobs([Job("first", priority=9), Job("second", priority=1)])
    reader = side.stream(queue, "me", None, 1)
    assert reader.read_ids(1) == ["first"]

    table.say(RAW[verb])  # of "first"

    got = reader.read_ids(1)
    assert got == (
        ["second"] if verb in ("complete", "fail") else ["first"]
    )  # what was taken back goes first


def test_a_lease_that_lapsed_frees_the_slot_and_the_job_comes_again(
    side: Face, database: str, table: Table, clock: Clock
) -> None:
    queue = side.open(database, poll=600, lease=600)
    reader = _hold_first(side, queue, table)

    clock.advance(601)
    table.lapse("first")

    assert [job.id for job in reader.read()] == ["second"]
    clock.thaw()
    queue.complete_job("second")
    (again,) = reader.read()
    assert (again.id, again.retry_count) == ("first", 0)


def test_a_takeover_frees_the_slot(side: Face, database: str, table: Table, clock: Clock) -> None:
    queue = side.open(database, poll=600, lease=600)
    reader = _hold_first(side, queue, table)
    queue.cancel_jobs(job_ids=["second"])

    clock.advance(601)
    table.take_over("first")
    clock.thaw()
    queue.enqueue_job(Job("third"))

    assert [job.id for job in reader.read()] == ["third"]
    assert table.held(reader) == ["third"]


def test_a_slot_is_free_again_once_however_often_the_job_is_ended(
    side: Face, database: str, table: Table
) -> None:
    queue, other = side.open(database), side.open(database)
    queue.enqueue_jobs(jobs(*numbered(10)))
    reader = side.stream(queue, "me", None, 2)
    first, _second = reader.read_ids(2)

    queue.mark_job_unknown_stopped(first)
    queue.complete_job(first)  # nobody knew what became of it: now it is known
    other.complete_jobs([(first, None)])

    reader.read_ids(1)
    assert reader.is_blocked()
    assert len(table.held(reader)) == 2


def test_capacity_counts_what_is_assigned_not_what_is_delivered(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database)
    reader = side.stream(queue, "me", None, 3)

    queue.enqueue_jobs(jobs(*numbered(10)))

    table.await_held(reader, 3)
    until(lambda: reader.held == 3)  # the database knows it first
    queue.enqueue_jobs(jobs(*numbered(10, "more")))
    assert len(reader.read_ids(3)) == 3
    assert reader.is_blocked()
    assert len(table.held(reader)) == 3


def test_a_slow_reader_gets_no_more_than_its_capacity_and_loses_nothing(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database, lease=1.0)
    ids = numbered(60)
    reader = side.stream(queue, "me", None, 4)
    queue.enqueue_jobs(jobs(*ids))
    got: list[str] = []
    while len(got) < 60:
        table.await_held(reader, 4)  # nobody reads, and the leases are kept
        batch = reader.read_ids(4)
        assert len(table.held(reader)) == 4
        got += batch
        queue.complete_jobs([(job_id, None) for job_id in batch])
    assert sorted(got) == ids
    assert [table.attempts(job_id) for job_id in ids] == [0] * 60


def test_a_slot_is_filled_when_room_came_last_and_when_work_came_last(side: Face, database: str) -> None:
    queue = side.open(database, poll=600, lease=600)
    reader = side.stream(queue, "me", None, 1)
    queue.enqueue_jobs(jobs("a", "b"))
    (job,) = reader.read()
    assert reader.is_blocked(0.1)

    queue.complete_job(job.id)  # room last
    (job,) = reader.read()
    queue.complete_job(job.id)
    assert reader.is_blocked(0.1)
    queue.enqueue_job(Job("c"))  # work last
    assert reader.read_ids(1) == ["c"]


def test_acknowledged_as_not_executing_the_slot_is_lost_until_the_stream_ends(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database)
    queue.enqueue_jobs(jobs(*numbered(6)))
    reader = side.stream(queue, "me", None, 2)
    first, second = reader.read_ids(2)

    queue.cancel_jobs(job_ids=[first])
    queue.acknowledge_cancellation(first, was_executing=False)

    assert table.state(first) == "UNKNOWN_STOPPED"
    assert reader.is_blocked()
    queue.complete_job(second)
    assert len(reader.read_ids(1)) == 1
    assert reader.is_blocked()
    assert len(table.held(reader)) == 1
    reader.close()
    assert len(side.stream(queue, "me", None, 2).read_ids(2)) == 2


@pytest.mark.parametrize("by", ["another queue", "sql"])
def test_a_slot_forfeited_elsewhere_is_lost_too(side: Face, database: str, table: Table, by: str) -> None:
    queue, other = (side.open(database, poll=600, lease=600) for _ in range(2))
    queue.enqueue_jobs(jobs(*numbered(6)))
    reader = side.stream(queue, "me", None, 2)
    first, second = reader.read_ids(2)

    if by == "sql":
        table.say("select 1 from holdfast.cancel_jobs(p_job_ids => array[%s])", first)
        table.say("select holdfast.acknowledge_cancellation(%s, false)", first)
    else:
        other.cancel_jobs(job_ids=[first])
        other.acknowledge_cancellation(first, False)
    until(lambda: reader.held == 1)

    assert reader.is_blocked()
    queue.complete_job(second)
    assert len(reader.read_ids(1)) == 1
    assert reader.is_blocked()


def test_a_slot_forfeited_elsewhere_is_lost_though_its_owner_says_the_same_before_it_hears_of_it(
    side: Face, database: str, table: Table
) -> None:
    """The answer is "already": that this was somebody else's doing, only the database knows."""
    queue = side.open(database, poll=600, lease=600)
    queue.enqueue_jobs(jobs("a", "b"))
    reader = side.stream(queue)
    (job,) = reader.read()
    table.say("select holdfast.set_notify(false)")
    table.say("select 1 from holdfast.cancel_jobs(p_job_ids => array['a'])")
    table.say("select holdfast.acknowledge_cancellation('a', false)")

    queue.mark_job_unknown_stopped("a", lease_id=job.lease_id)

    until(lambda: reader.held == 0)
    assert reader.is_blocked()
    assert table.held() == []


def test_a_slot_forfeited_elsewhere_is_lost_though_the_job_is_just_being_handed_back(
    side: Face, database: str, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = side.open(database, poll=600, lease=600)
    reader = side.stream(queue, "me", None, 2)
    queue.enqueue_job(Job("a"))
    until(lambda: table.held(reader) == ["a"])
    hand_back = returns.hand_back

    def forfeited_before(stream: OpenStream, entries: list[Entry]) -> Any:
        if table.state("a") == "CANCELLING":
            table.say("select holdfast.acknowledge_cancellation('a', false)")
        return hand_back(stream, entries)

    monkeypatch.setattr(returns, "hand_back", forfeited_before)
    queue.cancel_jobs(job_ids=["a"])
    until(lambda: table.state("a") == "UNKNOWN_STOPPED" and reader.held == 0)

    queue.enqueue_jobs(jobs(*numbered(3)))
    assert len(reader.read_ids(1)) == 1
    assert reader.is_blocked()
    assert len(table.held(reader)) == 1


def test_a_slot_freed_by_a_failure_that_is_due_at_once_goes_to_the_job_itself_and_stays_counted(
    side: Face, database: str, table: Table
) -> None:
    """What fails here may be claimed again before its failure is known here: that is another hold of it."""
    queue = side.open(database)
    ids = numbered(4)
    queue.enqueue_jobs(jobs(*ids))
    readers = [side.stream(queue, "me", None, 1) for _ in range(2)]
    lost: list[str] = []
    for reader in readers:
        reader.stream.on_lost(lost.append)
    for _ in range(100):
        for reader in readers:
            (job,) = reader.read()
            queue.fail_job(job.id, "again", lease_id=job.lease_id)
        assert all(len(table.held(reader)) <= 1 for reader in readers)
    for reader in readers:
        reader.read()
    assert [reader.held for reader in readers] == [1, 1]
    assert [len(table.held(reader)) for reader in readers] == [1, 1]
    assert lost == []


def test_nothing_assigned_is_forgotten_when_jobs_fail_at_once_on_a_wide_stream(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database)
    queue.enqueue_jobs(jobs(*numbered(3)))
    reader = side.stream(queue, "me", None, 10)
    lost: list[str] = []
    reader.stream.on_lost(lost.append)
    seen: list[tuple[str, str | None]] = []
    for _ in range(200):
        for job in reader.read():
            seen.append((job.id, job.lease_id))
            queue.fail_job(job.id, "again", lease_id=job.lease_id)
    until(lambda: len(table.held(reader)) == reader.held == 3)
    assert len(set(seen)) == len(seen)
    assert sum(table.attempts(job_id) for job_id in numbered(3)) == len(seen)
    assert lost == []


def test_a_stream_with_forfeited_slots_only_stays_open_and_brings_nothing(side: Face, database: str) -> None:
    queue = side.open(database)
    queue.enqueue_jobs(jobs("a", "b"))
    reader = side.stream(queue)
    (job,) = reader.read()
    queue.cancel_jobs(job_ids=[job.id])
    queue.acknowledge_cancellation(job.id, False)
    assert reader.is_blocked()
    reader.close()
    assert reader.has_ended()


def test_capacity_is_kept_under_a_shower_of_settles_by_everybody(
    side: Face, database: str, table: Table
) -> None:
    queue, other = side.open(database, lease=600), side.open(database, lease=600)
    ids = numbered(300)
    reader = side.stream(queue, "me", None, 7)
    queue.enqueue_jobs(jobs(*ids))
    done = 0
    while done < 300:
        batch = reader.read()
        assert len(table.held(reader)) <= 7
        for place, job in enumerate(batch):
            if place % 3 == 0:
                queue.complete_job(job.id)
            elif place % 3 == 1:
                other.stop_job(job.id)
            else:
                table.say("select holdfast.settle_jobs(array[%s], array['complete'])", job.id)
            assert len(table.held(reader)) <= 7
        done += len(batch)
    until(lambda: reader.held == 0)
    assert table.held() == []


def test_timedelta_and_float_leases_are_the_same(side: Face, database: str, table: Table) -> None:
    queue = side.open(database)
    queue.enqueue_jobs(jobs("a", "b"))
    (one,) = side.stream(queue, lease=timedelta(seconds=90)).read()
    (two,) = side.stream(queue, lease=90.0).read()
    assert abs(table.lease_left_s(one.id) - table.lease_left_s(two.id)) < 20
