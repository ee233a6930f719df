"""How soon jobs begin and how quick claims are while jobs keep coming: ten workers in two processes."""

from __future__ import annotations

import time

from holdfast.app import Holdfast
from holdfast.bench import crew, tasks
from holdfast.bench.arena import Arena
from holdfast.bench.percentiles import percentile
from holdfast.bench.report import Figure, Finding

GOAL_MS = 5.0
PROCESSES = 2
WORKERS = 10
CALL = 5
"""Jobs of one call of those who enqueue: a few at a time, as requests bring them."""
BARE_CLAIMS = 2_000


def measure(arena: Arena) -> Finding:
    """Enqueue at a steady pace from this process; each job says when it began."""
    rate = arena.options["rate"]
    arena.say(
        f"{rate} jobs a second for {arena.jobs / rate:.0f} s, {WORKERS} workers in {PROCESSES} processes"
    )
    tasks.clear(arena.conn)
    with Holdfast(arena.database) as app:
        task = tasks.define_noop(app)

        def feed() -> list[float]:
            try:
                return _enqueue_steadily(app, task, arena.jobs, rate)
            finally:
                app.close()

        queues = {"default": WORKERS // PROCESSES}
        drained = crew.run(arena, arena.jobs, queues, PROCESSES, feed)
    arena.say("What a bare queue needs for a claim, with nothing else to do")
    bare = arena.bench.claim_one_by_one("bare", min(BARE_CLAIMS, arena.jobs))
    return Finding(
        jobs=arena.jobs,
        jobs_per_s=drained.jobs_per_s,
        reference_jobs_per_s=float(rate),
        ratio=GOAL_MS / drained.claim_p99_ms,
        exactly_once=drained.exactly_once and bare.exactly_once,
        costs=drained.costs,
        measured="jobs run",
        reference="jobs offered",
        figures=[
            Figure("claim_p99_ms", drained.claim_p99_ms, "a claim at p99 (goal: < 5)", "ms", 3),
            Figure(
                "bare_claim_p99_ms", percentile(bare.latencies_ms, 99), "a bare claim, alone, p99", "ms", 3
            ),
            Figure("latency_p50_ms", percentile(drained.latencies_ms, 50), "enqueue to start, p50", "ms", 3),
            Figure("latency_p99_ms", percentile(drained.latencies_ms, 99), "enqueue to start, p99", "ms", 3),
            Figure("workers", WORKERS, "workers"),
            Figure("processes", PROCESSES, "processes"),
        ],
    )


def _enqueue_steadily(app: Holdfast, task: tasks.Noop, jobs: int, rate: int) -> list[float]:
    """When each job was given to enqueue_many. Falling behind is made up for, not forgotten."""
    asked_s: list[float] = []
    start_s = time.monotonic()
    while len(asked_s) < jobs:
        due_s = start_s + len(asked_s) / rate
        time.sleep(max(0.0, due_s - time.monotonic()))
        numbers = range(len(asked_s), min(jobs, len(asked_s) + CALL))
        now_s = time.monotonic()
        app.enqueue_many([task.job(number) for number in numbers], returning=False)
        asked_s += [now_s] * len(numbers)
    return asked_s
