"""How soon an idle worker begins a job, beside the least any queue in PostgreSQL can need."""

from __future__ import annotations

import threading
import time

import psycopg

from holdfast.bench import idle, tasks
from holdfast.bench.arena import Arena
from holdfast.bench.percentiles import percentile
from holdfast.bench.report import Figure, Finding

GOAL_MS = 2.0

_INSERT = """
with added as (
  insert into holdfast_bench.jobs (queue, available_at, created_at, payload)
  values ('bench', clock_timestamp(), clock_timestamp(), '{}')
)
select pg_notify('holdfast_bench', '')
"""
_CLAIM = "select id from holdfast_bench.claim('bench', 'bench', 1, 60)"


def measure(arena: Arena) -> Finding:
    """The worker, then a bare queue with LISTEN, each with nothing else to do."""
    arena.say(f"How soon an idle worker begins a job, {arena.jobs} times")
    with arena.meter.over(arena.jobs) as phase:
        found = idle.latencies_ms(arena, arena.jobs)
    once = tasks.all_completed(arena.conn, arena.jobs)
    arena.say("The same by a bare queue: insert and notify, hear, claim")
    bare = _bare_latencies_ms(arena.database, arena.jobs)
    p50 = percentile(found, 50)
    return Finding(
        jobs=arena.jobs,
        jobs_per_s=1e3 / p50,
        reference_jobs_per_s=1e3 / GOAL_MS,
        exactly_once=once,
        costs=phase.costs,
        measured="one after the other, at p50",
        reference=f"at {GOAL_MS:g} ms each, the goal",
        figures=[
            Figure("latency_p50_ms", p50, "enqueue to start, p50", "ms", 3),
            Figure("latency_p99_ms", percentile(found, 99), "enqueue to start, p99", "ms", 3),
            Figure("bare_p50_ms", percentile(bare, 50), "a bare queue with LISTEN, p50", "ms", 3),
            Figure("bare_p99_ms", percentile(bare, 99), "a bare queue with LISTEN, p99", "ms", 3),
        ],
    )


def _bare_latencies_ms(database: str, jobs: int) -> list[float]:
    """From the insert to the claim's answer, over two connections and two threads."""
    found: list[float] = []
    claimed = threading.Event()
    at_s = 0.0

    def claim() -> None:
        nonlocal at_s
        for _ in range(jobs):
            for _ in ears.notifies(stop_after=1):
                pass
            ears.execute(_CLAIM, prepare=True)
            at_s = time.perf_counter()
            claimed.set()

    with (
        psycopg.connect(database, autocommit=True) as mouth,
        psycopg.connect(database, autocommit=True) as ears,
    ):
        ears.execute("listen holdfast_bench")
        ears.execute(_CLAIM, prepare=True)
        thread = threading.Thread(target=claim, daemon=True)
        thread.start()
        for _ in range(jobs):
            time.sleep(idle.PAUSE_S)
            claimed.clear()
            asked_s = time.perf_counter()
            mouth.execute(_INSERT, prepare=True)
            claimed.wait()
            found.append((at_s - asked_s) * 1e3)
        thread.join()
    return found
