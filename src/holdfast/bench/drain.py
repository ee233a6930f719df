"""How quickly one worker process drains jobs that do nothing, beside the same SQL through pgbench."""

from __future__ import annotations

from holdfast.bench import crew, idle, reference
from holdfast.bench.arena import Arena
from holdfast.bench.contenders import Setting
from holdfast.bench.percentiles import percentile
from holdfast.bench.report import Figure, Finding

LARGE = Setting(batch=500, clients=1)
LARGE_TURNS = 20
RUNNERS = 10
"""As many as seed 001 names beside its figures: a thousand jobs a second, a claim in 5 ms."""
RUNNERS_JOBS = 5_000


def measure(arena: Arena) -> Finding:
    """Reference, drain, reference; then how soon an idle worker begins a job."""
    concurrency = arena.options["concurrency"]
    arena.say(f"Reference: settle_and_claim by pgbench, {reference.SETTING} and {LARGE}")
    runs = reference.by_pgbench(arena, "one_call")
    large = reference.by_pgbench(arena, "one_call", LARGE, LARGE_TURNS)
    arena.say(f"One worker process drains {arena.jobs:,} jobs, {concurrency} at a time")
    drained = crew.drain(arena, arena.jobs, concurrency=concurrency)
    some = min(arena.jobs, RUNNERS_JOBS)
    arena.say(f"It drains {some:,} jobs, {RUNNERS} at a time")
    few = crew.drain(arena, some, concurrency=RUNNERS)
    arena.say("Reference once more")
    runs += reference.by_pgbench(arena, "one_call")
    large += reference.by_pgbench(arena, "one_call", LARGE, LARGE_TURNS)
    latency_jobs = arena.options["latency-jobs"]
    arena.say(f"How soon an idle worker begins a job, {latency_jobs} times")
    latencies_ms = idle.latencies_ms(arena, latency_jobs)
    best = max(reference.median_rate(runs), reference.median_rate(large))
    return Finding(
        jobs=arena.jobs,
        jobs_per_s=drained.jobs_per_s,
        reference_jobs_per_s=reference.median_rate(runs),
        exactly_once=drained.exactly_once and few.exactly_once and reference.all_once(runs + large),
        costs=drained.costs,
        measured="drained by one worker process, jobs per second",
        reference=f"the same SQL by pgbench, {reference.SETTING}",
        figures=[
            Figure("best_reference_jobs_per_s", best, f"the better of that and {LARGE}", "jobs/s"),
            Figure("best_reference_ratio", drained.jobs_per_s / best, "ratio to the better", digits=3),
            Figure("claim_p99_ms", few.claim_p99_ms, f"a call for {RUNNERS} at a time, p99", "ms", 3),
            Figure("ten_jobs_per_s", few.jobs_per_s, f"jobs per second, {RUNNERS} at a time", "jobs/s"),
            Figure("large_call_p99_ms", drained.claim_p99_ms, f"a call for {concurrency}, p99", "ms", 3),
            Figure("latency_p50_ms", percentile(latencies_ms, 50), "enqueue to start, idle, p50", "ms", 3),
            Figure("latency_p99_ms", percentile(latencies_ms, 99), "enqueue to start, idle, p99", "ms", 3),
            Figure("rss_mb", drained.costs.peak_memory_mb, digits=1),
            Figure("concurrency", concurrency, "jobs at a time"),
        ],
    )
