from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from holdfast.cli import main, shop
from holdfast.cli.shop import Event
from holdfast.domain.states import JobState
from holdfast.store import SyncStore
from tests.conftest import Connect


def demo(dsn: str) -> Result:
    return CliRunner().invoke(main, ("demo", "--dsn", dsn))


def schemas(conn: psycopg.Connection[Any]) -> list[str]:
    found = conn.execute("select nspname::text from pg_namespace where nspname ~ '^(hf_|holdfast)'")
    return [name for (name,) in found]


def test_every_job_of_the_shop_comes_to_its_end(blank_database: str, connect: Connect) -> None:
    result = demo(blank_database)
    assert result.exit_code == 0, result.output
    states = dict(re.findall(r"^ *(\S+) +\w+\.\w+ +([A-Z_]+)", result.stdout, re.MULTILINE))
    assert states.pop("charge-1006") == "DEAD"
    assert states.pop("order-1006") == "UNSCHEDULED"
    assert len(states) == 15
    assert set(states.values()) == {"COMPLETED"}
    assert "15 COMPLETED, 1 DEAD, 1 UNSCHEDULED; 3 failed attempts, 1 lapsed lease" in result.stdout
    assert schemas(connect(blank_database)) == []


def test_without_a_terminal_there_are_no_control_codes(blank_database: str) -> None:
    result = demo(blank_database)
    assert result.exit_code == 0, result.output
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", result.stdout)
    assert "the shop opens" in result.stderr


def test_jobs_of_the_user_are_not_touched(database: str, conn: psycopg.Connection[Any]) -> None:
    conn.execute("select from holdfast.submit_job('mine', 'me', 'orders')")
    assert demo(database).exit_code == 0
    row = conn.execute(
        "select state, attempts from holdfast.jobs_with_status where job_id = 'mine'"
    ).fetchone()
    assert row == ("INITIAL_PENDING", 0)
    assert schemas(conn) == ["holdfast"]


def test_a_terminal_sees_the_jobs_move(blank_database: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "demo", "--dsn", blank_database],
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
    )
    os.close(theirs)
    seen = _read_all(ours)
    assert process.wait() == 0
    assert "RUNNING" in seen
    assert "\x1b[" in seen
    assert "17 jobs in" in seen


@pytest.fixture
def store(database: str) -> SyncStore:
    return SyncStore(database)


def test_a_job_whose_worker_vanished_is_done_by_another(store: SyncStore) -> None:
    events: list[Event] = []
    with store:
        jobs = {job.job_id: job for job in shop.run(store, events.append)}
    assert events[0] == Event("invoice-1001", JobState.RUNNING, "worker-3")
    invoice = jobs["invoice-1001"]
    assert (invoice.state, invoice.lease_expiration_count, invoice.attempts) == (JobState.COMPLETED, 1, 0)
    assert invoice.assignee_id in shop.WORKERS


def test_the_report_comes_after_all_it_waited_for(store: SyncStore) -> None:
    events: list[Event] = []
    with store:
        shop.run(store, events.append)
    order = [event.job_id for event in events if event.state is JobState.COMPLETED]
    assert set(order[: order.index("report")]) >= {
        f"{kind}-{number}" for kind in ("order", "mail") for number in range(1001, 1006)
    }


def test_a_worker_that_breaks_ends_the_demo(store: SyncStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(job: object) -> None:
        raise ZeroDivisionError("the till is broken")

    monkeypatch.setattr(shop, "_handle", broken)
    with store, pytest.raises(ZeroDivisionError):
        shop.run(store, lambda event: None)


def _read_all(descriptor: int) -> str:
    """Everything until the other side is closed, which a terminal tells as an error."""
    parts: list[bytes] = []
    with open(descriptor, "rb", buffering=0) as terminal:
        try:
            while part := terminal.read(4096):
                parts.append(part)
        except OSError:
            pass
    return b"".join(parts).decode()
