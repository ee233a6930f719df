"""How quickly one worker process drains jobs that do nothing, beside the same SQL through pgbench."""

from __future__ import annotations

import asyncio
import resource
import statistics
import sys
import time
from dataclasses import dataclass, field

from holdfast.app import Holdfast
from holdfast.bench.claim import percentile
from holdfast.bench.contenders import Bench, Setting
from holdfast.bench.pgbench import find_pgbench
from holdfast.bench.scratch import Say, scratch_database
from holdfast.engine.connect import connect
from holdfast.tasks.task import AsyncTask

JOBS = 100_000
CONCURRENCY = 500
REFERENCE = Setting(batch=100, clients=1)
REFERENCE_TURNS = 60
REFERENCE_RUNS = 4
LATENCY_JOBS = 200
CHUNK = 10_000
PAUSE_S = 0.02


@dataclass(slots=True)
class _Seen:
    """What the handlers saw: which jobs, and when the latest began."""

    numbers: list[int] = field(default_factory=list[int])
    began_s: float = 0.0
    began: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, slots=True)
class Report:
    """What one run found."""

    jobs: int
    concurrency: int
    jobs_per_s: float
    reference_jobs_per_s: float
    claim_p99_ms: float
    latency_ms: list[float]
    rss_mb: float
    exactly_once: bool
    server_version: str
    durable: bool
    seconds: float

    @property
    def ratio(self) -> float:
        """The worker in one Python process, to the same function through pgbench with one client."""
        return self.jobs_per_s / self.reference_jobs_per_s

    def facts(self) -> dict[str, object]:
        """The report as JSON has it."""
        return {
            "scenario": "drain",
            "jobs_per_s": round(self.jobs_per_s),
            "reference_jobs_per_s": round(self.reference_jobs_per_s),
            "ratio": round(self.ratio, 3),
            "exactly_once": self.exactly_once,
            "claim_p99_ms": round(self.claim_p99_ms, 3),
            "latency_p50_ms": round(percentile(self.latency_ms, 50), 3),
            "latency_p99_ms": round(percentile(self.latency_ms, 99), 3),
            "rss_mb": round(self.rss_mb, 1),
            "jobs": self.jobs,
            "concurrency": self.concurrency,
            "server_version": self.server_version,
            "durable": self.durable,
            "seconds": round(self.seconds, 1),
        }


def measure(jobs: int, concurrency: int, latency_jobs: int, dsn: str | None, say: Say) -> Report:
    """Measure in a scratch database, which is dropped at the end."""
    began_s = time.monotonic()
    program = find_pgbench()
    with scratch_database(dsn, say) as database, connect(database, "holdfast bench") as conn:
        bench = Bench(conn, database, program)
        bench.install()
        version, durable = bench.server()
        say(f"Reference: settle_and_claim by pgbench, {REFERENCE}")
        before = [bench.drain("one_call", REFERENCE, REFERENCE_TURNS) for _ in range(REFERENCE_RUNS)]
        seen = _Seen()
        app = Holdfast(database)
        task = _noop(app, seen)
        say(f"Enqueueing {jobs:,} jobs")
        conn.execute("truncate holdfast.jobs, holdfast.archived_jobs")
        for start in range(0, jobs, CHUNK):
            app.enqueue_many((task.job(n) for n in range(start, min(jobs, start + CHUNK))), returning=False)
        conn.execute("vacuum (analyze) holdfast.jobs")
        say(f"Draining them, {concurrency} at a time")
        seconds = asyncio.run(_drain(app, jobs, seen, concurrency))
        once = sorted(seen.numbers) == list(range(jobs)) and _all_completed(app, jobs)
        say("Reference once more")
        after = [bench.drain("one_call", REFERENCE, REFERENCE_TURNS) for _ in range(REFERENCE_RUNS)]
        say(f"How soon an idle worker begins a job, {latency_jobs} times")
        latency_ms = asyncio.run(_latencies(app, task, seen, latency_jobs))
        app.close()
    runs = before + after
    return Report(
        jobs=jobs,
        concurrency=concurrency,
        jobs_per_s=jobs / seconds,
        reference_jobs_per_s=statistics.median(run.jobs_per_s for run in runs),
        claim_p99_ms=app.metrics.snapshot().get("claims.seconds.p99", 0.0) * 1e3,
        latency_ms=latency_ms,
        rss_mb=_peak_mb(),
        exactly_once=once and all(run.exactly_once for run in runs),
        server_version=version,
        durable=durable,
        seconds=time.monotonic() - began_s,
    )


def _noop(app: Holdfast, seen: _Seen) -> AsyncTask[[int], None]:
    @app.task(name="bench.noop")
    async def noop(number: int) -> None:
        seen.numbers.append(number)
        seen.began_s = time.perf_counter()
        seen.began.set()

    return noop


async def _drain(app: Holdfast, jobs: int, seen: _Seen, concurrency: int) -> float:
    began_s = time.perf_counter()
    async with app.worker({"default": concurrency}) as worker:
        while len(seen.numbers) < jobs:
            seen.began.clear()
            await seen.began.wait()
            await asyncio.sleep(0.01)
        await worker.drain()
        return time.perf_counter() - began_s


async def _latencies(app: Holdfast, task: AsyncTask[[int], None], seen: _Seen, jobs: int) -> list[float]:
    """From the call of aenqueue to the handler's first line, with nothing else to do."""
    latencies: list[float] = []
    seen.began = asyncio.Event()  # of this loop
    async with app.worker({"default": 10}) as worker:
        await worker.drain()
        await asyncio.sleep(0.5)
        for number in range(jobs):
            seen.began.clear()
            began_s = time.perf_counter()
            enqueued = asyncio.create_task(task.aenqueue(number))
            await seen.began.wait()
            latencies.append((seen.began_s - began_s) * 1e3)
            await enqueued
            await asyncio.sleep(PAUSE_S)
    await app.aclose()
    return latencies


def _all_completed(app: Holdfast, jobs: int) -> bool:
    stats = app.stores.blocking().get_job_stats()
    return stats.completed_jobs == jobs == stats.total_jobs and stats.total_retries == 0


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024) if sys.platform == "darwin" else peak / 1024
