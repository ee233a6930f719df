"""Many streams: one thread and one listening connection for all, few sessions, and quiet when idle."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import psycopg

from holdfast import Job
from holdfast.queue.base import POLL_S
from tests.queue.proxy import proxied
from tests.queue.streaming import Face, Table, backends, jobs, numbered, open_face, pass_time, until


def _threads() -> Counter[str]:
    return Counter(thread.name for thread in threading.enumerate())


def _listening(conn: psycopg.Connection[Any]) -> int:
    """Sessions whose last words were a LISTEN, or the question whether the server is there."""
    row = conn.execute(
        "select count(*) from pg_stat_activity where datname = current_database() "
        "and query ilike any (array['%listen %', '%pg_backend_pid()%']) and pid <> pg_backend_pid()"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_thousands_of_streams_share_one_feeder_and_one_listening_connection(
    side: Face, database: str, table: Table
) -> None:
    first, second = (side.open(database, poll=600, lease=600) for _ in range(2))
    readers = [
        side.stream(queue, f"worker {number}", [f"tag {number % 5}"], 1)
        for number in range(1000)
        for queue in (first, second)
    ]
    threads = _threads()
    assert threads["holdfast feeder"] == 1
    assert threads["holdfast signals"] == 1
    assert threads["holdfast keeper"] == 2  # one for each queue

    until(lambda: _listening(table.conn) == 1)
    first.enqueue_jobs([Job(job_id, tags=[f"tag {place % 5}"]) for place, job_id in enumerate(numbered(500))])
    until(lambda: sum(reader.held for reader in readers) == 500)

    assert len(table.held()) == 500
    assert max(reader.held for reader in readers) == 1
    # A feeder, a listener, and for each queue a keeper and what its verbs used.
    assert len(backends(table.conn)) <= 8


def test_a_queue_without_streams_has_no_threads_for_them(side: Face, database: str) -> None:
    before = _threads()
    queue = side.open(database)
    queue.enqueue_job(Job("a"))
    assert _threads()["holdfast feeder"] == before["holdfast feeder"]
    assert _threads()["holdfast keeper"] == before["holdfast keeper"]


def test_with_the_last_queue_the_threads_and_the_sessions_are_gone(
    side: Face, database: str, table: Table
) -> None:
    queues = [side.open(database) for _ in range(3)]
    for queue in queues:
        side.stream(queue)
    assert _threads()["holdfast feeder"] == 1
    for queue in queues[:2]:
        queue.close()
    assert _threads()["holdfast feeder"] == 1
    queues[2].close()
    until(lambda: not {"holdfast feeder", "holdfast keeper", "holdfast signals"} & set(_threads()))
    until(lambda: backends(table.conn) == [])


def test_an_idle_stream_asks_once_in_a_poll_and_a_poll_is_five_seconds_long(database: str) -> None:
    assert POLL_S == 5.0
    with proxied(database) as proxy, open_face("sync") as side:
        queue = side.open(proxy.dsn, poll=1.0)
        readers = [side.stream(queue, name, None, 3) for name in ("a", "b")]
        readers[0].start()
        pass_time(3.0)  # it looks often at first
        before = proxy.asked
        pass_time(4.0)
        assert proxy.asked - before <= 5
        queue.close()


def test_streams_come_and_go_and_leave_nothing(side: Face, database: str, table: Table) -> None:
    queue = side.open(database, lease=600)
    queue.enqueue_jobs(jobs(*numbered(20)))
    for number in range(60):
        side.stream(queue, f"worker {number}", [f"tag {number % 3}"] if number % 2 else None, 5).close()
    assert table.held() == []
    # A queue of asyncio is behind a hand of ours.
    streams: Any = (queue if side.loop is None else vars(queue)["queue"])._require_open().streams
    assert streams._open == set()
    assert streams._owners.by_job == {}
    assert streams._feeder._lines.queues == set()
    assert {table.attempts(job_id) for job_id in numbered(20)} == {0}
