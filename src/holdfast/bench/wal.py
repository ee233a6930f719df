"""What the server writes to its log for one job: submitted, claimed and settled, beside a bare queue.

Everything the server logs meanwhile is in it, so of two rounds the smaller counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any, LiteralString

from holdfast.bench.arena import Arena
from holdfast.bench.contenders import Name
from holdfast.bench.costs import Costs
from holdfast.bench.report import Figure, Finding

ROUNDS = 2
PHASES = ("submit", "claim", "settle")

_SUBMIT: dict[Name, LiteralString] = {
    "engine": """
        select from holdfast.submit_jobs(
          p_queues => array_fill('bench'::text, array[%(batch)s::integer]),
          p_payloads => array(
            select jsonb_build_object('n', given.n)
            from generate_series(%(first)s, %(first)s + %(batch)s - 1) as given (n)))""",
    "bare": """
        insert into holdfast_bench.jobs (queue, available_at, created_at, payload)
        select 'bench', clock_timestamp(), clock_timestamp(), jsonb_build_object('n', given.n)
        from generate_series(%(first)s, %(first)s + %(batch)s - 1) as given (n)""",
}
_CLAIM: dict[Name, LiteralString] = {
    "engine": "select job_id, lease_id from holdfast.claim_jobs('bench', array['bench'], %s::integer, 60)",
    "bare": "select id, lease_id from holdfast_bench.claim('bench', 'bench', %s::integer, 60)",
}
_SETTLE: dict[Name, LiteralString] = {
    "engine": "select from holdfast.settle_jobs(%(ids)s, %(operations)s, %(leases)s::text[])",
    "bare": "select holdfast_bench.settle(%(ids)s)",
}


def measure(arena: Arena) -> Finding:
    """Each queue in turn, phase by phase, in calls of so many jobs."""
    batch = min(arena.options["batch"], arena.jobs)
    jobs = arena.jobs // batch * batch
    found: dict[Name, list[dict[str, Costs]]] = {"engine": [], "bare": []}
    rates: dict[Name, list[float]] = {"engine": [], "bare": []}
    once = True
    for turn in range(ROUNDS):
        names: tuple[Name, ...] = ("engine", "bare") if turn % 2 else ("bare", "engine")
        for name in names:
            arena.say(f"{name}: {jobs:,} jobs in calls of {batch}, phase by phase")
            arena.bench.fill(name, 0)
            began_s = time.perf_counter()
            found[name].append(_phases(arena, name, jobs, batch))
            rates[name].append(jobs / (time.perf_counter() - began_s))
            once &= arena.bench.ran_each_once(name, jobs)
    engine, bare = _least(found["engine"], jobs), _least(found["bare"], jobs)
    return Finding(
        jobs=jobs,
        jobs_per_s=max(rates["engine"]),
        reference_jobs_per_s=max(rates["bare"]),
        ratio=sum(engine.values()) / sum(bare.values()),
        exactly_once=once,
        costs=replace(reduce(add, found["engine"][-1].values()), jobs=jobs),
        measured="submitted, claimed and settled",
        reference="the same by a bare queue",
        figures=[
            figure
            for phase in PHASES
            for figure in (
                Figure(f"{phase}_wal_bytes", engine[phase], f"{phase}, WAL of a job", "bytes", 1),
                Figure(f"reference_{phase}_wal_bytes", bare[phase], f"{phase}, bare queue", "bytes", 1),
                Figure(f"{phase}_ratio", engine[phase] / bare[phase], f"{phase}, ratio", digits=3),
            )
        ],
    )


def _phases(arena: Arena, name: Name, jobs: int, batch: int) -> dict[str, Costs]:
    """What each phase costs when so many jobs go through it, one phase after the other."""
    held: list[tuple[list[Any], list[Any]]] = []

    def submit() -> None:
        for first in range(1, jobs + 1, batch):
            arena.conn.execute(_SUBMIT[name], {"first": first, "batch": batch})

    def claim() -> None:
        for _ in range(jobs // batch):
            rows = arena.conn.execute(_CLAIM[name], (batch,)).fetchall()
            held.append(([row[0] for row in rows], [row[1] for row in rows]))

    def settle() -> None:
        for ids, leases in held:
            given = {"ids": ids, "leases": leases, "operations": ["complete"] * len(ids)}
            arena.conn.execute(_SETTLE[name], given)

    acts: tuple[Callable[[], None], ...] = (submit, claim, settle)
    costs: dict[str, Costs] = {}
    for phase, act in zip(PHASES, acts, strict=True):
        with arena.meter.over(jobs) as metered:
            act()
        costs[phase] = metered.costs
    return costs


def _least(rounds: list[dict[str, Costs]], jobs: int) -> dict[str, float]:
    return {phase: min(costs[phase].wal_bytes for costs in rounds) / jobs for phase in PHASES}
