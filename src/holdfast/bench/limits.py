"""What a resource costs that is never busy: taken by each job as it begins, given back as it ends.

A busy resource puts its job off by seconds, so a drain with one that is too small measures that delay.
"""

from __future__ import annotations

from holdfast.app import Holdfast
from holdfast.bench import crew
from holdfast.bench.arena import Arena
from holdfast.bench.compared import Compared
from holdfast.bench.report import Figure, Finding

RESOURCE = "bench"


def measure(arena: Arena) -> Finding:
    """The capacity is the worker's concurrency: every job finds room."""
    concurrency = arena.options["concurrency"]
    with Holdfast(arena.database) as app:
        app.resources[RESOURCE].capacity = concurrency

    def with_resource() -> crew.Drained:
        arena.say(f"{arena.jobs:,} jobs that take a resource of capacity {concurrency}")
        return crew.drain(
            arena,
            arena.jobs,
            concurrency=concurrency,
            options_of=lambda _: {"resources": [RESOURCE]},
        )

    def without() -> crew.Drained:
        arena.say(f"{arena.jobs:,} jobs that take none")
        return crew.drain(arena, arena.jobs, concurrency=concurrency)

    found = Compared.in_turns(with_resource, without)
    busy = sum(run.metrics.get("jobs.rescheduled.resource_busy", 0.0) for run in found.with_it)
    return found.finding(
        arena,
        "a worker, jobs that take a resource",
        "a worker, jobs that take none",
        [
            Figure("capacity", concurrency, "capacity of the resource"),
            Figure("put_off", int(busy), "jobs put off because it was busy"),
        ],
    )
