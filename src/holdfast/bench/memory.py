"""Whether a worker's memory stays where it is, however many jobs go through it."""

from __future__ import annotations

from holdfast.bench import crew
from holdfast.bench.arena import Arena
from holdfast.bench.report import Figure, Finding

GOAL_MB = 80.0
SETTLED = 0.2
"""After this part of the jobs everything has been used once; what is added later would be a leak."""


def measure(arena: Arena) -> Finding:
    """One worker process, looked at in equal steps of jobs."""
    concurrency = arena.options["concurrency"]
    arena.say(f"One worker process drains {arena.jobs:,} jobs, {concurrency} at a time")
    drained = crew.drain(arena, arena.jobs, concurrency=concurrency)
    samples = drained.memory_mb
    settled = samples[int(len(samples) * SETTLED)]
    peak = drained.costs.peak_memory_mb
    return Finding(
        jobs=arena.jobs,
        jobs_per_s=drained.jobs_per_s,
        reference_jobs_per_s=None,
        ratio=GOAL_MB / peak,
        exactly_once=drained.exactly_once,
        costs=drained.costs,
        measured="one worker process",
        figures=[
            Figure("rss_peak_mb", peak, "most memory (goal: ≤ 80)", "MB", 1),
            Figure("rss_settled_mb", settled, "after a fifth of the jobs", "MB", 1),
            Figure("rss_end_mb", samples[-1], "after all of them", "MB", 1),
            Figure("growth", samples[-1] / settled, "the latter ÷ the former (goal: ≤ 1.1)", digits=3),
            Figure("concurrency", concurrency, "jobs at a time"),
        ],
    )
