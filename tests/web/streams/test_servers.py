"""Servers that stop or are killed while streams are open, workers that are killed in the middle of work."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from holdfast import Job, SyncQueue
from tests.queue.streaming import Table, jobs, numbered, until
from tests.web.streams.client import Api
from tests.web.streams.processes import Process, ServerProcess, example

Start = Callable[..., ServerProcess]
Work = Callable[..., Process]


@pytest.fixture
def start(database: str, tmp_path: Path) -> Generator[Start]:
    """Start servers; they are killed at the end."""
    started: list[ServerProcess] = []

    def run(port: int = 0) -> ServerProcess:
        server = ServerProcess(database, tmp_path / f"server {len(started)}.log", port)
        started.append(server)
        return server

    yield run
    for server in started:
        server.kill()


@pytest.fixture
def work(tmp_path: Path) -> Generator[Work]:
    """Start example workers; they are killed at the end."""
    started: list[Process] = []

    def run(name: str, server: ServerProcess, lease_s: int = 30) -> Process:
        log = tmp_path / f"worker {len(started)}.log"
        worker = Process(example(name), log, HOLDFAST_URL=server.address, LEASE=str(lease_s))
        started.append(worker)
        return worker

    yield run
    for worker in started:
        worker.kill()


@pytest.fixture
def queue(database: str) -> Generator[SyncQueue]:
    with SyncQueue(database) as opened:
        yield opened


def _name(job: Any) -> dict[str, str]:
    return {"job_id": job["job_id"], "lease_id": job["lease_id"]}


def _done(job: Any) -> dict[str, str]:
    return {**_name(job), "outcome": "complete"}


def _sleepers(seconds: float, count: int) -> list[Job]:
    return [Job(job_id, "sleep", {"seconds": seconds}) for job_id in numbered(count)]


def _await_completed(table: Table, worker: Process, count: int) -> None:
    def completed() -> int:
        return int(table.say("select count(*) from holdfast.archived_jobs where state = 'COMPLETED'"))

    until(lambda: completed() == count, lambda: f"{completed()} are completed: {worker.said}")


def _runs(*workers: Process) -> list[str]:
    return [job_id for worker in workers for job_id in re.findall(r"^run (.*)$", worker.said, re.M)]


def test_a_server_that_is_told_to_stop_ends_its_streams_and_hands_back_what_did_not_arrive(
    start: Start, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs(jobs(*numbered(6)))
    server = start()
    api = Api(server.address)
    streams = [api.open(assignee="me", capacity=3, lease=600, ack=ack) for ack in (True, False)]
    held, _ = streams[0].read_jobs(3), streams[1].read_jobs(3)
    api.said(f"{streams[0].path}/ack", {"jobs": [_name(held[0])]})
    told_at = monotonic()

    server.terminate()

    for stream in streams:
        assert stream.read_until("close") == {"type": "close", "reason": "the server stops"}
        with pytest.raises(EOFError):
            stream.read()
        stream.close()
    assert server.wait() in (0, -15)
    assert monotonic() - told_at < 10
    assert len(table.held()) == 4
    assert held[0]["job_id"] in table.held()
    assert {table.state(job["job_id"]) for job in held[1:]} == {"FAILED_RETRY"}
    assert "Traceback" not in server.said


def test_a_server_stops_in_time_though_a_client_does_not_read(
    start: Start, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs([Job(job_id, "", "x" * 200_000) for job_id in numbered(100)])
    server = start()
    stream = Api(server.address).open(assignee="me", capacity=100, lease=600, ack=True)
    until(lambda: len(table.held()) == 100)
    told_at = monotonic()

    server.terminate()

    assert server.wait() in (0, -15)
    assert monotonic() - told_at < 15
    assert table.held() == []
    stream.close()


def test_after_a_server_was_killed_a_client_settles_what_it_has_and_goes_on_with_it_at_the_next(
    start: Start, queue: SyncQueue, table: Table
) -> None:
    queue.enqueue_jobs(jobs(*numbered(4)))
    server, other = start(), start()  # before, so that no lease waits for a program to start
    api = Api(other.address)
    api.said("/api/jobs/settle", {"results": []})
    stream = Api(server.address).open(assignee="me", capacity=3, lease=15)
    done, kept, given_up = stream.read_jobs(3)

    server.kill()
    with pytest.raises((EOFError, OSError)):
        stream.read()
    stream.close()

    (verdict,) = api.said("/api/jobs/settle", {"results": [_done(done)]})["verdicts"]
    assert (verdict["ok"], verdict["state"]) == (True, "COMPLETED")
    again = api.open(assignee="me", capacity=3, lease=15, holding=[_name(kept)])
    came = {job["job_id"]: job for job in again.read_jobs(2)}  # the fourth, and what lapsed
    assert given_up["job_id"] in came
    assert again.settle(_done(given_up))[0]["reason"] == "lease_lost"
    verdicts = again.settle(*map(_done, (kept, *came.values())))
    assert [verdict["ok"] for verdict in verdicts] == [True] * 3
    assert table.held() == []
    again.close()


@pytest.mark.parametrize("name", ["worker.py", "worker.mjs"])
def test_a_worker_killed_in_the_middle_of_a_batch_loses_nothing(
    start: Start, work: Work, queue: SyncQueue, table: Table, name: str
) -> None:
    server = start()
    queue.enqueue_jobs(_sleepers(1.5, 10))
    victim = work(name, server, lease_s=3)
    until(lambda: _runs(victim), lambda: victim.said)

    victim.kill()
    begun = _runs(victim)
    heir = work(name, server, lease_s=3)

    _await_completed(table, heir, 10)
    assert set(_runs(heir)) == set(numbered(10))  # the victim completed none
    assert len(_runs(heir)) == 10
    assert 1 <= len(begun) <= 4
    assert {table.attempts(job_id) for job_id in numbered(10)} == {0}


@pytest.mark.parametrize("name", ["worker.py", "worker.mjs"])
def test_an_example_worker_completes_fails_and_stops_jobs(
    start: Start, work: Work, queue: SyncQueue, table: Table, name: str
) -> None:
    server = start()
    worker = work(name, server)
    queue.enqueue_jobs(_sleepers(0.01, 20))
    queue.enqueue_jobs([Job("broken", "sleep", None), Job("endless", "sleep", {"seconds": 3600})])

    _await_completed(table, worker, 20)
    assert queue.get_job("job 0000").result == {"slept": 0.01}
    table.await_state("broken", "FAILED_RETRY")
    assert "seconds" in table.error("broken") or "NoneType" in table.error("broken")
    until(lambda: "endless" in _runs(worker), lambda: worker.said)
    queue.cancel_jobs(job_ids=["endless"])
    table.await_state("endless", "STOPPED")
    assert sorted(set(_runs(worker))) == sorted([*numbered(20), "broken", "endless"])


@pytest.mark.parametrize("name", ["worker.py", "worker.mjs"])
def test_an_example_worker_outlives_its_server_and_runs_nothing_twice(
    start: Start, work: Work, queue: SyncQueue, table: Table, name: str
) -> None:
    server = start()
    worker = work(name, server, lease_s=60)  # longer than a server takes to start
    queue.enqueue_jobs(_sleepers(2, 6))
    until(lambda: len(_runs(worker)) >= 4, lambda: worker.said)

    server.kill()
    start(server.port)

    _await_completed(table, worker, 6)
    assert sorted(_runs(worker)) == numbered(6)
