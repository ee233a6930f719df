"""Seed 000's integration test: two worker processes contend for a resource, and only one executes."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from holdfast.domain.states import JobState
from tests.worker import app
from tests.worker.processes import Notes, WorkerProcess, eventually


@pytest.fixture
def workers(database: str, monkeypatch: pytest.MonkeyPatch) -> Generator[list[WorkerProcess]]:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", database)
    hired = [WorkerProcess(database, {queue: 2}, resource_busy_delay=0.1) for queue in ("left", "right")]
    yield hired
    for worker in hired:
        worker.close()
    app.hf.close()


def test_two_workers_resource_contention_only_one_executes(
    workers: list[WorkerProcess], conn: psycopg.Connection[tuple[str, ...]], tmp_path: Path
) -> None:
    notes = Notes(tmp_path / "notes")
    for worker in workers:
        worker.wait_until_ready()
    first = app.linger.using(queue="left", resources=["printer"]).enqueue(str(notes.path), 1.5)
    eventually(lambda: notes.of("began"))
    second = app.linger.using(queue="right", resources=["printer"]).enqueue(str(notes.path), 0)
    postponed = eventually(lambda: workers[1].events("job.rescheduled"))

    assert {(line["job_id"], line["reason"]) for line in postponed} == {(second.job_id, "resource_busy")}
    job = second.info()
    assert (job.attempts, job.error_message) == (0, None)
    assert job.state in (JobState.RESCHEDULED, JobState.RUNNING)
    assert first.result(30) == second.result(30) == "done"
    assert [(note[0], note[-1]) for note in notes.all()] == [
        (first.job_id, "began"),
        (first.job_id, "ended"),
        (second.job_id, "began"),
        (second.job_id, "ended"),
    ]
    assert [handle.info().attempts for handle in (first, second)] == [0, 0]
