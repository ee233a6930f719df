"""How quickly a stream hands out jobs, and how soon an idle one hears of a new one."""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass

from holdfast.bench.claim import percentile
from holdfast.bench.contenders import Bench, Setting
from holdfast.bench.pgbench import find_pgbench
from holdfast.bench.scratch import Say, scratch_database
from holdfast.engine.connect import connect
from holdfast.queue import Job, Queue

JOBS = 50_000
CAPACITY = 500
REFERENCE = Setting(batch=100, clients=1)
REFERENCE_TURNS = 60
REFERENCE_RUNS = 4
"""Before the stream and again after it, so that a machine that changes its speed meanwhile changes both."""

LATENCY_JOBS = 200
PAUSE_S = 0.02


@dataclass(frozen=True, slots=True)
class Report:
    """What one run found."""

    jobs: int
    capacity: int
    jobs_per_s: float
    reference_jobs_per_s: float
    batches: int
    latency_ms: list[float]
    exactly_once: bool
    server_version: str
    durable: bool
    seconds: float

    @property
    def ratio(self) -> float:
        """Streaming and completing through Python, to claim + settle through pgbench."""
        return self.jobs_per_s / self.reference_jobs_per_s

    def facts(self) -> dict[str, object]:
        """The report as JSON has it."""
        return {
            "scenario": "stream",
            "jobs_per_s": round(self.jobs_per_s),
            "reference_jobs_per_s": round(self.reference_jobs_per_s),
            "ratio": round(self.ratio, 3),
            "exactly_once": self.exactly_once,
            "latency_p50_ms": round(percentile(self.latency_ms, 50), 3),
            "latency_p99_ms": round(percentile(self.latency_ms, 99), 3),
            "jobs": self.jobs,
            "capacity": self.capacity,
            "batches": self.batches,
            "server_version": self.server_version,
            "durable": self.durable,
            "seconds": round(self.seconds, 1),
        }


def measure(jobs: int, capacity: int, latency_jobs: int, dsn: str | None, say: Say) -> Report:
    """Measure in a scratch database, which is dropped at the end."""
    began_s = time.monotonic()
    program = find_pgbench()
    with scratch_database(dsn, say) as database, connect(database, "holdfast bench") as conn:
        bench = Bench(conn, database, program)
        bench.install()
        version, durable = bench.server()
        say(f"Reference: claim + settle by pgbench, {REFERENCE}")
        before = [bench.drain("engine", REFERENCE, REFERENCE_TURNS) for _ in range(REFERENCE_RUNS)]
        say(f"Streaming {jobs:,} jobs with a capacity of {capacity}")
        bench.fill("engine", jobs)
        seconds, batches = asyncio.run(_drain(database, jobs, capacity))
        streamed_once = bench.ran_each_once("engine", jobs)
        say("Reference once more")
        after = [bench.drain("engine", REFERENCE, REFERENCE_TURNS) for _ in range(REFERENCE_RUNS)]
        say(f"How soon an idle stream hears of a job, {latency_jobs} times")
        latency_ms = asyncio.run(_latencies(database, latency_jobs))
    runs = before + after
    return Report(
        jobs=jobs,
        capacity=capacity,
        jobs_per_s=jobs / seconds,
        reference_jobs_per_s=statistics.median(run.jobs_per_s for run in runs),
        batches=batches,
        latency_ms=latency_ms,
        exactly_once=streamed_once and all(run.exactly_once for run in runs),
        server_version=version,
        durable=durable,
        seconds=time.monotonic() - began_s,
    )


async def _drain(dsn: str, jobs: int, capacity: int) -> tuple[float, int]:
    """Stream the backlog and complete every batch in one call; seconds, and how many batches there were."""
    left, batches = jobs, 0
    async with Queue(dsn) as queue:
        began_s = time.perf_counter()
        async with queue.stream_jobs("bench", max_assigned_jobs=capacity, queues=("bench",)) as stream:
            async for batch in stream:
                await queue.complete_jobs([(job.id, None, job.lease_id) for job in batch])
                left -= len(batch)
                batches += 1
                if left <= 0:
                    break
        return time.perf_counter() - began_s, batches


async def _latencies(dsn: str, jobs: int) -> list[float]:
    """From the call of enqueue_job to the stream's answer, with nothing else to do."""
    latencies: list[float] = []
    async with Queue(dsn) as queue, queue.stream_jobs("bench", queues=("latency",)) as stream:
        await asyncio.sleep(0.5)
        for number in range(jobs):
            began_s = time.perf_counter()
            enqueued = asyncio.create_task(queue.enqueue_job(Job(f"latency {number}", queue="latency")))
            (job,) = await anext(stream)
            latencies.append((time.perf_counter() - began_s) * 1e3)
            await enqueued
            await queue.complete_job(job.id, lease_id=job.lease_id)
            await asyncio.sleep(PAUSE_S)
    return latencies
