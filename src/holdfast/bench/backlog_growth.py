"""Whether a job costs more when many wait behind it: by pgbench, a large backlog and one of 10,000."""

from __future__ import annotations

import statistics

from holdfast.bench.arena import Arena
from holdfast.bench.contenders import WARM_UP, Run, Setting
from holdfast.bench.costs import Costs
from holdfast.bench.report import Figure, Finding

SETTING = Setting(batch=100, clients=1)
SMALL = 10_000
RUNS = 4
FEWEST = 1_000


def measure(arena: Arena) -> Finding:
    """Small backlogs, the large one, small ones again; in one call, as a worker settles and claims."""
    large = max(arena.jobs, FEWEST)
    small = min(SMALL, large // RUNS)
    turns = (small - WARM_UP) // SETTING.batch
    arena.say(f"Backlogs of {small:,}")
    few = [_take(arena, small, turns) for _ in range(RUNS)]
    arena.say(f"A backlog of {large:,}")
    many = _take(arena, large, turns, RUNS)
    arena.say(f"Backlogs of {small:,} again")
    few += [_take(arena, small, turns) for _ in range(RUNS)]
    reference = statistics.median(run.jobs_per_s for run in few)
    return Finding(
        jobs=many.jobs,
        jobs_per_s=many.jobs_per_s,
        reference_jobs_per_s=reference,
        ratio=reference / many.jobs_per_s,
        exactly_once=many.exactly_once and all(run.exactly_once for run in few),
        costs=many.costs,
        measured=f"with a backlog of {large:,}",
        reference=f"with a backlog of {small:,}",
        figures=[
            Figure("cpu_ratio", _cpu_ratio(many, few), "CPU of PostgreSQL, large ÷ small", digits=3),
            Figure("backlog", large),
            Figure("reference_backlog", small),
        ],
    )


def _take(arena: Arena, backlog: int, turns: int, times: int = 1) -> Run:
    """Fill a backlog and take as much of it as a small one has."""
    arena.bench.fill_line(backlog, "bench")
    found = [arena.bench.take("one_call", SETTING, turns) for _ in range(times)]
    jobs = times * (WARM_UP + turns * SETTING.batch)
    return Run(
        jobs,
        statistics.median(rate for rate, _ in found),
        sum((costs for _, costs in found), Costs()),
        arena.bench.ran_each_once("one_call", jobs, backlog - jobs),
    )


def _cpu_ratio(many: Run, few: list[Run]) -> float | None:
    small = sum((run.costs for run in few), Costs())
    at_large, at_small = many.costs.per_job(many.costs.postgres_cpu_s), small.per_job(small.postgres_cpu_s)
    return at_large / at_small if at_large and at_small else None
