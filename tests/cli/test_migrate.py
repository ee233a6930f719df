from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from holdfast.cli import COMMANDS, main
from holdfast.engine import installer
from tests.conftest import Connect
from tests.psql import run_psql


def holdfast(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env=environment)


def test_up_installs_and_status_says_so(blank_database: str) -> None:
    before = holdfast("migrate", "status", "--dsn", blank_database)
    assert (before.exit_code, before.stdout) == (1, "missing\n")
    assert "holdfast migrate up" in before.stderr
    up = holdfast("migrate", "up", "--dsn", blank_database)
    assert up.exit_code == 0
    assert up.stdout.splitlines()[0] == "0001_tables.sql"
    after = holdfast("migrate", "status", "--dsn", blank_database)
    assert (after.exit_code, after.stdout, after.stderr) == (0, "current\n", "")


def test_up_again_prints_nothing_but_talk(database: str) -> None:
    again = holdfast("migrate", "up", "--database-url", database)
    assert (again.exit_code, again.stdout) == (0, "")
    assert "nothing to do" in again.stderr


def test_status_as_json_is_one_line_with_the_facts(blank_database: str) -> None:
    result = holdfast("migrate", "status", "--json", "--dsn", blank_database)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    facts = json.loads(result.stdout)
    assert (facts["schema"], facts["state"], facts["version"]) == ("holdfast", "missing", 0)
    assert facts["pending"][0] == "0001_tables.sql"


def test_an_installation_goes_where_the_schema_option_says(blank_database: str, connect: Connect) -> None:
    assert holdfast("migrate", "up", "--schema", "elsewhere", "--dsn", blank_database).exit_code == 0
    conn = connect(blank_database)
    assert installer.status(conn, "elsewhere").state == "current"
    assert installer.status(conn, "holdfast").state == "missing"


def test_the_printed_sql_installs_with_psql_and_status_says_current(blank_database: str) -> None:
    printed = holdfast("migrate", "sql", "--schema", "by_hand")
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert run_psql(blank_database, printed.stdout).returncode == 0
    assert holdfast("migrate", "status", "--schema", "by_hand", "--dsn", blank_database).stdout == "current\n"


def test_the_option_wins_over_the_environment_and_ours_over_the_common_one(
    database: str, blank_database: str
) -> None:
    nowhere = "postgresql://127.0.0.1:1/nowhere"
    common = holdfast("migrate", "status", DATABASE_URL=database)
    ours = holdfast("migrate", "status", HOLDFAST_DATABASE_URL=database, DATABASE_URL=nowhere)
    option = holdfast("migrate", "status", "--dsn", database, HOLDFAST_DATABASE_URL=nowhere)
    assert [common.stdout, ours.stdout, option.stdout] == ["current\n"] * 3


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:s3cret@127.0.0.1:1/db",
        "postgresql://user:s3cret@@127.0.0.1:1/db",
        "postgresql://user:s3cret/more@127.0.0.1:1/db",
        "postgresql://user:pass@s3cret@127.0.0.1:1/db",
        "postgresql://user:%zzs3cret@127.0.0.1:1/db",
        "postgres:/user:s3cret@127.0.0.1:1/db",
        "host=127.0.0.1 port=1 password=s3cret",
        "host=127.0.0.1 port=1 password='s3cret",
        "postgresql://127.0.0.1:1/db?password=s3cret",
        "s3cret",
    ],
)
def test_no_connection_is_one_line_without_the_password(url: str) -> None:
    result = holdfast("migrate", "up", "--dsn", url)
    unreachable = result.stderr.startswith("Error: cannot connect to")
    assert (result.exit_code, result.stdout) == (69 if unreachable else 1, "")
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("Error: ")
    assert "s3cret" not in result.stderr


def test_a_server_that_refuses_is_named(blank_database: str) -> None:
    result = holdfast("migrate", "up", "--dsn", "postgresql://someone@127.0.0.1:1/here")
    assert "host=127.0.0.1 port=1 dbname=here user=someone" in result.stderr


def test_our_own_errors_are_one_line(blank_database: str, connect: Connect) -> None:
    connect(blank_database).execute("create schema holdfast; create table holdfast.migrations ()")
    result = holdfast("migrate", "up", "--dsn", blank_database)
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["migrate", "up", "--schema", "No Schema"],
        ["migrate", "sideways"],
        ["nonsense"],
        ["migrate", "up", "--wrong"],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    result = holdfast(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")


def test_help_lists_every_command_without_loading_what_is_heavy() -> None:
    program = (
        "import sys; from holdfast.cli import main; main(['--help'], standalone_mode=False); "
        "print(sorted({'psycopg', 'rich', 'asyncio', 'holdfast.embedded'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"
    for command in COMMANDS:
        assert f"\n  {command} " in shown


def test_it_runs_as_a_module_and_knows_its_version() -> None:
    command = [sys.executable, "-m", "holdfast", "--version"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("holdfast 0.")


def test_without_a_database_the_embedded_one_is_used_and_kept(open_directory: Path) -> None:
    environment = {**os.environ, "HOLDFAST_HOME": str(open_directory)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "holdfast", "migrate", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment, cwd=open_directory
        )

    up = run("up")
    assert (up.returncode, up.stdout.splitlines()[:1]) == (0, ["0001_tables.sql"]), up.stderr
    assert run("status").stdout == "current\n"
