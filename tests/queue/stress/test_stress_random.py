"""Everything at random, from everywhere at once: nothing lost, nothing twice, every end explained."""

from __future__ import annotations

import os
from pathlib import Path
from random import SystemRandom

import pytest

from tests.pgbouncer import PgBouncer
from tests.queue.stress.checker import Findings
from tests.queue.stress.run import Size, run

SEED = int(os.environ.get("HOLDFAST_STRESS_SEED", SystemRandom().randrange(1_000_000)))
JOBS = int(os.environ.get("HOLDFAST_STRESS_JOBS", 20_000))


@pytest.mark.parametrize(
    "size",
    [
        pytest.param(Size(2_000, 8), id="short"),
        pytest.param(Size(JOBS, 60), id="minute", marks=[pytest.mark.stress, pytest.mark.timeout(600)]),
    ],
)
def test_threads_and_tasks_on_two_processes_do_everything_at_random_and_every_end_is_explained(
    size: Size, database: str, tmp_path: Path
) -> None:
    require_order(run(database, tmp_path, SEED, size), size, tmp_path)


@pytest.mark.stress
@pytest.mark.timeout(600)
def test_the_same_through_a_pooler_that_passes_no_signals_on(
    pgbouncer: PgBouncer, database: str, tmp_path: Path
) -> None:
    size = Size(JOBS // 2, 60)
    require_order(run(database, tmp_path, SEED, size, through=pgbouncer.dsn(database)), size, tmp_path)


def require_order(found: Findings, size: Size, directory: Path) -> None:
    figures = ", ".join(f"{name} {count:,}" for name, count in sorted(found.figures.items()))
    print(f"\nseed {SEED}, {size}: {figures}")
    shown = "\n".join(str(violation) for violation in found.violations[:20])
    assert not found.violations, (
        f"{len(found.violations)} violations with HOLDFAST_STRESS_SEED={SEED}, {directory}:\n{shown}"
        f"\n{(directory / 'violations.txt').read_text()[:5000]}"
    )
    # A run in which little happened proves little.
    assert found.figures["deliveries"] >= size.jobs // 2
    for verb in ("complete_job", "fail_job", "cancel_jobs", "requeue_job", "reschedule_job", "stop_job"):
        assert found.figures[f"{verb} ok"] > 0, figures
