"""Costs are counted by the server and the kernel; what the measuring itself does must not be among them."""

from __future__ import annotations

import sys
import time
from typing import Any

import psycopg
import pytest

from holdfast.bench import costs
from holdfast.bench.costs import Costs, Meter
from tests.conftest import Connect

WRITE = "insert into holdfast.queues (name, paused_at) values (%s, now())"


@pytest.fixture
def meter(conn: psycopg.Connection[Any]) -> Meter:
    return Meter(conn)


def test_a_phase_in_which_nothing_happens_costs_nothing(meter: Meter) -> None:
    with meter.over(1) as phase:
        pass
    found = phase.costs
    assert (found.commits, found.queries, found.inserted, found.dead_tuples) == (0, 0, 0, 0)


def test_what_was_done_before_a_phase_is_not_counted_in_it(
    meter: Meter, conn: psycopg.Connection[Any]
) -> None:
    for number in range(5):
        conn.execute(WRITE, (f"before {number}",), prepare=False)
    with meter.over(1) as phase:
        conn.execute(WRITE, ("within",), prepare=False)
    assert (phase.costs.commits, phase.costs.queries, phase.costs.inserted) == (1, 1, 1)


def test_what_another_session_did_is_counted_when_it_has_gone(meter: Meter, database: str) -> None:
    with meter.over(10) as phase, psycopg.connect(database, autocommit=True) as other:
        for number in range(10):
            # To prepare it would be a transaction of its own.
            other.execute(WRITE, (str(number),), prepare=False)
        other.execute("update holdfast.queues set paused_at = now() where name < '5'")
        other.execute("delete from holdfast.queues where name = '9'")
    found = phase.costs
    assert (found.commits, found.queries) == (12, 12)
    assert (found.inserted, found.updated, found.deleted, found.dead_tuples) == (10, 5, 1, 6)
    assert found.wal_bytes > 500
    assert found.per_job(found.inserted) == 1


def test_a_session_that_stays_is_not_waited_for(
    meter: Meter, database: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "GONE_S", 30.0)
    meter.staying.append(connect(database).info.backend_pid)
    began_s = time.monotonic()
    with meter.over(1):
        pass
    assert time.monotonic() - began_s < 15


def test_a_transaction_of_three_statements_is_three_queries_and_one_commit(
    meter: Meter, database: str
) -> None:
    with meter.over(1) as phase, psycopg.connect(database) as other:
        for number in range(3):
            other.execute(WRITE, (str(number),))
    assert (phase.costs.commits, phase.costs.queries) == (1, 3)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells of other processes")
def test_cpu_of_the_server_and_of_python_are_told_apart(meter: Meter, conn: psycopg.Connection[Any]) -> None:
    with meter.over(1) as phase:
        conn.execute("select sum(n) from generate_series(1, 2000000) as n")
    assert phase.costs.postgres_cpu_s is not None
    assert phase.costs.postgres_cpu_s > 0.05
    with meter.over(1) as phase:
        sum(range(5_000_000))
    assert phase.costs.python_cpu_s > 0.02


def test_the_cpu_of_a_server_that_cannot_be_seen_is_unknown(
    conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "_postmaster", lambda conn: None)
    with Meter(conn).over(1) as phase:
        pass
    assert phase.costs.postgres_cpu_s is None
    assert (phase.costs + Costs()).postgres_cpu_s is None


def test_costs_of_phases_add_up_and_the_peak_is_the_highest() -> None:
    total = Costs(jobs=2, commits=3, peak_memory_mb=50) + Costs(jobs=1, commits=4, peak_memory_mb=70)
    assert (total.jobs, total.commits, total.peak_memory_mb) == (3, 7, 70)
    assert total.per_job(total.commits, 3) == 7
