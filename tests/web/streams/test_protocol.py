"""The lines of a stream and the requests beside it: what each says, and what is refused."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any
from unittest import mock

import pytest

from holdfast import Job, SyncQueue
from holdfast.web.remote import sessions
from holdfast.web.settings import Role, Token
from tests.queue.streaming import Table, jobs, numbered, until
from tests.web.conftest import Serve
from tests.web.streams.client import Api, Refused


@pytest.fixture
def api(serve: Serve) -> Api:
    return Api(serve().address)


@pytest.fixture
def queue(database: str) -> Any:
    with SyncQueue(database) as opened:
        yield opened


def _done(job: Any, outcome: str = "complete", **more: Any) -> dict[str, Any]:
    return {"job_id": job["job_id"], "lease_id": job["lease_id"], "outcome": outcome, **more}


def test_a_stream_begins_by_saying_what_it_is(api: Api) -> None:
    stream = api.open(assignee="me", capacity=3, lease=20)
    assert stream.first == {
        "type": "open",
        "stream": stream.stream_id,
        "lease_s": 20.0,
        "ping_s": 5.0,
        "capacity": 3,
        "ack": False,
    }
    stream.close()


def test_a_job_comes_with_all_a_worker_needs_exactly_as_it_was_submitted(api: Api, queue: SyncQueue) -> None:
    payload: Any = {"n": 12345678901234567890123, "x": 0.1, "text": "ü\n\u2028", "password": "not redacted"}
    queue.enqueue_job(Job("a/ü", "mail.send", payload, ["eu"], priority=3, max_attempts=5))
    stream = api.open(assignee="me")
    (job,) = stream.read_jobs(1)
    stored = queue.get_job("a/ü")
    assert (job["job_id"], job["task"], job["payload"], job["tags"]) == ("a/ü", "mail.send", payload, ["eu"])
    assert (job["priority"], job["attempts"], job["max_attempts"]) == (3, 0, 5)
    assert (job["lease_id"], job["assignee_id"], job["queue"]) == (stored.lease_id, "me", "default")
    assert job["payload_bytes"] is None
    stream.close()


def test_bytes_travel_as_base64_in_both_directions(api: Api, queue: SyncQueue) -> None:
    queue.enqueue_job(Job("a", "", b"\x00\xff"))
    stream = api.open(assignee="me")
    (job,) = stream.read_jobs(1)
    assert (job["payload"], base64.b64decode(job["payload_bytes"])) == (None, b"\x00\xff")
    (verdict,) = stream.settle(_done(job, result_bytes=base64.b64encode(b"\x01\xfe").decode()))
    assert verdict == {"job_id": "a", "ok": True, "state": "COMPLETED", "reason": "settled"}
    assert queue.get_job("a").result == b"\x01\xfe"
    stream.close()


def test_server_sent_events_say_the_same(api: Api, queue: SyncQueue) -> None:
    queue.enqueue_job(Job("a", "send", {"to": "ada\n\n"}))
    connection = http.client.HTTPConnection(api.host, timeout=30)
    headers = {"Accept": "text/event-stream, */*", "Content-Type": "application/json"}
    connection.request("POST", "/api/streams", json.dumps({"assignee": "me"}), headers)
    answer = connection.getresponse()
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    seen = [answer.readline() for _ in range(6)]
    assert [seen[0], seen[2], seen[3], seen[5]] == [b"event: open\n", b"\n", b"event: job\n", b"\n"]
    assert json.loads(seen[4].removeprefix(b"data: "))["job"]["payload"] == {"to": "ada\n\n"}
    answer.close()
    connection.close()


OUTCOMES: dict[str, tuple[dict[str, Any], str]] = {
    "complete": ({"result": [1]}, "COMPLETED"),
    "fail": ({"error": "boom", "traceback": "line 1", "delay": 60}, "FAILED_RETRY"),
    "permanent": ({"error": "boom"}, "DEAD"),
    "requeue": ({"error": "later", "delay": 60}, "FAILED_RETRY"),
    "snooze": ({"delay": 60}, "RESCHEDULED"),
    "reschedule": ({"available_at": "2100-01-01T00:00:00Z"}, "RESCHEDULED"),
    "release": ({}, "UNKNOWN_RETRY"),
    "stop": ({"error": "enough"}, "STOPPED"),
    "mark_unknown_stopped": ({"error": "who knows"}, "UNKNOWN_STOPPED"),
    "stop_with_retry": ({"error": "boom"}, "STOPPED"),
    "acknowledge_cancellation": ({"was_executing": False}, "UNKNOWN_STOPPED"),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("way", ["stream", "lease"])
def test_every_outcome_leads_where_it_should(
    api: Api, queue: SyncQueue, table: Table, outcome: str, way: str
) -> None:
    said, state = OUTCOMES[outcome]
    queue.enqueue_job(Job("a"))
    stream = api.open(assignee="me", lease=600)
    (job,) = stream.read_jobs(1)
    if outcome in ("stop_with_retry", "acknowledge_cancellation"):
        queue.cancel_jobs(job_ids=["a"])
        assert stream.read_until("cancel") == {"type": "cancel", "job_id": "a"}
    table.say("select holdfast.pause_queue('default')")
    path = f"{stream.path}/settle" if way == "stream" else "/api/jobs/settle"
    (verdict,) = api.said(path, {"results": [_done(job, outcome, **said)]})["verdicts"]
    assert verdict == {"job_id": "a", "ok": True, "state": state, "reason": "settled"}
    assert table.state("a") == state
    stream.close()


def test_each_outcome_of_a_batch_does_what_it_can(api: Api, queue: SyncQueue, table: Table) -> None:
    queue.enqueue_jobs(jobs("a", "b", "c"))
    stream = api.open(assignee="me", capacity=3)
    a, b, c = sorted(stream.read_jobs(3), key=lambda job: str(job["job_id"]))
    unknown = {"job_id": "nobody", "lease_id": "x", "outcome": "complete"}
    verdicts = stream.settle(
        _done(a), unknown, {**_done(b), "lease_id": a["lease_id"]}, _done(c, "stop_with_retry"), _done(a)
    )
    assert [(verdict["ok"], verdict["reason"]) for verdict in verdicts] == [
        (True, "settled"),
        (False, "not_found"),
        (False, "lease_lost"),
        (False, "wrong_state"),
        (True, "already"),
    ]
    assert [table.state(job_id) for job_id in ("a", "b", "c")] == ["COMPLETED", "RUNNING", "RUNNING"]
    stream.close()


def test_what_no_database_can_store_is_no_reason_to_lose_an_outcome(
    api: Api, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs(jobs("a", "b"))
    stream = api.open(assignee="me", capacity=2)
    a, b = stream.read_jobs(2)
    half = "half an emoji \ud83d"
    verdicts = stream.settle(_done(a, result=[half, "\0", 1e999]), _done(b, "permanent", error=f"{half}\0"))
    assert [verdict["state"] for verdict in verdicts] == ["COMPLETED", "DEAD"]
    assert "half an emoji" in table.error(b["job_id"])
    stream.close()


def test_leases_are_extended_by_whoever_knows_them_and_tell_how_they_stand(
    api: Api, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs(jobs("a", "b", "c"))
    held = {job.id: job.lease_id for job in queue.claim_jobs("me", limit=3, lease=5)}
    queue.cancel_jobs(job_ids=["b"])
    queue.complete_job("c")
    asked = [{"job_id": job_id, "lease_id": held[job_id]} for job_id in "abc"]
    asked.append({"job_id": "a", "lease_id": "another"})
    verdicts = api.said("/api/jobs/extend", {"jobs": asked, "lease": 500})["verdicts"]
    assert [verdict["hold"] for verdict in verdicts] == ["extended", "cancelling", "ended", "taken"]
    assert 400 < table.lease_left_s("a") <= 500
    assert verdicts[0]["lease_expires_at"].startswith("20")


def test_a_stream_that_is_drained_brings_nothing_more_and_ends_when_all_is_settled(
    api: Api, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs(jobs("a", "b"))
    stream = api.open(assignee="me", lease=4)
    (job,) = stream.read_jobs(1)
    assert api.said(f"{stream.path}/drain") == {"stream": stream.stream_id, "held": 1}
    assert stream.read_until("ping") == {"type": "ping"}  # it goes on, and keeps what it brought
    stream.settle(_done(job))
    assert stream.read_until("close") == {"type": "close", "reason": "drained"}
    with pytest.raises(EOFError):
        stream.read()
    stream.close()
    assert table.waiting() == ["b" if job["job_id"] == "a" else "a"]


BAD = {
    "no assignee": {},
    "an empty assignee": {"assignee": ""},
    "a long assignee": {"assignee": "x" * 1001},
    "a text that cannot be stored": {"assignee": "a\0b"},
    "no capacity": {"assignee": "me", "capacity": 0},
    "too much capacity": {"assignee": "me", "capacity": 1001},
    "half a job": {"assignee": "me", "capacity": 1.5},
    "no queues": {"assignee": "me", "queues": []},
    "a queue that is no text": {"assignee": "me", "queues": [1]},
    "one text for queues": {"assignee": "me", "queues": "mail"},
    "a long queue": {"assignee": "me", "queues": ["x" * 200]},
    "too many queues": {"assignee": "me", "queues": numbered(101)},
    "too many tags": {"assignee": "me", "tags": numbered(101)},
    "an empty tag": {"assignee": "me", "tags": [""]},
    "a lease of nothing": {"assignee": "me", "lease": 0.5},
    "a lease for a day": {"assignee": "me", "lease": 86400},
    "a lease that is no number": {"assignee": "me", "lease": float("nan")},
    "a misspelt member": {"assignee": "me", "capazity": 3},
    "a list": [],
}


@pytest.mark.parametrize("what", BAD)
def test_what_no_stream_can_be_is_a_problem(api: Api, what: str) -> None:
    status, problem = api.post("/api/streams", BAD[what])
    assert (status, problem["status"]) == (422, 422), problem
    assert problem["detail"]


JOB = {"job_id": "a", "lease_id": "b"}
BAD_RESULTS: dict[str, Any] = {
    "an unknown outcome": [JOB | {"outcome": "won"}],
    "no outcome": [JOB],
    "no lease": [{"job_id": "a", "outcome": "complete"}],
    "an empty id": [{"job_id": "", "lease_id": "b", "outcome": "complete"}],
    "a failure without a word": [JOB | {"outcome": "fail"}],
    "a delay into the past": [JOB | {"outcome": "snooze", "delay": -1}],
    "an endless delay": [JOB | {"outcome": "snooze", "delay": float("inf")}],
    "a naive moment": [JOB | {"outcome": "snooze", "available_at": "2030-01-01T00:00:00"}],
    "a delay and a moment": [JOB | {"outcome": "snooze", "delay": 1, "available_at": "2030-01-01T00:00:00Z"}],
    "a moment of a failure": [
        JOB | {"outcome": "fail", "error": "x", "available_at": "2030-01-01T00:00:00Z"}
    ],
    "two results": [JOB | {"outcome": "complete", "result": 1, "result_bytes": "AA=="}],
    "bytes that are no base64": [JOB | {"outcome": "complete", "result_bytes": "ä"}],
    "too many": [JOB | {"outcome": "complete"}] * 1001,
    "no list": {},
}


@pytest.mark.parametrize("what", BAD_RESULTS)
def test_an_outcome_that_makes_no_sense_is_a_problem_and_settles_nothing(api: Api, what: str) -> None:
    status, problem = api.post("/api/jobs/settle", {"results": BAD_RESULTS[what]})
    assert (status, problem["status"]) == (422, 422), problem


@pytest.mark.parametrize("what", ["beat", "ack", "settle", "drain"])
def test_a_stream_that_is_not_open_is_a_problem_that_says_what_to_do(api: Api, what: str) -> None:
    body: Any = {"ack": {"jobs": []}, "settle": {"results": []}}.get(what)
    status, problem = api.post(f"/api/streams/0/{what}", body)
    assert (status, problem["title"]) == (404, "No such stream")
    assert "/api/jobs/settle" in problem["detail"]


def test_a_client_that_takes_neither_way_of_writing_is_told_which_there_are(api: Api) -> None:
    with pytest.raises(Refused) as refused:
        api.open("image/png", assignee="me")
    assert refused.value.status == 406
    assert "application/x-ndjson" in refused.value.problem["detail"]


def test_only_so_many_streams_are_open_at_a_time(api: Api) -> None:
    with mock.patch.object(sessions, "MOST_STREAMS", 2):
        first, second = api.open(assignee="me"), api.open(assignee="me")
        with pytest.raises(Refused) as refused:
            api.open(assignee="me")
        assert refused.value.status == 429
        assert refused.value.problem["title"] == "Too many streams"
        first.close()
        until(lambda: api.post(f"{first.path}/beat")[0] == 404)
        api.open(assignee="me").close()
    second.close()


def test_streams_are_for_operators(serve: Serve) -> None:
    viewer, operator = (
        Token(Role.VIEWER, "ada", "secret-of-ada-1"),
        Token(Role.OPERATOR, "bob", "secret-of-bob-1"),
    )
    address = serve(tokens=(viewer, operator)).address
    with pytest.raises(Refused) as refused:
        Api(address).open(assignee="me")
    assert refused.value.status == 401
    with pytest.raises(Refused) as refused:
        Api(address, {"Authorization": f"Bearer {viewer.secret}"}).open(assignee="me")
    assert refused.value.status == 403
    Api(address, {"Authorization": f"Bearer {operator.secret}"}).open(assignee="me").close()
