"""How long every list of the HTTP API takes among 1,000,000 archived, 200,000 waiting and 10,000 dead jobs.

`python -m tests.web.pace [ROUNDS]`: a real server, a real PostgreSQL, one client. Prints milliseconds.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

import httpx
import psycopg

from holdfast import embedded
from holdfast.engine import installer
from holdfast.web.settings import WebSettings
from tests.web.serving import Running

MONTHS = Path(__file__).parents[1] / "console" / "months.sql"
GOAL_MS = 150.0

QUERIES = [
    "",
    "state:DEAD",
    'state:DEAD error:"timed out"',
    "state:RUNNING",
    "state:COMPLETED",
    "state:INITIAL_PENDING",
    "state:FAILED_RETRY",
    "tag:rare",
    "tag:common",
    'queue:"queue 3"',
    "task:shop.task_7",
    "args.user:42",
    "id:j1011",
    "status:READY",
    "age<1h",
    "finished<1h",
]
PLACES = [
    "/api/queues",
    "/api/workers",
    "/api/resources",
    "/api/stats",
    "/api/health",
    "/api/dead",
    "/api/doctor",
    "/api/jobs/j1011",
    "/api/jobs/j1210001",
    "/metrics",
]


def main(rounds: int) -> int:
    """Measure, print, and fail if the goal is missed."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-pace-"))
    directory.chmod(0o755)
    try:
        with embedded.start(directory / "pg") as server:
            fill(server.dsn)
            running = Running(WebSettings(dsn=server.dsn, port=0))
            try:
                return measure(running.address, rounds)
            finally:
                running.stop()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def fill(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        installer.install(conn)
        conn.execute("set search_path = holdfast")
        conn.execute(MONTHS.read_bytes())
        conn.execute("vacuum analyze")


def measure(address: str, rounds: int) -> int:
    asked = [
        *(("list ", "/api/jobs", {"q": query}) for query in QUERIES),
        *(("count", "/api/jobs/count", {"q": query}) for query in QUERIES),
        *(("", path, {}) for path in PLACES),
    ]
    late = 0
    with httpx.Client(base_url=address, timeout=30) as web:
        for kind, path, parameters in asked:
            times = sorted(_time(web, path, parameters) for _ in range(rounds))
            p95 = quantiles(times, n=20)[-1]
            late += p95 > GOAL_MS
            print(f"{median(times):8.1f} {p95:8.1f} ms  {'LATE' if p95 > GOAL_MS else '    '}", end="  ")
            print(kind, parameters.get("q", "") if kind else path)
    print(f"{late} of {len(asked)} over {GOAL_MS:.0f} ms at p95")
    return int(late > 0)


def _time(web: httpx.Client, path: str, parameters: dict[str, str]) -> float:
    if path == "/metrics":
        time.sleep(1.0)  # within a second it is the same page again
    began = time.perf_counter()
    answer = web.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
