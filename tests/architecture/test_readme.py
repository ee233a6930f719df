"""The README is true: what it shows works as it is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()


def block(language: str, containing: str = "") -> str:
    """The one block of this language in the README that contains this."""
    found = re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    (wanted,) = [text for text in found if containing in text]
    return str(wanted)


@pytest.mark.parametrize(
    ("part", "prints"),
    [("Holdfast", "hello ada\n"), ("SyncQueue", "order-1 {'to': 'ada'}\nCOMPLETED\n")],
)
def test_the_python_of_the_readme_runs_as_pasted(
    database: str, tmp_path: Path, part: str, prints: str
) -> None:
    script = tmp_path / "script.py"
    script.write_text(block("python", f"import {'Job, ' if part == 'SyncQueue' else ''}{part}"))
    answer = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"DATABASE_URL": database},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert answer.stderr == ""
    assert answer.stdout == prints


def test_the_quickstart_is_short_and_needs_no_database(open_directory: Path) -> None:
    quickstart = block("python", "import Holdfast")
    assert len([line for line in quickstart.splitlines() if line.strip()]) <= 12
    script = open_directory / "quickstart.py"
    script.write_text(quickstart)
    surroundings = {name: value for name, value in os.environ.items() if "DATABASE_URL" not in name}
    answer = subprocess.run(
        [sys.executable, str(script)],
        env=surroundings | {"HOLDFAST_HOME": str(open_directory)},
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert (answer.stdout, answer.returncode) == ("hello ada\n", 0), answer.stderr


def test_the_sql_of_the_readme_runs_as_pasted(conn: psycopg.Connection[Any]) -> None:
    submit, submit_child, get_work, complete, look = re.findall(r"^select .*?;", block("sql"), re.M)
    conn.execute(submit)
    conn.execute(submit_child)

    (job_id, lease_id), *others = conn.execute(get_work).fetchall()
    conn.execute(complete.replace("<its lease_id>", lease_id))

    assert (job_id, others) == ("order-1", [])
    assert conn.execute(look).fetchall() == [("report", "INITIAL_PENDING", "READY")]


@pytest.mark.parametrize("page", re.findall(r"\]\((?!http)([^)#]+)\)", README))
def test_every_page_the_readme_points_at_exists(page: str) -> None:
    assert (Path(__file__).parents[2] / page).exists()
