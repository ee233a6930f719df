"""How quickly jobs are claimed and settled: the engine and a bare queue in turns, so that noise hits both."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from holdfast.bench.arena import Arena
from holdfast.bench.contenders import NAMES, Bench, Name, Run, Setting
from holdfast.bench.costs import Costs
from holdfast.bench.percentiles import percentile
from holdfast.bench.report import Figure, Finding, Grid

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
class Medians:
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


@dataclass(slots=True)
class _Samples:
    runs: dict[tuple[Setting, Name], list[Run]] = field(default_factory=lambda: defaultdict(list))
    claim_ms: dict[Name, list[float]] = field(default_factory=lambda: defaultdict(list))
    claim_without_disk_ms: list[float] = field(default_factory=list[float])
    exactly_once: bool = True


def measure(arena: Arena, clock: Callable[[], float] = time.monotonic) -> Finding:
    """All settings in rounds, as many as were asked for or fit into the budget."""
    asked = arena.options
    plan = Plan(asked["batches"], asked["clients"], arena.jobs, asked["rounds"])
    began_s = clock()
    samples = _Samples()
    most_calls = _calls_that_fit(arena.bench)
    rounds = 0
    longest_s = 0.0
    while _goes_on(plan, rounds, clock() - began_s + longest_s):
        start_s = clock()
        rounds += 1
        arena.say(f"Round {rounds}: {len(plan.settings)} settings, engine and bare queue in turns")
        _round(arena.bench, plan, most_calls, rounds, samples)
        longest_s = max(longest_s, clock() - start_s)
    figures = {setting: _figure(setting, samples) for setting in plan.settings}
    main = figures[plan.headline]
    return Finding(
        jobs=sum(run.jobs for runs in samples.runs.values() for run in runs),
        jobs_per_s=main.engine,
        reference_jobs_per_s=main.bare,
        exactly_once=samples.exactly_once,
        costs=sum((run.costs for run in samples.runs[plan.headline, "engine"]), Costs()),
        measured=f"claim, then settle, {plan.headline}",
        reference="a bare queue",
        figures=[
            Figure("headline", str(plan.headline)),
            Figure("one_call_jobs_per_s", main.one_call, "settle_and_claim, as workers call it", "jobs/s"),
            Figure("one_call_ratio", main.one_call_ratio, "its ratio", digits=3),
            *_claim_figures(samples),
            Figure("wal_bytes_per_job", _wal(plan.headline, samples)),
            Figure("figures", {str(setting): _facts(figure) for setting, figure in figures.items()}),
            Figure("rounds", rounds, "rounds"),
        ],
        grid=_grid(figures),
    )


def _claim_figures(samples: _Samples) -> list[Figure]:
    engine, bare = samples.claim_ms["engine"], samples.claim_ms["bare"]
    alone = samples.claim_without_disk_ms
    return [
        Figure("claim_p50_ms", percentile(engine, 50), "a claim of one job at p50", "ms", 3),
        Figure("claim_p99_ms", percentile(engine, 99), "a claim of one job at p99", "ms", 3),
        Figure("claim_without_disk_p50_ms", percentile(alone, 50), "at p50 without the disk", "ms", 3),
        Figure("reference_claim_p50_ms", percentile(bare, 50), "bare queue at p50", "ms", 3),
        Figure("reference_claim_p99_ms", percentile(bare, 99), "bare queue at p99", "ms", 3),
    ]


def _wal(headline: Setting, samples: _Samples) -> dict[str, int]:
    return {
        name: round(statistics.median(run.wal_bytes_per_job for run in samples.runs[headline, name]))
        for name in NAMES
    }


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


def _figure(setting: Setting, samples: _Samples) -> Medians:
    found = {name: [run.jobs_per_s for run in samples.runs[setting, name]] for name in NAMES}
    middle = {name: statistics.median(rates) for name, rates in found.items()}
    return Medians(
        engine=middle["engine"],
        one_call=middle["one_call"],
        bare=middle["bare"],
        spread=max((max(found[name]) - min(found[name])) / middle[name] for name in ("engine", "bare")),
    )


def _facts(figure: Medians) -> dict[str, float]:
    return {
        "engine": round(figure.engine),
        "one_call": round(figure.one_call),
        "bare": round(figure.bare),
        "ratio": round(figure.ratio, 3),
        "one_call_ratio": round(figure.one_call_ratio, 3),
        "spread": round(figure.spread, 3),
    }


def _grid(figures: Mapping[Setting, Medians]) -> Grid:
    return Grid(
        "Claim + settle, jobs per second (median of the rounds)",
        ("batch", "clients", "bare", "two calls", "ratio", "one call", "ratio", "spread"),
        [
            (
                f"{setting.batch:,}",
                str(setting.clients),
                f"{figure.bare:,.0f}",
                f"{figure.engine:,.0f}",
                f"{figure.ratio:.2f}",
                f"{figure.one_call:,.0f}",
                f"{figure.one_call_ratio:.2f}",
                f"{figure.spread:.0%}",
            )
            for setting, figure in figures.items()
        ],
    )
