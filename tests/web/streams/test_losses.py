"""Connections that end, clients that hang: what comes back at once, what stays, and what counts no more."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Generator
from contextlib import suppress
from math import inf
from time import monotonic
from typing import Any
from unittest import mock

import pytest

from holdfast import Job, SyncQueue
from holdfast.web import serving
from tests.queue.streaming import Table, jobs, numbered, pass_time, until
from tests.web.conftest import Serve
from tests.web.serving import Running
from tests.web.streams.client import Api, Connection, Listener
from tests.web.streams.proxy import proxied


@pytest.fixture
def running(serve: Serve) -> Running:
    return serve()


@pytest.fixture
def api(running: Running) -> Api:
    return Api(running.address)


@pytest.fixture
def queue(database: str) -> Generator[SyncQueue]:
    with SyncQueue(database) as opened:
        yield opened


def _name(job: Any) -> dict[str, str]:
    return {"job_id": job["job_id"], "lease_id": job["lease_id"]}


def _done(job: Any, **more: Any) -> dict[str, Any]:
    return {**_name(job), "outcome": "complete", **more}


def _acknowledge(stream: Connection, *acknowledged: Any) -> list[bool]:
    answer = stream.api.said(f"{stream.path}/ack", {"jobs": [_name(job) for job in acknowledged]})
    return [verdict["ok"] for verdict in answer["verdicts"]]


def _settle(api: Api, *results: dict[str, Any]) -> list[Any]:
    verdicts: list[Any] = api.said("/api/jobs/settle", {"results": results})["verdicts"]
    return verdicts


def test_what_was_not_acknowledged_goes_back_at_once_when_the_connection_ends(
    api: Api, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs(jobs(*numbered(6)))
    stream = api.open(assignee="me", capacity=4, lease=600, ack=True)
    first, second, third, fourth = stream.read_jobs(4)
    assert _acknowledge(stream, first) == [True]
    stream.settle(_done(second))
    stream.read_jobs(1)

    stream.close()

    until(lambda: table.held() == [first["job_id"]])
    for job in (third, fourth):
        assert table.state(job["job_id"]) == "FAILED_RETRY"
        assert "not delivered: the stream of me ended" in table.error(job["job_id"])
        assert table.attempts(job["job_id"]) == 0
    assert table.state(second["job_id"]) == "COMPLETED"


def test_what_has_arrived_stays_its_clients_until_the_lease_lapses_and_nobody_extends_it(
    api: Api, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs(jobs("a", "b"))
    stream = api.open(assignee="me", capacity=2, lease=3)
    a, _ = sorted(stream.read_jobs(2), key=lambda job: str(job["job_id"]))
    stream.close()
    until(lambda: api.post(f"{stream.path}/beat")[0] == 404)

    assert table.held() == ["a", "b"]
    (verdict,) = _settle(api, _done(a, result="from another connection"))
    assert (verdict["ok"], table.state("a")) == (True, "COMPLETED")
    until(lambda: table.lease_left_s("b") < 0)
    other = api.open(assignee="other")
    (again,) = other.read_jobs(1)
    assert (again["job_id"], again["attempts"]) == ("b", 0)
    other.close()


def test_a_zombie_changes_nothing_under_its_old_lease(api: Api, queue: SyncQueue, table: Table) -> None:
    queue.enqueue_job(Job("a"))
    zombie = api.open(assignee="zombie", lease=1)
    (old,) = zombie.read_jobs(1)
    zombie.close()
    heir = api.open(assignee="heir", lease=600)
    (new,) = heir.read_jobs(1)
    assert new["job_id"] == "a"

    for outcome in ({"outcome": "complete"}, {"outcome": "fail", "error": "x"}, {"outcome": "release"}):
        (verdict,) = _settle(api, {**_name(old), **outcome})
        assert (verdict["ok"], verdict["reason"]) == (False, "lease_lost")
    (verdict,) = api.said("/api/jobs/extend", {"jobs": [_name(old)], "lease": 900})["verdicts"]
    assert verdict["hold"] == "taken"
    assert _acknowledge(heir, old) == [False]
    assert (table.state("a"), queue.get_job("a").lease_id) == ("RUNNING", new["lease_id"])
    assert heir.settle(_done(new))[0]["ok"]
    heir.close()


@pytest.mark.parametrize("ack", [False, True])
def test_a_client_that_hangs_loses_its_jobs_a_lease_after_its_last_sign_of_life(
    api: Api, queue: SyncQueue, table: Table, ack: bool
) -> None:
    queue.enqueue_jobs(jobs("a", "b"))
    stream = api.open(assignee="me", capacity=2, lease=4, ack=ack)
    a, b = stream.read_jobs(2)
    for _ in range(6):  # longer than a lease: answered pings keep them
        stream.read_until("ping")
        stream.beat()
    assert table.say("select count(*) from holdfast.lapse_leases()") == 0
    _acknowledge(stream, a)
    last = monotonic()

    line = stream.read()
    while line["type"] == "ping":  # no answer any more
        line = stream.read()

    assert line["type"] == "close"
    assert "no sign of life" in line["reason"]
    assert 3.9 < monotonic() - last < 20
    if ack:
        table.await_state(b["job_id"], "FAILED_RETRY")  # it never said that it got this one
    stream.close()
    heir = api.open(assignee="heir", capacity=2, lease=600)
    assert len(heir.read_jobs(2)) == 2
    assert [verdict["reason"] for verdict in _settle(api, _done(a), _done(b))] == ["lease_lost"] * 2
    heir.close()


def _beyond_s(api: Api, table: Table) -> float:
    """By how much a lease of 3 s outlived the last sign of life at most, until its stream was closed."""
    stream = api.open(assignee="me", lease=3)
    stream.read_jobs(1)
    stream.beat()
    last = float(table.say("select extract(epoch from clock_timestamp())::float"))
    ends = [last]
    while stream.read()["type"] == "ping":
        ends.append(
            float(table.say("select extract(epoch from max(lease_expires_at))::float from holdfast.jobs"))
        )
    stream.close()
    return max(ends) - last - 3


def test_a_lease_is_never_extended_beyond_one_lease_after_the_last_sign_of_life(
    api: Api, queue: SyncQueue, table: Table
) -> None:
    # Until one was undisturbed: a call that extends a lease may be under way for long on a busy machine.
    beyond_s: list[float] = []
    while len(beyond_s) < 5 and min(beyond_s, default=inf) > 0.05:
        queue.enqueue_job(Job(f"job {len(beyond_s)}"))
        beyond_s.append(_beyond_s(api, table))
    assert min(beyond_s) <= 0.05


@pytest.mark.parametrize("ack", [False, True])
def test_a_connection_cut_on_the_way_hands_back_what_did_not_arrive(
    running: Running, queue: SyncQueue, table: Table, ack: bool
) -> None:
    with proxied(running.address) as proxy:
        api = Api(proxy.address)
        queue.enqueue_jobs(jobs(*numbered(4)))
        stream = api.open(assignee="me", capacity=2, lease=600, ack=ack)
        first, _ = stream.read_jobs(2)
        if ack:
            assert _acknowledge(stream, first) == [True]

        proxy.cut_all()

        with pytest.raises((EOFError, OSError)):
            stream.read_until("close")
        stream.close()
        until(lambda: len(table.held()) == (1 if ack else 2))
        until(lambda: api.post(f"{stream.path}/beat")[0] == 404)
        assert _settle(api, _done(first))[0]["ok"]
        again = api.open(assignee="me", capacity=4, lease=600, ack=ack)
        assert len(again.read_jobs(3 if ack else 2)) == (3 if ack else 2)
        again.close()


@pytest.mark.parametrize("ack", [False, True])
def test_a_connection_that_is_dead_on_both_sides_is_given_up_after_a_lease(
    running: Running, queue: SyncQueue, table: Table, ack: bool
) -> None:
    """Nothing is closed and nothing passes: neither side learns of it but by what it does not hear."""
    with proxied(running.address) as proxy:
        queue.enqueue_jobs(jobs("a", "b", "c"))
        stream = Api(proxy.address).open(assignee="me", capacity=2, lease=2, ack=ack)
        held = stream.read_jobs(2)
        proxy.go_dead()

        direct = Api(running.address)
        until(lambda: direct.post("/api/streams/0/beat")[0] == 404)
        until(lambda: _is_gone(running, stream))

        if ack:
            until(lambda: table.held() == [])
        heir = direct.open(assignee="heir", capacity=3, lease=600)
        assert len(heir.read_jobs(3)) == 3
        assert [verdict["reason"] for verdict in _settle(direct, *map(_done, held))] == ["lease_lost"] * 2
        heir.close()
    stream.close()


LARGE = "x" * 200_000
"""A hundred jobs with this are more than the system takes on behalf of a client that does not read."""


def test_a_client_that_does_not_read_gets_no_more_than_fits_and_all_of_it_when_it_reads(
    api: Api, running: Running, queue: SyncQueue, table: Table
) -> None:
    ids = numbered(100)
    queue.enqueue_jobs([Job(job_id, "", LARGE) for job_id in ids])
    stream = api.open(assignee="me", capacity=100, lease=4)
    session = _session(running, stream)
    table.await_held(None, 100)
    for _ in range(15):  # for longer than a lease, it says that it lives and does not read
        pass_time(0.3)
        stream.beat()

    assert len(session._on_the_way) > 20  # waits in the server, as it was taken: nothing is copied ahead
    assert len(table.held()) == 100
    assert table.say("select count(*) from holdfast.lapse_leases()") == 0
    assert sorted(job["job_id"] for job in stream.read_jobs(100)) == ids
    stream.close()


def test_when_a_client_that_does_not_read_is_let_go_each_job_was_either_written_or_handed_back(
    api: Api, running: Running, queue: SyncQueue, table: Table
) -> None:
    ids = numbered(100)
    queue.enqueue_jobs([Job(job_id, "", LARGE) for job_id in ids])
    stream = api.open(assignee="me", capacity=100, lease=2)
    session = _session(running, stream)
    table.await_held(None, 100)

    until(lambda: session.closing.done())
    until(lambda: session._is_finished)
    assert session._stream.ended.result(30)

    back = {job_id for job_id in ids if table.state(job_id) == "FAILED_RETRY"}
    came = _read_all_jobs(stream)
    assert len(back) > 20
    assert came.isdisjoint(back)
    assert came | back == set(ids)
    stream.close()
    heir = api.open(assignee="heir", capacity=100, lease=600)
    assert (
        sorted(job["job_id"] for job in heir.read_jobs(100)) == ids
    )  # what was written, as the leases lapse
    heir.close()


def test_a_server_forgets_streams_that_have_ended(
    api: Api, running: Running, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs(jobs(*numbered(4)))
    streams = [api.open(assignee="me", capacity=2, lease=3) for _ in range(2)]
    for stream in streams:
        stream.read_jobs(2)
        stream.close()

    held = running.app.state.room._sessions
    until(lambda: not held._open)
    until(lambda: not held._streams._owners.by_job)
    until(lambda: not held._streams._keeper._streams)
    assert len(table.held()) == 4  # they are their workers' until they lapse


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system cannot end such connections")
def test_a_connection_that_takes_nothing_is_ended_though_its_client_says_that_it_lives(
    serve: Serve, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs([Job(job_id, "", LARGE) for job_id in numbered(100)])
    with mock.patch.object(serving, "UNTAKEN_S", 2):
        api = Api(serve().address)
    stream = api.open(assignee="me", capacity=100, lease=600, ack=True)
    table.await_held(None, 100)

    until(lambda: api.post(f"{stream.path}/beat")[0] == 404)

    until(lambda: table.held() == [])
    stream.close()


def test_jobs_cancelled_before_they_were_written_are_stopped_and_never_come(
    api: Api, running: Running, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs([Job(job_id, "", LARGE, priority=1) for job_id in numbered(100)])
    stream = api.open(assignee="me", capacity=102, lease=600)
    session = _session(running, stream)
    until(lambda: len(session._on_the_way) > 20)
    queue.enqueue_jobs(jobs("late", "last"))
    table.await_state("late", "RUNNING")

    queue.cancel_jobs(job_ids=["late"])

    table.await_state("late", "STOPPED")
    assert "not delivered: cancelled while it waited" in table.error("late")
    came = [job["job_id"] for job in stream.read_jobs(101)]
    assert sorted(came) == sorted([*numbered(100), "last"])
    stream.close()


def test_what_was_being_cancelled_and_did_not_arrive_is_stopped_at_the_end(
    api: Api, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs(jobs("a", "b"))
    stream = api.open(assignee="me", capacity=2, lease=600, ack=True)
    stream.read_jobs(2)
    queue.cancel_jobs(job_ids=["a"])
    assert stream.read_until("cancel")["job_id"] == "a"

    stream.close()

    table.await_state("a", "STOPPED")
    table.await_state("b", "FAILED_RETRY")


def test_a_stream_that_the_database_refuses_says_so_and_ends(
    api: Api, queue: SyncQueue, table: Table
) -> None:
    stream = api.open(assignee="me", lease=600)
    table.conn.execute("drop function holdfast.settle_and_claim")
    queue.enqueue_job(Job("a"))
    line = stream.read_until("close")
    assert "the stream has failed" in line["reason"]
    assert "holdfast migrate up" in line["reason"]
    stream.close()


def test_a_client_that_comes_back_and_says_what_it_holds_goes_on_with_it(
    api: Api, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs(jobs(*numbered(8)))
    stream = api.open(assignee="me", capacity=4, lease=4)
    a, b, c, d = stream.read_jobs(4)
    stream.close()
    until(lambda: api.post(f"{stream.path}/beat")[0] == 404)
    queue.complete_job(c["job_id"])
    queue.cancel_jobs(job_ids=[d["job_id"]])

    again = api.open(assignee="me", capacity=4, lease=4, holding=[_name(job) for job in (a, b, c, d)])

    listener = Listener(again, lambda job: True)
    listener.await_told(type="lost", job_id=c["job_id"])
    listener.await_told(type="cancel", job_id=d["job_id"])
    (new,) = listener.take() or []  # three of four slots are taken
    pass_time(5)
    assert table.say("select count(*) from holdfast.lapse_leases()") == 0
    assert len(table.held()) == 4
    again.settle(_done(a), {**_name(d), "outcome": "acknowledge_cancellation"})
    table.await_held(None, 4)
    assert {b["job_id"], new["job_id"]} <= set(table.held())
    listener.close()


def test_a_stream_that_replaces_another_ends_it_and_takes_over_what_its_client_holds(
    running: Running, queue: SyncQueue, table: Table
) -> None:
    """The server has not noticed that the old connection is dead."""
    with proxied(running.address) as proxy:
        queue.enqueue_jobs(jobs(*numbered(4)))
        dead = Api(proxy.address).open(assignee="me", capacity=2, lease=600, ack=True)
        a, b = dead.read_jobs(2)
        assert _acknowledge(dead, a) == [True]
        proxy.go_dead()

        api = Api(running.address)
        again = api.open(
            assignee="me", capacity=2, lease=600, ack=True, holding=[_name(a)], replaces=dead.stream_id
        )

        (new,) = again.read_jobs(1)
        assert new["job_id"] not in (a["job_id"], b["job_id"])  # what is handed back stands behind
        until(lambda: table.held() == sorted([a["job_id"], new["job_id"]]))
        assert table.state(b["job_id"]) == "FAILED_RETRY"
        assert again.settle(_done(a))[0]["ok"]
        again.close()
    dead.close()


def _read_all_jobs(stream: Connection) -> set[str]:
    """Ids of the jobs that are still to be read, to the very end."""
    came: set[str] = set()
    with suppress(EOFError, OSError, ValueError, http.client.HTTPException):
        while line := stream.read():
            if line["type"] == "job":
                came.add(line["job"]["job_id"])
    return came


def _session(running: Running, stream: Connection) -> Any:
    return running.app.state.room._sessions._open[stream.stream_id]


def _is_gone(running: Running, stream: Connection) -> bool:
    return stream.stream_id not in running.app.state.room._sessions._open
