"""What was found: figures by contender, of one run, and their way to JSON and back."""

from __future__ import annotations

import dataclasses
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Figures:
    """One contender, measured once, or the medians of several rounds."""

    bulk_per_s: float
    single_per_s: float
    drain_1_per_s: float
    drain_2_per_s: float
    latency_p50_ms: float
    latency_p99_ms: float
    jobs: int
    """Of each drain, every one verified exactly-once."""


@dataclass(slots=True)
class Results:
    """One run."""

    date: str
    machine: str
    server: str
    durable: bool
    rounds: int
    figures: dict[str, list[Figures]] = field(default_factory=dict[str, list[Figures]])
    failures: dict[str, str] = field(default_factory=dict[str, str])
    """Contenders that did not get through, and why."""

    def medians(self) -> dict[str, Figures]:
        """One line a contender."""
        return {key: median(rounds) for key, rounds in self.figures.items() if rounds}

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")


def read(path: Path) -> Results:
    """The results that `write` wrote."""
    facts: dict[str, Any] = json.loads(path.read_text())
    figures = {key: [Figures(**one) for one in rounds] for key, rounds in facts.pop("figures").items()}
    return Results(**facts, figures=figures)


def median(rounds: list[Figures]) -> Figures:
    """Field by field."""
    fields = [one.name for one in dataclasses.fields(Figures) if one.name != "jobs"]
    middle = {name: statistics.median(getattr(one, name) for one in rounds) for name in fields}
    return Figures(**middle, jobs=rounds[0].jobs)
