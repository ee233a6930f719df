"""A worker under some condition beside a worker without it, in turns, each the same number of times."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.bench import tasks
from holdfast.bench.arena import Arena
from holdfast.bench.costs import Costs
from holdfast.bench.crew import Drained, drain
from holdfast.bench.report import Figure, Finding

Turn = Callable[[], Drained]


@dataclass(frozen=True, slots=True)
class Compared:
    """What came of it."""

    with_it: Sequence[Drained]
    without: Sequence[Drained]

    @classmethod
    def in_turns(cls, with_it: Turn, without: Turn) -> Compared:
        """Twice each; each is first once, so that a machine that grows slower favours neither."""
        first_without, first_with = without(), with_it()
        second_with, second_without = with_it(), without()
        return cls((first_with, second_with), (first_without, second_without))

    @classmethod
    def in_both(cls, arena: Arena, other: Arena, jobs: int, said: tuple[str, str]) -> Compared:
        """Drain so many jobs in the other arena, where a condition is to stay, and in this one, in turns."""
        concurrency = arena.options["concurrency"]

        def with_it() -> Drained:
            arena.say(f"A worker drains {jobs:,} jobs, {said[0]}")
            tasks.forget_done(other.conn)
            return drain(other, jobs, concurrency=concurrency, clear=False)

        def without() -> Drained:
            arena.say(f"A worker drains {jobs:,} jobs, {said[1]}")
            return drain(arena, jobs, concurrency=concurrency)

        return cls.in_turns(with_it, without)

    def finding(self, arena: Arena, measured: str, reference: str, figures: Sequence[Figure] = ()) -> Finding:
        return Finding(
            jobs=arena.jobs,
            jobs_per_s=_rate(self.with_it),
            reference_jobs_per_s=_rate(self.without),
            exactly_once=all(run.exactly_once for run in (*self.with_it, *self.without)),
            costs=sum((run.costs for run in self.with_it), Costs()),
            measured=measured,
            reference=reference,
            figures=figures,
        )


def _rate(runs: Sequence[Drained]) -> float:
    """Of the median time a job took."""
    return 1 / statistics.median(run.seconds / run.jobs for run in runs)
