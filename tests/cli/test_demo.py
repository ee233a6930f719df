from __future__ import annotations

import re
from typing import Any

import httpx
import psycopg
from click.testing import CliRunner, Result

from holdfast.cli import main
from tests.cli.program import on_terminal
from tests.conftest import Connect


def demo(dsn: str) -> Result:
    return CliRunner().invoke(main, ("demo", "--dsn", dsn))


def schemas(conn: psycopg.Connection[Any]) -> list[str]:
    found = conn.execute("select nspname::text from pg_namespace where nspname ~ '^(hf_|holdfast)'")
    return [name for (name,) in found]


def test_every_job_of_the_shop_comes_to_its_end(blank_database: str, connect: Connect) -> None:
    result = demo(blank_database)
    assert result.exit_code == 0, result.output
    counts = dict(
        re.findall(r"^ *(orders|mails|stock|pictures|clicks|report) +([\d,]+)", result.stdout, re.M)
    )
    assert counts == {
        "orders": "40",
        "mails": "40",
        "stock": "10",
        "pictures": "6",
        "clicks": "3,000",
        "report": "1",
    }
    assert "3,098 jobs in" in result.stdout
    assert schemas(connect(blank_database)) == []


def test_without_a_terminal_there_are_no_control_codes(blank_database: str) -> None:
    result = demo(blank_database)
    assert result.exit_code == 0, result.output
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", result.stdout)
    assert "the shop opens" in result.stderr
    assert "The dashboard is at http://127.0.0.1:" in result.stderr


def test_jobs_of_the_user_are_not_touched(database: str, conn: psycopg.Connection[Any]) -> None:
    conn.execute("select from holdfast.submit_job('mine', 'me', 'orders')")
    assert demo(database).exit_code == 0
    row = conn.execute(
        "select state, attempts from holdfast.jobs_with_status where job_id = 'mine'"
    ).fetchone()
    assert row == ("INITIAL_PENDING", 0)
    assert schemas(conn) == ["holdfast"]


def test_a_terminal_sees_the_jobs_move_and_the_dashboard_until_it_is_interrupted(blank_database: str) -> None:
    seen: list[tuple[int, str]] = []

    def enough(shown: str) -> bool:
        found = re.search(r"The dashboard is at (http://[\d.:]+), and worker 1 is still there", shown)
        if found:
            seen.append((httpx.get(found[1]).status_code, httpx.get(f"{found[1]}/api/dead").text))
        return found is not None

    answer = on_terminal("demo", "--dsn", blank_database, columns=120, until=enough, NO_COLOR="")
    assert answer.code == 0, answer.stdout
    assert "running" in answer.stdout
    assert "\x1b[" in answer.stdout
    assert "3,098 jobs in" in answer.stdout
    ((status, dead),) = seen
    assert status == 200
    assert "card 4711 was reported stolen" in dead


def test_what_went_wrong_is_told_and_was_mended(blank_database: str) -> None:
    """One worker is killed, a process crashes, a server hangs up: everything is done but the dead letter."""
    result = demo(blank_database)
    assert result.exit_code == 0, result.output
    assert "worker 2 was killed with -9 while it ran order-" in result.stderr
    assert re.search(r"rescued .*order-\d+.*: done by \S+ instead", result.stdout)
    assert re.search(r"retried .*mail-12.*: ConnectionError: the mail server hung up", result.stdout)
    assert re.search(r"retried .*picture-3.*: ChildDied: .*exited with code 139", result.stdout)
    assert "dead     charge-1: PermanentError: card 4711 was reported stolen" in result.stdout
