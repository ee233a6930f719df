"""What singleton keys cost: the same backlog with and without, in turns."""

from __future__ import annotations

from holdfast.bench import crew
from holdfast.bench.arena import Arena
from holdfast.bench.compared import Compared
from holdfast.bench.report import Figure, Finding


def measure(arena: Arena) -> Finding:
    """Neighbours in line have different keys, until the keys are used up and begin again."""
    concurrency, keys = arena.options["concurrency"], arena.options["keys"]

    def with_keys() -> crew.Drained:
        arena.say(f"{arena.jobs:,} jobs on {keys:,} singleton keys")
        return crew.drain(
            arena,
            arena.jobs,
            concurrency=concurrency,
            options_of=lambda number: {"singleton_key": f"key {number % keys}"},
        )

    def without() -> crew.Drained:
        arena.say(f"{arena.jobs:,} jobs without keys")
        return crew.drain(arena, arena.jobs, concurrency=concurrency)

    return Compared.in_turns(with_keys, without).finding(
        arena,
        "a worker, jobs with singleton keys",
        "a worker, jobs without",
        [Figure("keys", keys, "keys"), Figure("concurrency", concurrency, "jobs at a time")],
    )
