"""Seed 001's scenarios, with real worker processes, real kills and a real restart of the database."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import time
from typing import Any

import psycopg
import pytest

from holdfast import embedded
from holdfast.domain.states import JobState, Status
from holdfast.engine import installer
from tests.conftest import SERVER_SETTINGS
from tests.worker import app
from tests.worker.processes import Notes, WorkerProcess, eventually

Hire = Callable[..., WorkerProcess]

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path / "notes")


@pytest.fixture
def on(database: str, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """The app here is on the test's database."""
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", database)
    yield database
    app.hf.close()


@pytest.fixture
def hire() -> Generator[Hire]:
    """Start workers; those that are left at the end are killed."""
    hired: list[WorkerProcess] = []

    def start(dsn: str, queues: dict[str, int] | None = None, **settings: Any) -> WorkerProcess:
        hired.append(WorkerProcess(dsn, queues or {"default": 4}, **settings))
        return hired[-1]

    yield start
    for worker in hired:
        worker.close()


def states(conn: psycopg.Connection[Any]) -> dict[str, int]:
    return dict(
        conn.execute(
            "select state::text, count(*) from (select state from holdfast.jobs union all "
            "select state from holdfast.archived_jobs) as job group by state"
        ).fetchall()
    )


def test_a_thousand_jobs_submitted_concurrently_are_each_processed_once_by_two_workers(
    on: str, conn: psycopg.Connection[Any], notes: Notes, hire: Hire
) -> None:
    workers = [hire(on, {"default": 10}) for _ in range(2)]
    for worker in workers:
        worker.wait_until_ready()
    with ThreadPoolExecutor(10) as pool:
        handles = list(pool.map(app.mark.enqueue, [str(notes.path)] * 1000))
    eventually(lambda: states(conn) == {"COMPLETED": 1000}, within_s=90)

    runs = Counter(note[0] for note in notes.all())
    shares = Counter(int(note[1]) for note in notes.all())
    print(f"1000 jobs, by worker: {list(shares.values())}")
    assert runs == Counter(handle.job_id for handle in handles)
    assert set(shares) == {worker.pid for worker in workers}


def test_a_worker_killed_in_the_middle_of_a_job_is_replaced_within_the_lease_and_a_bit(
    on: str, notes: Notes, hire: Hire
) -> None:
    lease_s = 2.0
    first = hire(on, {"default": 1}, lease=lease_s)
    first.wait_until_ready()
    handle = app.linger.enqueue(str(notes.path), 3)
    eventually(lambda: notes.of("began"))
    second = hire(on, {"default": 1}, lease=lease_s)
    second.wait_until_ready()
    killed_at = time()
    first.signal(signal.SIGKILL)
    assert handle.result(60) == "done"

    runs = notes.of("began")
    took_s = float(runs[1][3]) - killed_at
    print(f"kill -9 to re-run: {took_s:.2f} s with a lease of {lease_s:.0f} s")
    assert [int(note[1]) for note in runs] == [first.pid, second.pid]
    assert [int(note[1]) for note in notes.of("ended")] == [second.pid]
    assert took_s <= lease_s + 1.5
    job = handle.info()
    assert (job.state, job.attempts, job.lease_expiration_count) == (JobState.COMPLETED, 0, 1)


def test_a_job_that_kills_its_workers_is_sidelined_as_a_crash_concern(
    on: str, conn: psycopg.Connection[Any], notes: Notes, hire: Hire
) -> None:
    conn.execute("select holdfast.set_crash_concern_threshold(3)")
    handle = app.kill_the_worker.enqueue(str(notes.path))
    for _ in range(3):
        assert hire(on, {"default": 1}, lease=1).ended(60) == -signal.SIGKILL
    last = hire(on, {"default": 1}, lease=1)
    last.wait_until_ready()
    app.mark.enqueue(str(notes.path)).result(30)
    eventually(lambda: handle.info().status is Status.CRASH_CONCERN)

    job = handle.info()
    assert Counter(note[0] for note in notes.all())[handle.job_id] == 3
    assert (job.attempts, job.lease_expiration_count, job.consecutive_expirations) == (0, 3, 3)
    assert job.state is JobState.UNKNOWN_RETRY


def test_a_worker_stopped_past_its_lease_learns_that_its_job_is_taken(
    on: str, notes: Notes, hire: Hire
) -> None:
    sleeper = hire(on, {"default": 1}, lease=1)
    sleeper.wait_until_ready()
    handle = app.heed.enqueue(str(notes.path))
    eventually(lambda: notes.of("began"))
    sleeper.signal(signal.SIGSTOP)
    other = hire(on, {"default": 1}, lease=1)
    other.wait_until_ready()
    eventually(lambda: len(notes.of("began")) == 2)
    sleeper.signal(signal.SIGCONT)
    eventually(lambda: notes.of("cancelled"))
    eventually(lambda: sleeper.events("job.lost"))

    assert [int(note[1]) for note in notes.of("cancelled")] == [sleeper.pid]
    assert {line["job_id"] for line in sleeper.events("job.lost")} == {handle.job_id}
    job = handle.info()
    assert (job.state, job.result, job.attempts) == (JobState.RUNNING, None, 0)
    handle.cancel()
    eventually(lambda: handle.state() is JobState.COMPLETED)
    assert [int(note[1]) for note in notes.of("cancelled")] == [sleeper.pid, other.pid]


@pytest.mark.parametrize("task", [app.linger, app.linger_in_thread, app.linger_in_process])
def test_a_worker_stopped_past_its_lease_goes_on_with_a_job_that_nobody_has_taken(
    on: str, conn: psycopg.Connection[Any], notes: Notes, hire: Hire, task: Any
) -> None:
    """It claims the job anew as soon as it wakes up, and must not run it a second time beside the first."""
    worker = hire(on, {"default": 3}, lease=1)
    worker.wait_until_ready()
    handle = task.enqueue(str(notes.path), 4.0)
    eventually(lambda: notes.of("began"))
    worker.signal(signal.SIGSTOP)
    lapsed = "select lease_expires_at < clock_timestamp() - interval '0.3 s' from holdfast.jobs_with_status"
    eventually(lambda: conn.execute(lapsed).fetchone() == (True,))
    worker.signal(signal.SIGCONT)
    eventually(lambda: handle.state() is JobState.COMPLETED)

    assert len(notes.of("began")) == len(notes.of("ended")) == 1
    assert handle.info().attempts == 0
    assert worker.events("job.lost") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_under_load_finishes_what_runs_and_loses_nothing(
    on: str, conn: psycopg.Connection[Any], notes: Notes, hire: Hire, number: signal.Signals
) -> None:
    path = str(notes.path)
    tasks = [app.linger, app.linger_in_thread, app.linger_in_process]
    handles: list[Any] = app.hf.enqueue_many([task.job(path, 0.5) for _ in range(20) for task in tasks])
    worker = hire(on, {"default": 6}, shutdown_timeout=60)
    eventually(lambda: len(notes.of("ended")) >= 3, within_s=60)
    worker.signal(number)
    assert worker.ended(60) == 0

    began, ended = (
        Counter(note[0] for note in notes.of("began")),
        Counter(note[0] for note in notes.of("ended")),
    )
    assert began == ended
    assert set(began.values()) == {1}
    found = states(conn)
    assert found.pop("COMPLETED") == len(began) < 60
    assert set(found) <= {"INITIAL_PENDING", "RESCHEDULED"}
    assert sum(found.values()) == 60 - len(began)
    assert {handle.info().attempts for handle in handles} == {0}
    assert worker.events("worker.stopping")
    assert worker.events("worker.stopped")


def test_a_graceful_restart_loses_no_job_and_runs_none_twice(
    on: str, conn: psycopg.Connection[Any], notes: Notes, hire: Hire
) -> None:
    path = str(notes.path)
    app.hf.enqueue_many([app.linger.job(path, 0.05) for _ in range(300)])
    for _ in range(3):
        worker = hire(on, {"default": 5}, shutdown_timeout=30)
        worker.wait_until_ready()
        before = len(notes.of("ended"))
        eventually(partial(_has_ended, notes, before + 20))
        worker.signal(signal.SIGTERM)
        assert worker.ended(60) == 0
    hire(on, {"default": 20})
    eventually(lambda: states(conn) == {"COMPLETED": 300}, within_s=60)

    assert set(Counter(note[0] for note in notes.of("ended")).values()) == {1}


def _has_ended(notes: Notes, jobs: int) -> bool:
    return len(notes.of("ended")) >= jobs


def test_a_database_restarted_under_load_loses_no_job_and_workers_come_back_by_themselves(
    open_directory: Path, notes: Notes, hire: Hire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcomes that were not written down when the server went are told again when it is back."""
    settings = {**SERVER_SETTINGS, "fsync": "off"}
    with embedded.start(open_directory / "pg", settings=settings) as server:
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            installer.install(conn)
        monkeypatch.setenv("HOLDFAST_DATABASE_URL", server.dsn)
        handles: list[Any] = app.hf.enqueue_many([app.linger.job(str(notes.path), 0.02) for _ in range(400)])
        worker = hire(server.dsn, {"default": 5}, lease=30)
        eventually(lambda: len(notes.of("ended")) >= 50)
        app.hf.close()
        embedded.stop(open_directory / "pg")
        done_before = len(notes.of("ended"))
        eventually(lambda: worker.events("database.lost"))
        with embedded.start(open_directory / "pg", settings=settings) as again:
            assert again.dsn == server.dsn
            eventually(lambda: len({note[0] for note in notes.of("ended")}) == 400, within_s=60)
            worker.signal(signal.SIGTERM)
            assert worker.ended(60) == 0
            with psycopg.connect(again.dsn, autocommit=True) as conn:
                assert states(conn) == {"COMPLETED": 400}
            assert {handle.info().attempts for handle in handles} == {0}
            app.hf.close()

    runs = Counter(note[0] for note in notes.of("began"))
    print(f"restarted after {done_before} jobs; {sum(runs.values()) - 400} of 400 ran twice")
    assert sum(runs.values()) == 400, "a lease of 30 s outlives the restart: nothing is run again"
    assert worker.events("database.back")
