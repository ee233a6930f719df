"""Every scenario of `holdfast bench`, in the order they are shown.

A new one is a line here and a module of its name (`-` written `_`) with `measure(arena: Arena) -> Finding`.
Imports nothing heavy, because `holdfast bench --help` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Option:
    """An option of one scenario: a whole number, or several separated by commas."""

    name: str
    default: str | int | None
    help: str
    kind: Literal["number", "numbers"] = "number"


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is known of a scenario before it runs. The goal is about `ratio`."""

    name: str
    line: str
    merit: str
    goal: str
    jobs: int
    options: tuple[Option, ...] = ()

    @property
    def module(self) -> str:
        return f"holdfast.bench.{self.name.replace('-', '_')}"


_CONCURRENCY: Final = Option("concurrency", 500, "Of each worker.")
_LATENCY_JOBS: Final = Option("latency-jobs", 200, "Jobs for an idle reader.")

SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "drain",
            "one worker process runs jobs that do nothing",
            "worker ÷ pgbench calling the same SQL with one client",
            "≥ 0.7",
            100_000,
            (_CONCURRENCY, _LATENCY_JOBS),
        ),
        Scenario(
            "drain-2p",
            "two worker processes run jobs that do nothing",
            "two processes ÷ one process",
            "≥ 1.1",
            200_000,
            (_CONCURRENCY,),
        ),
        Scenario(
            "enqueue-bulk",
            "enqueue_many in large calls",
            "enqueue_many ÷ one insert … select … from unnest of the same rows by psycopg",
            "≥ 0.7",
            50_000,
            (Option("batch", 10_000, "Jobs a call."),),
        ),
        Scenario(
            "enqueue-one",
            "enqueue, one job a call",
            "enqueue ÷ a bare prepared insert of the same row on the same kind of connection",
            "≥ 0.7",
            2_000,
            (Option("tasks", 100, "Tasks that enqueue at once, for the last figure."),),
        ),
        Scenario(
            "latency",
            "how soon an idle worker begins a job",
            "2 ms ÷ p50 from the call that enqueues to the handler's first line",
            "≥ 1, and p99 ≤ 8 ms",
            400,
        ),
        Scenario(
            "latency-loaded",
            "how soon a job begins, and how quick a claim is, under a steady load",
            "5 ms ÷ p99 of a claim, with ten workers in two processes",
            "> 1",
            5_000,
            (Option("rate", 500, "Jobs enqueued a second."),),
        ),
        Scenario(
            "claim",
            "claim and settle by pgbench, no Python in the way",
            "claim_jobs + settle_jobs ÷ a bare queue",
            "≥ 0.7",
            4_000,
            (
                Option("batches", "1,10,100,1000", "Jobs a claim.", "numbers"),
                Option("clients", "1,2", "Sessions at once.", "numbers"),
                Option("rounds", None, "Default: as many as fit in a minute."),
            ),
        ),
        Scenario(
            "held-snapshot",
            "a worker while a snapshot is held that has seen so many jobs come and go",
            "with ÷ without the snapshot",
            "≥ 0.7",
            500_000,
            (_CONCURRENCY,),
        ),
        Scenario(
            "dirty",
            "a worker among as many finished, as many future, a tenth blocked and a tenth on busy keys",
            "dirty ÷ clean",
            "≥ 0.9",
            1_000_000,
            (_CONCURRENCY,),
        ),
        Scenario(
            "backlog-growth",
            "claim and settle by pgbench with a large backlog",
            "cost of a job at the large backlog ÷ at 10,000",
            "≤ 1.2",
            1_000_000,
        ),
        Scenario(
            "keys",
            "a worker on jobs that share 1,000 singleton keys",
            "with ÷ without keys",
            "≥ 0.5",
            50_000,
            (_CONCURRENCY, Option("keys", 1_000, "Keys in all.")),
        ),
        Scenario(
            "limits",
            "a worker on jobs that take a resource",
            "with ÷ without the resource, which is never busy",
            "none yet",
            5_000,
            (Option("concurrency", 100, "Of the worker, and capacity of the resource."),),
        ),
        Scenario(
            "wal",
            "what the server writes to its log for a job, phase by phase",
            "engine ÷ bare queue, less is better",
            "none yet",
            20_000,
            (Option("batch", 100, "Jobs a call."),),
        ),
        Scenario(
            "memory",
            "a worker's memory over many jobs",
            "80 MB ÷ peak, and flat",
            "≥ 1, and growth ≤ 1.1",
            200_000,
            (_CONCURRENCY,),
        ),
        Scenario(
            "stream",
            "a stream of the queue API in one process",
            "streamed and completed ÷ claim + settle by pgbench",
            "none yet",
            50_000,
            (Option("capacity", 500, "Of the stream."), _LATENCY_JOBS),
        ),
    )
}
