"""`holdfast doctor`: exit 1 when something needs doing."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from holdfast.cli import main
from tests.cli.program import holdfast

APP = """
from holdfast import Holdfast
hf = Holdfast()
@hf.task(name="shop.send")
def send(to: str) -> None: ...
"""


def test_a_fresh_installation_is_well(open_directory: Path) -> None:
    home = {"HOLDFAST_HOME": str(open_directory)}
    try:
        assert holdfast("db", "start", **home).code == 0
        answer = holdfast("doctor", **home)
        assert (answer.code, answer.stderr) == (0, "Nothing needs doing.\n"), answer.stdout
        checks = {line.split()[1] for line in answer.stdout.splitlines()}
        assert checks >= {
            "connection",
            "pooler",
            "schema",
            "server",
            "clock",
            "vacuum",
            "transactions",
            "signals",
        }
        assert holdfast("doctor", "--quiet", **home).stdout == ""
    finally:
        holdfast("db", "stop", **home)


def test_what_needs_doing_comes_with_its_remedy_and_exit_code_1(database: str) -> None:
    answer = CliRunner().invoke(main, ["doctor", "--dsn", database])
    assert answer.exit_code == 1
    assert "2 things need doing." in answer.stderr  # servers of tests have no autovacuum and no fsync
    assert "→ set autovacuum = on" in answer.stdout
    found = [
        json.loads(line)
        for line in CliRunner().invoke(main, ["doctor", "--json", "--dsn", database]).stdout.splitlines()
    ]
    assert {tuple(each) for each in found} == {("level", "check", "says", "fix")}
    assert [each["check"] for each in found if each["level"] == "PROBLEM"] == ["durability", "vacuum"]


def test_a_database_without_holdfast_is_told_to_install_it(blank_database: str) -> None:
    answer = CliRunner().invoke(main, ["doctor", "--dsn", blank_database])
    assert answer.exit_code == 1
    assert "→ holdfast migrate up\n" in answer.stdout
    elsewhere = CliRunner().invoke(main, ["doctor", "--dsn", blank_database, "--schema", "x2"])
    assert "→ holdfast migrate up --schema x2\n" in elsewhere.stdout


def test_with_an_app_its_tasks_are_checked(database: str, tmp_path: Path) -> None:
    (tmp_path / "shop_of_doctor.py").write_text(APP)
    assert holdfast("enqueue", "shop.gone", dsn=database).code == 0
    assert holdfast("enqueue", "shop.send", "to=ada", dsn=database).code == 0
    answer = holdfast("doctor", "shop_of_doctor:hf", dsn=database, PYTHONPATH=str(tmp_path))
    assert 'in line for "shop.gone", which the app does not know' in answer.stdout
    assert "shop.send" not in answer.stdout
