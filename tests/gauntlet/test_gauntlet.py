"""A short gauntlet: every kind of fault that can be had here, under load, and nothing is lost."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from rich.console import Console

from gauntlet import report
from gauntlet.arena.arena import LEASE_S, Size
from gauntlet.arena.server import Server
from gauntlet.faults import FAULTS
from gauntlet.planted import PLANTED, plant
from gauntlet.planted.runner import catches, control
from gauntlet.run import Plan, go

SEED = 7
SECONDS = 75.0
FAULTS_MEANT = 150
BITES = ("unfenced_settle", "swallowed_enqueue", "key_leaked_on_lapse")
"""Those of the planted mistakes that are tried here; `make gauntlet` tries all."""


@pytest.fixture(scope="module")
def server() -> Generator[Server]:
    # Not a temporary path of pytest's: a socket's has at most 103 bytes, and the server's user goes there.
    running = Server(Path(tempfile.mkdtemp(prefix="gauntlet-test-")))
    yield running
    running.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_lost_in_a_storm_of_faults(server: Server) -> None:
    plan = Plan(SEED, SECONDS, 0, FAULTS_MEANT, Size(rate=150), kills=3, restarts=1)

    outcome = go(server, plan, print)

    told = json.loads(report.line(outcome, None, []))
    report.show(Console(), outcome)
    assert not outcome.verdict.violations, "\n".join(map(str, outcome.verdict.violations))
    assert told["lost"] == told["double_settled"] == told["zombie_accepted"] == told["deadlocks"] == 0
    # A run in which nothing went wrong would prove nothing.
    assert told["jobs"] > 2000
    assert told["zombie_offered"] > 1000
    assert told["unknown_answers"] > 0
    assert told["faults"] >= FAULTS_MEANT / 3
    assert told["fault_kinds"] >= min(40, len(FAULTS) - len(outcome.skipped))
    assert told["recovered"] > 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nothing_is_found_where_nothing_is_planted(server: Server) -> None:
    assert control(server, SEED, print).by == ()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mistake", BITES)
def test_a_planted_mistake_is_caught(server: Server, mistake: str) -> None:
    (catch,) = catches(server, [mistake], SEED, print)

    assert catch.is_caught, catch


@pytest.mark.parametrize("mistake", PLANTED)
def test_every_mistake_can_be_planted_into_this_engine(conn: psycopg.Connection[Any], mistake: str) -> None:
    with conn.transaction(force_rollback=True):
        plant(conn, PLANTED[mistake])


def test_there_are_enough_faults_and_mistakes() -> None:
    assert len(FAULTS) >= 40
    assert len(PLANTED) >= 16
    assert all(name in FAULTS for mistake in PLANTED.values() for name in mistake.faults)


def test_recovery_is_promised_within_a_lease_and_a_bit() -> None:
    assert report.PROMISED_S == LEASE_S + 1.5
