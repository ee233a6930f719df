"""Random lives of jobs: after every step the database says what the model says.

HOLDFAST_MODEL_EXAMPLES asks for that many examples, new ones each time.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.engine.sql import Connection
from tests.model.machine import Machine

EXAMPLES = os.environ.get("HOLDFAST_MODEL_EXAMPLES")


def test_the_engine_does_what_the_model_says(conn: Connection) -> None:
    class OfThisDatabase(Machine):
        pass

    OfThisDatabase.conn = conn
    run_state_machine_as_test(
        OfThisDatabase,
        settings=settings(
            max_examples=int(EXAMPLES or 40),
            stateful_step_count=50,
            derandomize=EXAMPLES is None,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
