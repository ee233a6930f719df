"""How quickly jobs are claimed and settled: the engine and a bare queue in turns, so that noise hits both."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

from holdfast.bench.contenders import NAMES, Bench, Name, Run, Setting
from holdfast.bench.pgbench import find_pgbench
from holdfast.bench.scratch import Say, scratch_database
from holdfast.engine.connect import connect

BATCHES = (1, 10, 100, 1000)
CLIENTS = (1, 2)
JOBS = 4_000

HEADLINE = Setting(batch=100, clients=1)
HEADLINE_RUNS = 3
"""Runs per round of the setting the ratio is taken from; the others have one."""

RUN_S = 0.2
FEWEST_CALLS, MOST_CALLS = 30, 500
"""Small batches drain a smaller backlog: as many calls as fit into RUN_S at the speed of this disk."""

FEWEST_TURNS = 4

LATENCY_CLAIMS = 200

BUDGET_S = 52.0
MOST_ROUNDS = 15
"""Without a number of rounds: as many as fit into the budget, at least one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    batches: Sequence[int] = BATCHES
    clients: Sequence[int] = CLIENTS
    jobs: int = JOBS
    rounds: int | None = None

    @property
    def settings(self) -> list[Setting]:
        return [Setting(batch, clients) for clients, batch in product(self.clients, self.batches)]

    @property
    def headline(self) -> Setting:
        """Batch 100 and one client, or what comes nearest among the settings measured."""
        return min(self.settings, key=lambda setting: (setting.clients, abs(setting.batch - HEADLINE.batch)))

    def turns(self, setting: Setting, most_calls: int = MOST_CALLS) -> int:
        """How many batches each client claims of one backlog."""
        calls = min(most_calls, -(-self.jobs // setting.batch))
        return max(FEWEST_TURNS, -(-calls // setting.clients))


@dataclass(frozen=True, slots=True)
class Figure:
    """Medians over the rounds, in jobs per second; ratios are to the bare queue."""

    engine: float
    one_call: float
    bare: float
    spread: float
    """The noise: (highest - lowest) / median over the rounds, of engine or bare queue, the larger."""

    @property
    def ratio(self) -> float:
        """Like for like: a claim, then a settle, as the bare queue does."""
        return self.engine / self.bare

    @property
    def one_call_ratio(self) -> float:
        """The engine as workers use it, settling and claiming in one call."""
        return self.one_call / self.bare


@dataclass(frozen=True, slots=True)
class Report:
    """What one run found."""

    headline: Setting
    figures: dict[Setting, Figure]
    wal_bytes_per_job: dict[Name, float]
    claim_ms: dict[Name, list[float]]
    claim_without_disk_ms: list[float]
    exactly_once: bool
    jobs: int
    rounds: int
    seconds: float
    server_version: str
    durable: bool

    def facts(self) -> dict[str, object]:
        """The report as JSON has it."""
        main = self.figures[self.headline]
        return {
            "scenario": "claim",
            "headline": str(self.headline),
            "jobs_per_s": round(main.engine),
            "one_call_jobs_per_s": round(main.one_call),
            "reference_jobs_per_s": round(main.bare),
            "ratio": round(main.ratio, 3),
            "one_call_ratio": round(main.one_call_ratio, 3),
            "exactly_once": self.exactly_once,
            "claim_p50_ms": round(percentile(self.claim_ms["engine"], 50), 3),
            "claim_p99_ms": round(percentile(self.claim_ms["engine"], 99), 3),
            "claim_without_disk_p50_ms": round(percentile(self.claim_without_disk_ms, 50), 3),
            "reference_claim_p50_ms": round(percentile(self.claim_ms["bare"], 50), 3),
            "reference_claim_p99_ms": round(percentile(self.claim_ms["bare"], 99), 3),
            "wal_bytes_per_job": {name: round(size) for name, size in self.wal_bytes_per_job.items()},
            "figures": {str(setting): _facts(figure) for setting, figure in self.figures.items()},
            "server_version": self.server_version,
            "durable": self.durable,
            "jobs": self.jobs,
            "rounds": self.rounds,
            "seconds": round(self.seconds, 1),
        }


@dataclass(slots=True)
class _Samples:
    runs: dict[tuple[Setting, Name], list[Run]] = field(default_factory=lambda: defaultdict(list))
    claim_ms: dict[Name, list[float]] = field(default_factory=lambda: defaultdict(list))
    claim_without_disk_ms: list[float] = field(default_factory=list[float])
    exactly_once: bool = True


def measure(plan: Plan, dsn: str | None, say: Say, clock: Callable[[], float] = time.monotonic) -> Report:
    """Measure in a scratch database, which is dropped at the end."""
    began_s = clock()
    program = find_pgbench()
    with scratch_database(dsn, say) as database, connect(database, "holdfast bench") as conn:
        bench = Bench(conn, database, program)
        bench.install()
        version, durable = bench.server()
        if not durable:
            say("This server does not wait for the disk at a commit (fsync or synchronous_commit is off).")
        samples = _Samples()
        most_calls = _calls_that_fit(bench)
        rounds = 0
        longest_s = 0.0
        while _goes_on(plan, rounds, clock() - began_s + longest_s):
            start_s = clock()
            rounds += 1
            say(f"Round {rounds}: {len(plan.settings)} settings, engine and bare queue in turns")
            _round(bench, plan, most_calls, rounds, samples)
            longest_s = max(longest_s, clock() - start_s)
    return Report(
        headline=plan.headline,
        figures={setting: _figure(setting, samples) for setting in plan.settings},
        wal_bytes_per_job={
            name: statistics.median(run.wal_bytes_per_job for run in samples.runs[plan.headline, name])
            for name in NAMES
        },
        claim_ms=samples.claim_ms,
        claim_without_disk_ms=samples.claim_without_disk_ms,
        exactly_once=samples.exactly_once,
        jobs=sum(run.jobs for runs in samples.runs.values() for run in runs),
        rounds=rounds,
        seconds=clock() - began_s,
        server_version=version,
        durable=durable,
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def _goes_on(plan: Plan, rounds: int, after_next_s: float) -> bool:
    if plan.rounds is not None:
        return rounds < plan.rounds
    return rounds == 0 or (rounds < MOST_ROUNDS and after_next_s < BUDGET_S)


def _calls_that_fit(bench: Bench) -> int:
    one_by_one = bench.drain("bare", Setting(batch=1, clients=1), turns=FEWEST_CALLS)
    return max(FEWEST_CALLS, min(MOST_CALLS, int(one_by_one.jobs_per_s * RUN_S)))


def _round(bench: Bench, plan: Plan, most_calls: int, number: int, samples: _Samples) -> None:
    for setting in plan.settings:
        for again in range(HEADLINE_RUNS if setting == plan.headline else 1):
            # Whoever comes first finds another cache and disk than the second: everyone is first sometimes.
            first = (number + again) % len(NAMES)
            for name in NAMES[first:] + NAMES[:first]:
                run = bench.drain(name, setting, plan.turns(setting, most_calls))
                samples.runs[setting, name].append(run)
                samples.exactly_once &= run.exactly_once
    names: tuple[Name, ...] = ("engine", "bare") if number % 2 else ("bare", "engine")
    for name in names:
        claims = bench.claim_one_by_one(name, min(LATENCY_CLAIMS, most_calls))
        samples.claim_ms[name] += claims.latencies_ms
        samples.exactly_once &= claims.exactly_once
    undurable = bench.claim_one_by_one("engine", min(LATENCY_CLAIMS, most_calls), wait_for_disk=False)
    samples.claim_without_disk_ms += undurable.latencies_ms
    samples.exactly_once &= undurable.exactly_once


def _figure(setting: Setting, samples: _Samples) -> Figure:
    found = {name: [run.jobs_per_s for run in samples.runs[setting, name]] for name in NAMES}
    middle = {name: statistics.median(rates) for name, rates in found.items()}
    return Figure(
        engine=middle["engine"],
        one_call=middle["one_call"],
        bare=middle["bare"],
        spread=max((max(found[name]) - min(found[name])) / middle[name] for name in ("engine", "bare")),
    )


def _facts(figure: Figure) -> dict[str, float]:
    return {
        "engine": round(figure.engine),
        "one_call": round(figure.one_call),
        "bare": round(figure.bare),
        "ratio": round(figure.ratio, 3),
        "one_call_ratio": round(figure.one_call_ratio, 3),
        "spread": round(figure.spread, 3),
    }
