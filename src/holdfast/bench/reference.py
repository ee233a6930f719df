"""The reference of what Python does: the same SQL by pgbench, before and again after, in the same run.

A machine that changes its speed meanwhile changes both.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from holdfast.bench.arena import Arena
from holdfast.bench.contenders import Name, Run, Setting

SETTING = Setting(batch=100, clients=1)
TURNS = 60
RUNS = 4


def by_pgbench(arena: Arena, name: Name, setting: Setting = SETTING, turns: int = TURNS) -> list[Run]:
    """Some runs of a contender; tiny measurements have tiny references."""
    fewer = max(1, min(turns, arena.jobs // setting.batch))
    return [arena.bench.drain(name, setting, fewer) for _ in range(RUNS)]


def median_rate(runs: Sequence[Run]) -> float:
    return statistics.median(run.jobs_per_s for run in runs)


def all_once(runs: Sequence[Run]) -> bool:
    return all(run.exactly_once for run in runs)
