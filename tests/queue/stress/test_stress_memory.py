"""Memory stays flat, however many jobs go through a stream, and nothing is left in any registry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

ROOT = Path(__file__).parents[3]
JOBS = int(os.environ.get("HOLDFAST_SOAK_JOBS", 1_000_000))
MIB = 1024 * 1024


def soak(dsn: str, face: str, jobs: int, reports: int, patience_s: float) -> list[dict[str, Any]]:
    """What the process said, line by line. The tables are tidied up meanwhile: here no autovacuum does it."""
    config = json.dumps({"dsn": dsn, "face": face, "jobs": jobs, "reports": reports})
    over = threading.Event()

    def vacuum() -> None:
        with psycopg.connect(dsn, autocommit=True) as conn:
            while not over.wait(3.0):
                conn.execute("vacuum analyze holdfast.jobs, holdfast.archived_jobs, holdfast.job_names")

    janitor = threading.Thread(target=vacuum)
    janitor.start()
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "tests.queue.stress.soak", config],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=patience_s,
        )
    finally:
        over.set()
        janitor.join()
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.parametrize("face", ["sync", "async"])
@pytest.mark.parametrize(
    ("jobs", "most_blocks", "most_bytes"),
    [
        # Of what a job leaves behind there would be 15,000, were it only its name in a dictionary.
        pytest.param(20_000, 1_000, 12 * MIB, id="short"),
        pytest.param(JOBS, 1_000, 24 * MIB, id="soak", marks=[pytest.mark.stress, pytest.mark.timeout(3600)]),
    ],
)
def test_memory_stays_flat_however_many_jobs_are_streamed(
    face: str, jobs: int, most_blocks: int, most_bytes: int, database: str
) -> None:
    reports = 20 if jobs > 100_000 else 4
    *told, settled, closed = soak(database, face, jobs, reports, patience_s=110 if reports == 4 else 3500)
    assert told[-1]["done"] == jobs
    figures = ", ".join(f"{each['done']:,}: {each['rss'] / MIB:.1f}" for each in told)
    print(f"\n{face}, MiB resident after so many jobs: {figures}")
    # By the first report everything is warm.
    first, last = told[0], told[-1]
    assert last["blocks"] - first["blocks"] <= most_blocks, told
    assert last["rss"] - first["rss"] <= most_bytes, told
    # With the stream over and the queue open there are its parts; a part for each job would be many.
    assert not {"Job", "Entry"} & settled["left"].keys(), settled
    assert settled["left"].pop("threads") <= 30
    assert max(settled["left"].values()) <= 10, settled
    assert closed["left"] == {"threads": 0}
