"""The page docs/sql-session.md is true: its statements, typed into the real psql, print what it shows."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from tests.conftest import Connect
from tests.engine.sql import Connection, signals
from tests.psql import run_psql

PAGE = Path(__file__).parents[2] / "docs" / "sql-session.md"


@pytest.fixture(scope="module")
def page() -> dict[str, str]:
    """The fenced blocks of the page by what stands behind their fences."""
    text = PAGE.read_text(encoding="utf-8")
    return dict(re.findall(r"^```([^\n`]+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))


@pytest.fixture
def listener(database: str, connect: Connect, page: dict[str, str]) -> Connection:
    """The page's first terminal."""
    listening = connect(database)
    listening.execute(page["sql listener"].encode())
    return listening


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_ten_lines_of_psql_submit_lease_extend_reschedule_and_complete(
    database: str, page: dict[str, str], listener: Connection
) -> None:
    assert len(page["sql"].splitlines()) == 10
    for function in ("submit_job", "get_work", "extend_lease", "reschedule_job", "complete_job"):
        assert function in page["sql"]

    done = run_psql(database, "\\set ON_ERROR_STOP on\n" + page["sql"])

    assert (done.returncode, done.stderr) == (0, "")
    assert lines(done.stdout) == lines(page["text"])
    assert [" ".join(signal) for signal in signals(listener)] == page["text signals"].splitlines()


def test_psql_itself_shows_the_signals(database: str, page: dict[str, str]) -> None:
    done = run_psql(database, page["sql listener"] + page["sql"])

    heard = re.findall(r'Asynchronous notification "([^"]+)" with payload "([^"]+)"', done.stdout)
    assert [" ".join(signal) for signal in heard] == page["text signals"].splitlines()


def test_completing_under_the_first_lease_is_the_error_the_page_says_it_is(
    database: str, page: dict[str, str], conn: Connection
) -> None:
    statements = page["sql"].splitlines()
    stale = [*statements[:6], statements[7]]

    done = run_psql(database, "\\set ON_ERROR_STOP on\n\\set VERBOSITY verbose\n" + "\n".join(stale))

    assert done.returncode == 3
    assert "HF004" in done.stderr
    assert 'job "plank" cannot be completed' in done.stderr


def test_get_work_leaves_psql_listening_when_there_is_nothing(database: str, connect: Connect) -> None:
    script = """
select count(*) from holdfast.get_work('saw-1', '{cut}');
select pg_listening_channels();
select holdfast.submit_job('plank', 'me', 'cut') is not null;
"""
    done = run_psql(database, script)

    assert "holdfast.need.cut" in done.stdout
    assert 'Asynchronous notification "holdfast.need.cut" with payload "plank"' in done.stdout


def test_a_job_enqueued_in_a_transaction_of_psql_rolls_back_with_it(database: str, conn: Connection) -> None:
    script = "begin;\nselect holdfast.submit_job('plank', 'me', 'cut');\nrollback;\n"
    assert run_psql(database, script).returncode == 0

    with pytest.raises(psycopg.Error, match='"plank" does not exist'):
        conn.execute("select holdfast.cancel_job('plank', 'me')")
