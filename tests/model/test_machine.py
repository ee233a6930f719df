"""Random lives of jobs: after every step the database says what the model says.

Always the same ones, unless HOLDFAST_MODEL_EXAMPLES asks for so many new ones; only then is a failing one
made small, which takes minutes.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.sql import Connection
from tests.model.machine import Machine

EXAMPLES = os.environ.get("HOLDFAST_MODEL_EXAMPLES")


@pytest.mark.timeout(3600 if EXAMPLES else 120)
def test_the_engine_does_what_the_model_says(conn: Connection) -> None:
    class OfThisDatabase(Machine):
        pass

    OfThisDatabase.conn = conn
    run_state_machine_as_test(
        OfThisDatabase,
        settings=settings(
            max_examples=int(EXAMPLES or 80),
            stateful_step_count=50,
            derandomize=EXAMPLES is None,
            database=None,
            deadline=None,
            phases=[Phase.generate, Phase.shrink] if EXAMPLES else [Phase.generate],
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
