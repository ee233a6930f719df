"""`holdfast db`: the embedded PostgreSQL by hand."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg

from tests.cli.program import holdfast


def test_it_is_started_looked_at_used_and_stopped(open_directory: Path) -> None:
    home = {"HOLDFAST_HOME": str(open_directory)}
    before = holdfast("db", "status", **home)
    assert before.code == 1
    assert "There is none in" in before.stdout

    started = holdfast("db", "start", **home)
    assert started.code == 0, started.stderr
    dsn = started.stdout.removesuffix("\n")
    with psycopg.connect(dsn) as conn:
        assert conn.execute("select count(*) from holdfast.jobs").fetchone() == (0,)

    status = holdfast("db", "status", "--json", **home)
    seen = json.loads(status.stdout)
    assert (status.code, seen["running"], seen["keep"], seen["dsn"]) == (0, True, True, dsn)
    assert holdfast("db", "path", **home).stdout == f"{seen['directory']}\n"
    assert Path(seen["directory"]).is_relative_to(open_directory.resolve())

    asked = holdfast("db", "psql", "-Atc", "select 6 * 7", **home)
    assert (asked.code, asked.stdout) == (0, "42\n"), asked.stderr
    assert holdfast("db", "psql", "-c", "select nonsense", **home).code == 1

    assert holdfast("db", "stop", **home).stderr == "Stopped.\n"
    assert holdfast("db", "status", **home).code == 1
    again = holdfast("db", "stop", **home)
    assert (again.code, again.stderr) == (0, "It was not running.\n")
