"""What a run found, as data: the same figures become a table for people and one line of JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.bench.costs import Costs

Value = float | int | bool | str | None | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number, its key in the JSON and what people call it. Without a label it is in the JSON only."""

    key: str
    value: Value
    label: str = ""
    unit: str = ""
    digits: int = 0

    @property
    def fact(self) -> Value:
        """The value as JSON has it: rounded, because more digits say nothing."""
        if isinstance(self.value, float):
            return round(self.value, self.digits) if self.digits else round(self.value)
        return self.value

    @property
    def shown(self) -> str:
        """The value as people read it."""
        if self.value is None:
            return "unknown"
        if isinstance(self.value, bool) or not isinstance(self.value, float | int):
            return str(self.value)
        return f"{self.value:,.{self.digits}f} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of its own, for scenarios whose figures are many."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a scenario answers. `ratio` is its figure of merit; None: jobs ÷ reference, both per second."""

    jobs: int
    jobs_per_s: float
    reference_jobs_per_s: float | None
    exactly_once: bool
    costs: Costs
    measured: str
    """What `jobs_per_s` is of, in words; `reference` likewise."""
    reference: str = ""
    ratio: float | None = None
    figures: Sequence[Figure] = ()
    grid: Grid | None = None

    @property
    def merit(self) -> float:
        if self.ratio is not None:
            return self.ratio
        if not self.reference_jobs_per_s:
            raise ValueError("a finding without a reference must say its ratio")
        return self.jobs_per_s / self.reference_jobs_per_s


@dataclass(frozen=True, slots=True)
class Report:
    """A finding with the circumstances it was made under."""

    scenario: str
    goal: str
    finding: Finding
    server_version: str
    durable: bool
    seconds: float

    @property
    def head(self) -> list[Figure]:
        """What every scenario says first."""
        found = self.finding
        return [
            Figure("jobs_per_s", found.jobs_per_s, found.measured, "jobs/s"),
            Figure("reference_jobs_per_s", found.reference_jobs_per_s, found.reference, "jobs/s"),
            Figure("ratio", float(found.merit), f"ratio (goal: {self.goal})", digits=3),
            Figure("exactly_once", found.exactly_once),
        ]

    @property
    def figures(self) -> list[Figure]:
        """All of them: the head, the scenario's own, the costs, the circumstances."""
        own = list(self.finding.figures)
        taken = {figure.key for figure in own}
        costs = [figure for figure in cost_figures(self.finding.costs) if figure.key not in taken]
        around = [
            Figure("goal", self.goal),
            Figure("jobs", self.finding.jobs),
            Figure("server_version", self.server_version),
            Figure("durable", self.durable),
            Figure("seconds", float(self.seconds), digits=1),
        ]
        return [*self.head, *own, *costs, *around]

    def facts(self) -> dict[str, Any]:
        """The report as JSON has it."""
        return {"scenario": self.scenario, **{figure.key: figure.fact for figure in self.figures}}


def cost_figures(costs: Costs) -> list[Figure]:
    """What every scenario says of one job, or of ten thousand."""
    return [
        Figure("wal_bytes_per_job", costs.per_job(costs.wal_bytes), "WAL of a job", "bytes", 1),
        Figure("commits_per_job", costs.per_job(costs.commits), "commits of a job", "", 4),
        Figure("queries_per_job", costs.per_job(costs.queries), "queries of a job", "", 4),
        Figure("dead_tuples_per_job", costs.per_job(costs.dead_tuples), "dead tuples of a job", "", 3),
        Figure(
            "python_cpu_s_per_10k_jobs",
            costs.per_job(costs.python_cpu_s, 10_000),
            "CPU of Python for 10,000 jobs",
            "s",
            3,
        ),
        Figure(
            "postgres_cpu_s_per_10k_jobs",
            costs.per_job(costs.postgres_cpu_s, 10_000),
            "CPU of PostgreSQL for 10,000 jobs",
            "s",
            3,
        ),
        Figure("peak_memory_mb", costs.peak_memory_mb, "peak memory of Python", "MB", 1),
    ]
