"""Workers in processes of their own, as in production, draining a backlog while the clock runs."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.app import Holdfast
from holdfast.bench import tasks
from holdfast.bench.arena import Arena
from holdfast.bench.costs import Costs
from holdfast.bench.ledger import Ledger
from holdfast.errors import DatabaseUnavailable

LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Drained:
    """What a crew did with a backlog."""

    jobs: int
    seconds: float
    exactly_once: bool
    costs: Costs
    claim_p99_ms: float
    """Of the calls that settle and claim; of the process in which it was worse."""
    memory_mb: list[float]
    """Of the first process, in equal steps of jobs."""
    latencies_ms: list[float]
    metrics: Mapping[str, float]
    """What the first process counted."""

    @property
    def jobs_per_s(self) -> float:
        return self.jobs / self.seconds


def drain(
    arena: Arena,
    jobs: int,
    *,
    concurrency: int,
    processes: int = 1,
    options_of: tasks.OptionsOf | None = None,
    clear: bool = True,
) -> Drained:
    """Enqueue so many jobs and let workers of so many processes run them; judge what is there then."""
    if clear:
        tasks.clear(arena.conn)
    with Holdfast(arena.database) as app:
        tasks.define_noop(app)
        tasks.enqueue(app, jobs, options_of)
    tasks.settle_down(arena.conn)
    return run(arena, jobs, {"default": concurrency}, processes)


def run(
    arena: Arena,
    jobs: int,
    queues: Mapping[str, int],
    processes: int = 1,
    feed: Callable[[], list[float]] | None = None,
) -> Drained:
    """Let workers run so many jobs: those that are there, or those that `feed` enqueues meanwhile.

    `feed` answers when it enqueued each of them.
    """
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        path = Path(directory) / "ledger"
        ledger = Ledger(path, jobs, processes, stamped=feed is not None)
        terms = {
            "dsn": arena.database,
            "ledger": str(path),
            "jobs": jobs,
            "processes": processes,
            "queues": dict(queues),
            "stamped": feed is not None,
        }
        with ExitStack() as stack:
            workers = [stack.enter_context(_started({**terms, "index": each})) for each in range(processes)]
            for worker in workers:
                _expect_ready(worker)
            with arena.meter.over(jobs) as phase:
                for worker in workers:
                    _say(worker, "go\n")
                enqueued_s = [] if feed is None else feed()
                found = [_answer(worker) for worker in workers]
                for each in found:
                    phase.add(_costs(each))
        began_s = ledger.began_s() if enqueued_s else []
        return Drained(
            jobs=jobs,
            seconds=max(each["ended_s"] for each in found) - min(each["began_s"] for each in found),
            exactly_once=ledger.each_once() and tasks.all_completed(arena.conn, jobs),
            costs=phase.costs,
            claim_p99_ms=max(each["metrics"].get("claims.seconds.p99", 0.0) for each in found) * 1e3,
            memory_mb=found[0]["memory_mb"],
            metrics=found[0]["metrics"],
            latencies_ms=[(began - asked) * 1e3 for began, asked in zip(began_s, enqueued_s, strict=True)],
        )


@contextmanager
def _started(terms: Mapping[str, Any]) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "holdfast.bench.crew_process"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        # Not as an argument: everybody on the machine could read the password in it.
        _say(process, json.dumps(terms) + "\n")
        yield process
    finally:
        process.kill()
        process.communicate()


def _expect_ready(worker: subprocess.Popen[str]) -> None:
    if worker.stdout is None or worker.stdout.readline() != "ready\n":
        raise DatabaseUnavailable("a worker process of the measurement did not start: see what it said above")


def _say(worker: subprocess.Popen[str], word: str) -> None:
    if worker.stdin is not None:
        worker.stdin.write(word)
        worker.stdin.flush()


def _answer(worker: subprocess.Popen[str]) -> dict[str, Any]:
    line = worker.stdout.readline() if worker.stdout else ""
    if not line:
        raise DatabaseUnavailable("a worker process of the measurement died: see what it said above")
    worker.wait(LIMIT_S)
    found: dict[str, Any] = json.loads(line)
    return found


def _costs(found: Mapping[str, Any]) -> Costs:
    return Costs(python_cpu_s=found["cpu_s"], queries=found["queries"], peak_memory_mb=found["peak_mb"])
