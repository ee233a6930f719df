"""Streams while the database misbehaves: nothing lost, nothing twice, and an end in time."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.types.json import Jsonb

from holdfast import Job, Queue, SyncQueue
from holdfast.domain.outcome import Completed
from holdfast.engine import installer
from holdfast.errors import HoldfastError, SchemaMissing
from holdfast.queue.streams import Streams
from holdfast.queue.terms import stream_terms
from tests.queue.proxy import proxied
from tests.queue.streaming import (
    PATIENCE_S,
    Face,
    Reader,
    Table,
    backends,
    in_thread,
    jobs,
    numbered,
    open_face,
    pass_time,
    until,
)
from tests.store.servers import OwnServer
from tests.store.trouble import frozen

A_CLAIM = b"claim me"
"""What is in the answer to a claim and in no other: the payload."""


@pytest.fixture(scope="module")
def own_server() -> Generator[OwnServer]:
    """A server that these tests may stop and freeze."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-tests-"))
    directory.chmod(0o755)
    server = OwnServer(directory / "pg")
    yield server
    server.stop()
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def server(own_server: OwnServer) -> OwnServer:
    """The same, with nothing in it yet."""
    with psycopg.connect(own_server.dsn, autocommit=True) as conn:
        for pid in backends(conn):  # what a frozen server was told before goes on when it has thawed
            conn.execute("select pg_terminate_backend(%s, 10000)", [pid])
        conn.execute("drop schema if exists holdfast cascade")
        installer.install(conn)
    return own_server


def _work(queue: SyncQueue, reader: Reader, count: int) -> list[str]:
    """Read and complete, until so many jobs are completed; the ids as they were delivered."""
    delivered: list[str] = []
    done: set[str] = set()
    while len(done) < count:
        batch = reader.read()
        delivered += [job.id for job in batch]
        left = [(job.id, None, job.lease_id) for job in batch]
        deadline = monotonic() + 60
        while left:
            try:
                verdicts = queue.complete_jobs(left)
            except HoldfastError:
                assert monotonic() < deadline
                continue
            assert all(verdict.ok or verdict.reason == "already" for verdict in verdicts), verdicts
            left = []
        done |= {job.id for job in batch}
    return delivered


def test_when_every_connection_is_cut_nothing_is_lost_and_nothing_comes_twice(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database, lease=600, poll=1.0)
    reader = side.stream(queue, "me", None, 5)
    ids = numbered(150)
    table.say("select holdfast.set_notify(true)")
    for place in range(0, 150, 50):
        queue.enqueue_jobs(jobs(*ids[place : place + 50]))
    working = in_thread(lambda: _work(queue, reader, 150))
    cuts = 0
    while not working.done() and cuts < 15:
        for pid in backends(table.conn):
            table.say("select pg_terminate_backend(%s)", pid)
        cuts += 1
        pass_time(0.1)
        assert len(table.held(reader)) <= 5

    delivered = working.result(60)

    assert sorted(delivered) == ids
    assert table.held() == []
    assert {table.attempts(job_id) for job_id in ids} == {0}


def test_a_claim_whose_answer_is_lost_is_found_again_and_delivered_without_waiting_for_its_lapse(
    side: Face, database: str, table: Table
) -> None:
    with proxied(database) as proxy:
        queue = side.open(proxy.dsn, lease=600, poll=600)
        reader = side.stream(queue, "me", None, 3)
        _warm_up(queue, reader)
        reader.start()
        proxy.swallow_answer_with(A_CLAIM)

        table.say("select holdfast.set_notify(true)")
        _submit(table, numbered(5))
        table.await_held(reader, 3)
        got = reader.read_jobs(3)

        assert proxy.cuts == 1
        assert {job.id for job in got} == set(table.held(reader))
        assert reader.is_blocked()
        assert len(table.held(reader)) == 3
        assert {table.attempts(job.id) for job in got} == {0}
        queue.complete_jobs([(job.id, None, job.lease_id) for job in got])
        assert len(reader.read_ids(2)) == 2
        queue.close()


def test_a_lost_claim_of_a_job_that_was_cancelled_meanwhile_is_not_delivered(
    side: Face, database: str, table: Table
) -> None:
    with proxied(database) as proxy:
        queue = side.open(proxy.dsn, lease=600, poll=600)
        reader = side.stream(queue, "me", None, 2)
        _warm_up(queue, reader)
        reader.start()
        proxy.swallow_answer_with(A_CLAIM)
        _submit(table, ["a", "b"])
        table.await_held(reader, 2)
        table.say("select 1 from holdfast.cancel_jobs(p_job_ids => array['a'])")

        assert [job.id for job in reader.read_jobs(1)] == ["b"]
        table.await_state("a", "STOPPED")
        queue.close()


def test_a_stream_that_ends_while_its_claim_is_lost_hands_that_back_too(
    side: Face, database: str, table: Table
) -> None:
    with proxied(database) as proxy:
        queue = side.open(proxy.dsn, lease=600, poll=600)
        reader = side.stream(queue, "me", None, 3)
        _warm_up(queue, reader)
        proxy.swallow_answer_with(A_CLAIM)
        _submit(table, ["a", "b"])
        until(lambda: proxy.cuts == 1)

        reader.close()

        assert table.held() == []
        assert {table.state("a"), table.state("b")} == {"FAILED_RETRY"}
        queue.close()


def _warm_up(queue: SyncQueue, reader: Reader) -> None:
    """Have a first job through, so that every connection is made and only the next claim can be meant."""
    queue.enqueue_job(Job("first"))
    assert reader.read_ids(1) == ["first"]
    queue.complete_job("first")
    assert reader.is_blocked(0.3)


def _submit(table: Table, ids: list[str]) -> None:
    payloads = [Jsonb(A_CLAIM.decode())] * len(ids)
    table.say(
        "select count(*) from holdfast.submit_jobs(p_job_ids => %s::text[], p_payloads => %s)", ids, payloads
    )


def test_a_restarted_server_is_survived_and_it_is_said_once(
    side: Face, server: OwnServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast.queue")
    queue = side.open(server.dsn, lease=120, poll=1.0)
    reader = side.stream(queue, "me", None, 4)
    queue.enqueue_jobs(jobs(*numbered(6)))
    held = reader.read_ids(4)

    server.stop()
    assert reader.is_blocked(2.0)
    server.start()

    queue.complete_jobs([(job_id, None) for job_id in held])
    rest = reader.read_ids(2)
    assert sorted(held + rest) == numbered(6)
    claims = [record.getMessage() for record in caplog.records if "cannot claim" in record.getMessage()]
    assert len(claims) <= 1
    queue.close()


@pytest.mark.parametrize(("name", "gone"), [("sync", "frozen"), ("async", "stopped")])
def test_closing_takes_a_few_seconds_though_the_server_does_not_answer(
    server: OwnServer, name: str, gone: str
) -> None:
    with open_face(name) as side:
        queue = side.open(server.dsn, lease=600)
        queue.enqueue_jobs(jobs(*numbered(10)))
        readers = [side.stream(queue, "me", None, 2) for _ in range(3)]
        until(lambda: all(reader.held == 2 for reader in readers))
        waiting = side.stream(queue, "me", queues=["other"]).start()
        with _out_of_reach(server, gone):
            began = monotonic()
            queue.close()
            took = monotonic() - began
        assert took < 15, took
        assert waiting.result(10) is None


@contextmanager
def _out_of_reach(server: OwnServer, gone: str) -> Generator[None]:
    if gone == "frozen":
        with frozen(*server.pids()):
            yield
    else:
        server.stop()
        yield
        server.start()


@pytest.mark.parametrize("refusal", ["schema dropped", "function missing"])
def test_what_the_database_refuses_for_good_is_raised_to_the_reader_and_ends_the_stream(
    side: Face, database: str, table: Table, refusal: str
) -> None:
    queue = side.open(database, poll=0.2)
    reader = side.stream(queue)
    pending = reader.start()
    assert reader.is_blocked(0.1)

    table.conn.execute(
        "drop schema holdfast cascade"
        if refusal == "schema dropped"
        else "drop function holdfast.settle_and_claim"
    )

    with pytest.raises(SchemaMissing, match="holdfast migrate up"):
        pending.result(30)
    reader.forget_pending()
    assert reader.has_ended()
    reader.close()


def test_outcomes_refused_for_good_after_a_lost_answer_are_not_taken_for_written_down(
    database: str, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """An answer was lost, so outcomes are told by themselves first; that is refused, and ends the stream."""
    streams = Streams(database, "holdfast", poll_s=600)
    terms = stream_terms("me", (), 1, ["default"], 600, for_worker=True)
    stream = streams.open(terms, lambda: None, lambda callback, job_id: None)
    _submit(table, ["a"])
    taken = until(stream.take)
    assert taken is not None
    (job,) = taken
    streams.look(stream).result(PATIENCE_S)  # the feeder has nothing more to do
    stream.unsure = True
    table.conn.execute("drop function holdfast.settle_jobs")

    streams.report(stream, [(job.id, job.lease_id, Completed(None))])

    assert stream.ended.result(PATIENCE_S) is False
    assert "1 outcomes of me could not be written down" in caplog.text
    assert streams.close() is False


def test_a_role_without_rights_is_told_so_and_streams_with_rights_go_on(
    side: Face, database: str, table: Table
) -> None:
    role = f"streamer_{os.getpid()}_{side.name}"
    table.conn.execute(f"create role {role} login".encode())
    try:
        for what in ("usage on schema holdfast", "select on all tables in schema holdfast"):
            table.conn.execute(f"grant {what} to {role}".encode())
        allowed = side.open(database, poll=0.2)
        refused = side.open(make_conninfo(database, options=f"-c role={role}"), poll=0.2)
        good, bad = side.stream(allowed), side.stream(refused)
        with pytest.raises(HoldfastError, match="permission denied"):
            bad.read()
        bad.forget_pending()
        assert bad.has_ended()
        allowed.enqueue_job(Job("a"))
        assert good.read_ids(1) == ["a"]
        refused.close()
    finally:
        table.conn.execute(f"drop owned by {role}; drop role {role}".encode())


def test_a_job_whose_lease_ran_out_while_the_server_was_silent_is_not_delivered_blindly(
    side: Face, server: OwnServer
) -> None:
    queue = side.open(server.dsn, lease=1.5, poll=0.5)
    reader = side.stream(queue, "me", None, 2)
    queue.enqueue_jobs(jobs("a", "b"))
    until(lambda: reader.held == 2)
    with frozen(*server.pids()):
        pass_time(2.5)
        assert reader.is_blocked(1.0)
    got = reader.read_jobs(2)
    assert sorted(job.id for job in got) == ["a", "b"]
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        table = Table(conn)
        assert table.held(reader) == ["a", "b"]
        leases = {table._job(job.id, "lease_id") for job in got}
    assert leases == {job.lease_id for job in got}
    queue.close()


def test_a_queue_closed_by_a_loop_that_is_gone_leaves_nothing_behind(database: str, table: Table) -> None:
    """Who forgets to close a queue and lets the loop go loses its reader: the stream ends by itself."""

    async def forget() -> Any:
        queue = Queue(database, lease=600)
        await queue.open()
        stream = queue.stream_jobs("me", max_assigned_jobs=2)
        return queue, stream

    loop = asyncio.new_event_loop()
    queue, stream = loop.run_until_complete(forget())
    loop.run_until_complete(asyncio.sleep(0.1))
    loop.run_until_complete(queue._opened.store.close())
    loop.close()
    _submit(table, ["a", "b"])
    table.await_state("a", "FAILED_RETRY")
    table.await_state("b", "FAILED_RETRY", "INITIAL_PENDING")
    assert stream._stream.is_ending
    queue._opened.streams.close()
