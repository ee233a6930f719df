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


def block(language: str) -> str:
    """The one block of this language in the README."""
    found = re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    assert len(found) == 1
    return str(found[0])


def test_the_python_of_the_readme_runs_as_pasted(database: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", block("python")],
        env=os.environ | {"DATABASE_URL": database},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert answer.stderr == ""
    assert answer.stdout == "order-1 {'to': 'ada'}\nCOMPLETED\n"


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
