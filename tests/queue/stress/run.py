"""A run: two processes of load, a sampler, a witness, and the checker at the end."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psycopg

from tests.queue.stress import audit
from tests.queue.stress.checker import Findings, check, story_of
from tests.queue.stress.history import History, read_journals

ROOT = Path(__file__).parents[3]
PROCESSES = 2
DRAIN_S = 60.0
SAMPLE_S = 0.05

EXPECTED = (
    # A task that gives up waiting while the database is asked costs the pool a connection.
    "psycopg.pool:discarding closed connection",
    # Said of a pooler.
    "does not pass on signals",
    "prepared statements get lost",
)
"""What the processes may say; anything else is a complaint."""

HELD = """
select stream_id, assignee_id, count(*)
from holdfast.jobs where state in ('RUNNING', 'CANCELLING') and stream_id is not null
group by 1, 2
"""
UNFINISHED = "select count(*) from holdfast.jobs where state <> 'DEAD'"
SESSIONS = """
select count(*) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""
DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is done in how long."""

    jobs: int
    seconds: float
    threads: int = 10
    tasks: int = 10
    meddle_pause_s: float = 0.01


def run(dsn: str, directory: Path, seed: int, size: Size, through: str | None = None) -> Findings:
    """Let two processes loose on the database, wait until all has come to rest, and look at what is left.

    They reach it by the address of a pooler, if one is given; its sessions are its own business.
    """
    with psycopg.connect(dsn, autocommit=True) as conn:
        audit.call_witness(conn)
        journals = [directory / f"journal-{process}.jsonl" for process in range(PROCESSES)]
        with _sampler(dsn) as most_held, _load(through or dsn, journals, seed, size) as processes:
            _let_run(conn, processes, size)
        told = read_journals(journals)
        history = History(
            told.calls,
            told.deliveries,
            told.capacities,
            audit.read_changes(conn),
            audit.read_rows(conn),
            most_held,
            deadlocks=_number(conn, DEADLOCKS),
            sessions=0 if through else _sessions_left(conn),
        )
    found = check(history)
    stories = [story_of(history, job) for job in {violation.job for violation in found.violations}]
    (directory / "violations.txt").write_text("\n\n".join(stories))
    if found.violations:
        (directory / "changes.txt").write_text("\n".join(map(str, history.changes)))
    return found


def _let_run(conn: psycopg.Connection[Any], processes: list[subprocess.Popen[str]], size: Size) -> None:
    began = monotonic()
    while monotonic() < began + size.seconds:
        _require_alive(processes)
        if _number(conn, "select count(*) from holdfast.job_names") >= size.jobs:
            break
        sleep(0.1)
    _tell(processes, "drain")
    deadline = monotonic() + DRAIN_S
    # Twice in a row: what is enqueued by a call on its way is not there yet.
    at_rest = 0
    while at_rest < 2 and monotonic() < deadline:
        _require_alive(processes)
        at_rest = at_rest + 1 if _number(conn, UNFINISHED) == 0 else 0
        sleep(0.2)
    _tell(processes, "finish")
    for process in processes:
        _, said = process.communicate(timeout=DRAIN_S)
        assert process.returncode == 0, said
        complaints = [line for line in said.splitlines() if not any(word in line for word in EXPECTED)]
        assert not complaints, said


def _require_alive(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.poll() is None, process.communicate()[1]


def _tell(processes: list[subprocess.Popen[str]], word: str) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(word + "\n")
        process.stdin.flush()


@contextmanager
def _load(dsn: str, journals: list[Path], seed: int, size: Size) -> Generator[list[subprocess.Popen[str]]]:
    jobs = size.jobs // PROCESSES
    producers = 2 * PROCESSES * 2  # two of ten threads and tasks in each process
    configs = [
        {
            "dsn": dsn,
            "journal": str(journal),
            "process": process,
            "seed": seed,
            "jobs": jobs,
            "threads": size.threads,
            "tasks": size.tasks,
            # They are to be busy for most of the time, and done before it is over.
            "enqueue_pause_s": size.seconds * 0.6 * producers / size.jobs,
            "meddle_pause_s": size.meddle_pause_s,
        }
        for process, journal in enumerate(journals)
    ]
    processes: list[subprocess.Popen[str]] = []
    try:
        for config in configs:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.queue.stress.load", json.dumps(config)],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()


@contextmanager
def _sampler(dsn: str) -> Generator[dict[tuple[int, str], int]]:
    """Look again and again how many jobs each stream holds; the most is kept."""
    most: dict[tuple[int, str], int] = {}
    over = threading.Event()

    def look() -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            while not over.wait(SAMPLE_S):
                for stream, assignee, count in conn.execute(HELD.encode()).fetchall():
                    most[stream, assignee] = max(count, most.get((stream, assignee), 0))

    sampler = threading.Thread(target=look)
    sampler.start()
    try:
        yield most
    finally:
        over.set()
        sampler.join()


def _sessions_left(conn: psycopg.Connection[Any]) -> int:
    """The server takes a moment to notice that a client is gone."""
    deadline = monotonic() + 10
    while (left := _number(conn, SESSIONS)) and monotonic() < deadline:
        sleep(0.05)
    return left


def _number(conn: psycopg.Connection[Any], query: str) -> int:
    row = conn.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
