"""Streams say whether they wait: while all are busy nobody is signalled, and whoever waits is, at once."""

from __future__ import annotations

from typing import Any

import psycopg

from holdfast import Job, SyncQueue
from tests.engine.sql import listen, signals
from tests.queue.streaming import Face, Reader, Table, jobs, numbered, until

LONG = {"poll": 600.0, "lease": 600.0}

WAITING = "select count(*) from holdfast.listeners where waits_until > clock_timestamp()"
KNOWN = "select count(*) from holdfast.listeners where present_until > clock_timestamp()"


def waiting(conn: psycopg.Connection[Any]) -> int:
    row = conn.execute(WAITING).fetchone()
    assert row is not None
    return int(row[0])


def keep_busy(queue: SyncQueue, reader: Reader, conn: psycopg.Connection[Any]) -> None:
    """Read and complete until the database knows that the stream is busy."""

    def is_known() -> bool:
        for job in reader.read():
            queue.complete_job(job.id)
        row = conn.execute(KNOWN).fetchone()
        return row == (1,) and waiting(conn) == 0

    until(is_known)


def test_while_its_streams_are_busy_a_queue_is_not_signalled(
    side: Face, database: str, conn: psycopg.Connection[Any]
) -> None:
    queue = side.open(database, **LONG)
    queue.enqueue_jobs(jobs(*numbered(3000)))
    reader = side.stream(queue, "busy", None, 1)
    keep_busy(queue, reader, conn)
    listen(conn, "default")

    queue.enqueue_job(Job("one more"))
    queue.enqueue_jobs(jobs("two", "more"))

    assert signals(conn) == []
    with conn.transaction():
        conn.execute("select holdfast.submit_jobs(p_queues => '{default}')")
    assert len(signals(conn)) == 1


def test_a_stream_that_waits_beside_a_busy_one_is_woken_at_once(
    side: Face, database: str, conn: psycopg.Connection[Any]
) -> None:
    queue = side.open(database, **LONG)
    queue.enqueue_jobs(jobs(*numbered(3000)))
    busy = side.stream(queue, "busy", None, 1)
    keep_busy(queue, busy, conn)
    idle = side.stream(queue, "idle", ["rare"], 1)
    idle.start()
    until(lambda: waiting(conn) == 1)

    queue.enqueue_job(Job("rare", tags=["rare"]))

    assert idle.read_ids(1) == ["rare"]


def test_a_stream_that_was_busy_and_ran_dry_is_woken_at_once_by_the_next_job(
    side: Face, database: str, conn: psycopg.Connection[Any], table: Table
) -> None:
    queue = side.open(database, **LONG)
    queue.enqueue_jobs(jobs(*numbered(3000)))
    reader = side.stream(queue, "me", None, 1)
    keep_busy(queue, reader, conn)
    conn.execute("delete from holdfast.jobs where state = 'INITIAL_PENDING'")
    for held in table.held(reader):
        queue.complete_job(held)
    reader.forget_pending()
    until(lambda: waiting(conn) == 1)

    queue.enqueue_job(Job("next"))

    assert reader.read_ids(1) == ["next"]


def test_jobs_that_come_one_by_one_write_nothing_down(
    side: Face, database: str, conn: psycopg.Connection[Any]
) -> None:
    queue = side.open(database, **LONG)
    reader = side.stream(queue, "me", None, 1)
    reader.start()
    until(lambda: waiting(conn) == 1)
    before = conn.execute("select xmin, * from holdfast.listeners").fetchall()

    for number in range(20):
        queue.enqueue_jobs(jobs(str(number)))
        (job,) = reader.read()
        queue.complete_job(job.id)
        reader.start()

    assert conn.execute("select xmin, * from holdfast.listeners").fetchall() == before
