"""How quickly a stream hands out jobs, and how soon an idle one hears of a new one."""

from __future__ import annotations

import asyncio
import time

from holdfast.bench import reference
from holdfast.bench.arena import Arena
from holdfast.bench.percentiles import percentile
from holdfast.bench.report import Figure, Finding
from holdfast.queue import Job, Queue

QUIET_S = 0.5
PAUSE_S = 0.02


def measure(arena: Arena) -> Finding:
    """Reference, stream, reference; then how soon an idle stream hears of a job."""
    capacity, latency_jobs = arena.options["capacity"], arena.options["latency-jobs"]
    arena.say(f"Reference: claim + settle by pgbench, {reference.SETTING}")
    runs = reference.by_pgbench(arena, "engine")
    arena.say(f"Streaming {arena.jobs:,} jobs with a capacity of {capacity}")
    arena.bench.fill("engine", arena.jobs)
    with arena.meter.over(arena.jobs) as phase:
        seconds, batches = asyncio.run(_drain(arena.database, arena.jobs, capacity))
    once = arena.bench.ran_each_once("engine", arena.jobs)
    arena.say("Reference once more")
    runs += reference.by_pgbench(arena, "engine")
    arena.say(f"How soon an idle stream hears of a job, {latency_jobs} times")
    latencies_ms = asyncio.run(_latencies_ms(arena.database, latency_jobs))
    return Finding(
        jobs=arena.jobs,
        jobs_per_s=arena.jobs / seconds,
        reference_jobs_per_s=reference.median_rate(runs),
        exactly_once=once and reference.all_once(runs),
        costs=phase.costs,
        measured="streamed and completed, jobs per second",
        reference=f"claim + settle by pgbench, {reference.SETTING}",
        figures=[
            Figure("latency_p50_ms", percentile(latencies_ms, 50), "enqueue to reader, idle, p50", "ms", 3),
            Figure("latency_p99_ms", percentile(latencies_ms, 99), "enqueue to reader, idle, p99", "ms", 3),
            Figure("capacity", capacity, "capacity"),
            Figure("batches", batches, "batches"),
        ],
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


async def _latencies_ms(dsn: str, jobs: int) -> list[float]:
    """From the call of enqueue_job to the stream's answer, with nothing else to do."""
    found: list[float] = []
    async with Queue(dsn) as queue, queue.stream_jobs("bench", queues=("latency",)) as stream:
        await asyncio.sleep(QUIET_S)
        for number in range(jobs):
            began_s = time.perf_counter()
            enqueued = asyncio.create_task(queue.enqueue_job(Job(f"latency {number}", queue="latency")))
            (job,) = await anext(stream)
            found.append((time.perf_counter() - began_s) * 1e3)
            await enqueued
            await queue.complete_job(job.id, lease_id=job.lease_id)
            await asyncio.sleep(PAUSE_S)
    return found
