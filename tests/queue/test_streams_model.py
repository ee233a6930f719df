"""Anything in any order by anybody: capacity is kept, nothing is lost, and the book is right in the end."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from time import monotonic
from typing import Any

import pytest

from holdfast import Job, SyncQueue
from holdfast.errors import HoldfastError
from tests.queue.streaming import Face, Reader, Table, until

STEPS = 220
FIRST_SEED = int(os.environ.get("HOLDFAST_STREAMS_SEED", "1"))
SEEDS = int(os.environ.get("HOLDFAST_STREAMS_SEEDS", "3"))

Verb = Callable[[SyncQueue, str, str | None], object]

VERBS: dict[str, Verb] = {
    "complete": lambda queue, job_id, lease_id: queue.complete_job(job_id, lease_id=lease_id),
    "fail": lambda queue, job_id, lease_id: queue.fail_job(job_id, "boom", lease_id=lease_id),
    "stop": lambda queue, job_id, lease_id: queue.stop_job(job_id, lease_id=lease_id),
    "requeue": lambda queue, job_id, lease_id: queue.requeue_job(job_id, lease_id=lease_id),
    "unknown": lambda queue, job_id, lease_id: queue.mark_job_unknown_stopped(job_id, lease_id=lease_id),
    "later": lambda queue, job_id, _: queue.retry_later(job_id, datetime.now(UTC)),
    "release": lambda queue, job_id, _: queue.release(job_id),
    "acknowledge": lambda queue, job_id, lease_id: queue.acknowledge_cancellation(
        job_id, True, lease_id=lease_id
    ),
}


class World:
    """Two queues, some streams, and somebody with SQL, all on one line."""

    def __init__(self, side: Face, database: str, table: Table, seed: int) -> None:
        self.chance = random.Random(seed)
        self.side = side
        self.table = table
        self.queues = [side.open(database, lease=600, poll=0.3) for _ in range(2)]
        self.streams: list[Reader] = []
        self.ended: list[Reader] = []
        self.submitted: list[str] = []
        self.delivered: set[tuple[str, str | None]] = set()
        self.in_hand: list[Job] = []

    def step(self) -> None:
        self.chance.choice(
            [self.submit, self.submit, self.open, self.read, self.read, self.read]
            + [self.settle] * 5
            + [self.cancel, self.lapse, self.sweep, self.end, self.mark_unresponsive]
        )()
        for reader in self.streams:
            held = self.table.held(reader)
            assert len(held) <= reader.stream.max_assigned_jobs, held

    def submit(self) -> None:
        names = [f"job {len(self.submitted) + place:04}" for place in range(self.chance.randint(1, 4))]
        self.submitted += self.chance.choice(self.queues).enqueue_jobs([Job(name) for name in names])

    def open(self) -> None:
        if len(self.streams) < 4:
            queue = self.chance.choice(self.queues)
            name, capacity = self.chance.choice("ab"), self.chance.randint(1, 4)
            self.streams.append(self.side.stream(queue, name, None, capacity))

    def read(self) -> None:
        for reader in self.streams:
            with suppress(TimeoutError):
                self.receive(reader.read(0.01))

    def receive(self, batch: list[Job]) -> None:
        for job in batch:
            assert (job.id, job.lease_id) not in self.delivered
            self.delivered.add((job.id, job.lease_id))
            self.in_hand.append(job)

    def settle(self) -> None:
        if not self.in_hand:
            return
        job = self.in_hand.pop(self.chance.randrange(len(self.in_hand)))
        verb = self.chance.choice(list(VERBS.values()))
        with suppress(HoldfastError):  # refused: somebody else was first, or it is not that kind of job
            verb(self.chance.choice(self.queues), job.id, job.lease_id)
            return
        self.in_hand.append(job)

    def cancel(self) -> None:
        if self.submitted:
            job_id = self.chance.choice(self.submitted[-20:])
            if self.chance.random() < 0.5:
                self.chance.choice(self.queues).cancel_jobs(job_ids=[job_id])
            else:
                self.table.say("select 1 from holdfast.cancel_jobs(p_job_ids => array[%s])", job_id)

    def lapse(self) -> None:
        """As if nobody had given a sign of life for one job."""
        if held := self.table.held():
            self.table.conn.execute(
                "update holdfast.jobs set lease_expires_at = clock_timestamp() - interval '1 second' "
                "where name = %s",
                [self.chance.choice(held)],
            )

    def sweep(self) -> None:
        self.table.say("select count(*) from holdfast.lapse_leases()")

    def mark_unresponsive(self) -> None:
        if self.chance.random() < 0.3:
            self.chance.choice(self.queues).mark_worker_unresponsive(self.chance.choice("ab"))

    def end(self) -> None:
        if self.streams and self.chance.random() < 0.5:
            reader = self.streams.pop(self.chance.randrange(len(self.streams)))
            self.ended.append(reader)
            self.receive(reader.close_and_take_rest())

    # The end of it

    def come_to_rest(self) -> None:
        """Complete everything. Whatever is live then is held by a stream, or on its way to one.

        However long that takes, as long as it goes on: a stream with one slot hears five times a second what
        another queue has completed, and there may be a hundred jobs.
        """
        self.sweep()
        if not self.streams:
            self.open()
        while live := len(self._live()):
            until(
                lambda live=live: self._end_some() < live,  # type: ignore[misc]
                lambda: f"not at rest\n{self.account()}",
            )

    def _end_some(self) -> int:
        """Complete what was delivered; how many jobs are live after that."""
        self.sweep()
        self.read()
        held = set(self.table.held())
        for job_id, lease_id in self.delivered:
            for verb in ("complete", "acknowledge") if job_id in held else ():
                with suppress(HoldfastError):  # that was an earlier hold of it, or it is the other verb's
                    VERBS[verb](self.queues[0], job_id, lease_id)
        return len(self._live())

    def _live(self) -> list[Any]:
        return self.table.conn.execute(
            "select name, state, stream_id, lease_id, lease_expires_at - clock_timestamp() from holdfast.jobs"
        ).fetchall()

    def books_equal_the_database(self) -> None:
        until(self._books_are_right, lambda: f"the books are wrong\n{self.account()}")

    def _books_are_right(self) -> bool:
        return all(len(self.table.held(reader)) == reader.held for reader in self.streams)

    def account(self) -> str:
        """What stands in the database and in every book, for whoever must find out why."""
        live = ["live: " + ", ".join(map(str, row)) for row in self._live()]
        return "\n".join(live + [describe(reader) for reader in self.streams + self.ended])


def describe(reader: Reader) -> str:
    """The book of a stream, and what is planned for its line."""
    stream, book = reader.inside, reader.inside._book
    feeder = reader.stream._streams._feeder
    line = None if feeder is None else feeder._lines.of(stream)
    entries = [
        (entry.job.id, entry.lease_id, "delivered" if entry.delivered else "not delivered", entry.settling_at)
        for entry in book.entries.values()
    ]
    plan = (
        "it stands in no line"
        if line is None
        else f"more {line.more}, look_at {line.look_at}, poll_at {line.poll_at}, "
        f"{'roomy' if stream in line.roomy else 'not roomy'}"
    )
    return (
        f"{'ended ' * stream.is_ending}stream {stream.terms.stream_id} at {monotonic()}: "
        f"capacity {book.capacity}, asked {book.asked}, forfeits {book.forfeits}, unsure {stream.unsure}, "
        f"reads {reader.is_reading}\n"
        f"  entries {entries}\n"
        f"  waiting {list(book.waiting)}, unwanted {list(book.unwanted)}, lapsed {list(book.lapsed)}\n"
        f"  {plan}"
    )


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_whatever_happens_capacity_is_kept_and_nothing_is_lost_or_delivered_twice(
    side: Face, database: str, table: Table, seed: int
) -> None:
    table.say("select holdfast.set_crash_concern_threshold(1000)")
    world = World(side, database, table, seed)
    for _ in range(STEPS):
        world.step()
    world.books_equal_the_database()
    world.come_to_rest()
    world.books_equal_the_database()
    ended = table.say("select count(*) from holdfast.jobs_archive")
    assert ended == len(world.submitted)
    assert all(reader.held == 0 for reader in world.streams)
