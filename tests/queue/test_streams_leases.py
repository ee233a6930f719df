"""Leases of what streams hold: kept by a thread, whatever the loop, the readers and the other leases do."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg
import pytest

from holdfast import Job, Queue
from tests.queue.streaming import Face, Table, jobs, numbered, pass_time


def test_leases_are_kept_until_the_jobs_are_settled_delivered_or_not(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database)
    queue.enqueue_jobs(jobs(*numbered(4)))
    reader = side.stream(queue, "me", None, 2, lease=1.0)
    delivered = reader.read_jobs(2)
    other = side.stream(queue, "me", None, 2, lease=1.0)
    table.await_held(other, 2)

    pass_time(2.5)

    assert table.say("select count(*) from holdfast.lapse_leases()") == 0
    assert len(table.held(reader)) == len(table.held(other)) == 2
    for job in [*delivered, *other.read_jobs(2)]:
        queue.complete_job(job.id, lease_id=job.lease_id)


def test_leases_of_different_lengths_are_each_kept(side: Face, database: str, table: Table) -> None:
    queue = side.open(database)
    queue.enqueue_jobs(jobs("a", "b"))
    (short,) = side.stream(queue, lease=1.0).read()
    (long,) = side.stream(queue, lease=500).read()

    pass_time(2)

    assert 0 < table.lease_left_s(short.id) <= 1.0
    assert 400 < table.lease_left_s(long.id) <= 500


def test_a_job_that_is_being_cancelled_is_kept_until_that_is_acknowledged(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database, lease=1.0)
    queue.enqueue_job(Job("a"))
    reader = side.stream(queue)
    (job,) = reader.read()
    queue.cancel_jobs(job_ids=["a"])

    pass_time(2.5)

    assert table.say("select count(*) from holdfast.lapse_leases()") == 0
    assert table.state("a") == "CANCELLING"
    queue.acknowledge_cancellation("a", True, lease_id=job.lease_id)
    assert table.state("a") == "STOPPED"


@pytest.mark.anyio
async def test_leases_are_kept_while_the_event_loop_is_blocked(database: str, table: Table) -> None:
    async with Queue(database, lease=1.0) as queue:
        await queue.enqueue_jobs(jobs("a", "b"))
        stream = queue.stream_jobs("me", max_assigned_jobs=1)
        (job,) = await anext(stream)

        time.sleep(3)  # noqa: ASYNC251  # what must not hurt

        assert table.say("select count(*) from holdfast.lapse_leases()") == 0
        await queue.complete_job(job.id, lease_id=job.lease_id)
        assert len(await asyncio.wait_for(anext(stream), 30)) == 1


def test_the_keeper_rests_while_there_is_nothing_to_keep(
    side: Face, database: str, conn: psycopg.Connection[Any]
) -> None:
    """A thread that spins would be seen in the time the process takes."""
    queue = side.open(database, lease=600, poll=600)
    reader = side.stream(queue)
    assert reader.is_blocked(0.2)
    reader.close()
    used = time.process_time()
    pass_time(1.0)
    assert time.process_time() - used < 0.6
