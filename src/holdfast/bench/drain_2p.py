"""Whether a second worker process helps: two against one, on the same backlog, in turns."""

from __future__ import annotations

from holdfast.bench import crew
from holdfast.bench.arena import Arena
from holdfast.bench.compared import Compared
from holdfast.bench.report import Figure, Finding


def measure(arena: Arena) -> Finding:
    """Drain the same backlog again and again."""
    concurrency = arena.options["concurrency"]

    def drain(processes: int) -> crew.Drained:
        arena.say(f"{processes} worker process{'es' * (processes > 1)}, {arena.jobs:,} jobs")
        return crew.drain(arena, arena.jobs, concurrency=concurrency, processes=processes)

    found = Compared.in_turns(lambda: drain(2), lambda: drain(1))
    worst_ms = max(run.claim_p99_ms for run in found.with_it)
    return found.finding(
        arena,
        "two worker processes",
        "one worker process",
        [
            Figure("claim_p99_ms", worst_ms, "a call that settles and claims, p99", "ms", 3),
            Figure("concurrency", concurrency, "jobs at a time in each process"),
        ],
    )
