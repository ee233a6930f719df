"""Stopping a worker program: nothing is lost, no attempt is spent, and it ends in time."""

from __future__ import annotations

import signal
import time
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from tests.store.servers import OwnServer
from tests.worker.program.programs import Program, Shop, running

SLEEPERS = ("in_loop", "in_thread", "in_process")
LONG_S = 300.0


def claims(worker: Program) -> None:
    worker.saw("worker.started")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_under_load_lets_jobs_end_and_exits_with_0(
    number: signal.Signals, database: str, shop: Shop, here: Path
) -> None:
    with running("shop:hf", "--queue", "default=4", cwd=here, DATABASE_URL=database) as worker:
        jobs = [shop.ask(task, 1.5) for task in SLEEPERS]
        jobs.append(shop.ask("until_stopped"))
        worker.began(*jobs)
        later = [shop.ask("quick", number) for number in range(50)]
        assert worker.stop(number) == 0
    assert {shop.state(job) for job in jobs} == {"COMPLETED"}
    left = {shop.look(job, "state::text", "attempts", "lease_expiration_count") for job in later}
    assert left <= {("INITIAL_PENDING", 0, 0), ("RESCHEDULED", 0, 0), ("COMPLETED", 0, 0)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_what_does_not_end_in_time_is_handed_back_at_no_cost(
    number: signal.Signals, database: str, shop: Shop, here: Path
) -> None:
    with running("shop:hf", "--shutdown-timeout", "0.5", cwd=here, DATABASE_URL=database) as worker:
        jobs = [shop.ask(task, LONG_S) for task in SLEEPERS]
        worker.began(*jobs)
        worker.send(number)
        assert worker.ended(within_s=0.5 + 5.5) == 0
    for job in jobs:
        assert shop.look(job, "state::text", "attempts", "lease_expiration_count") == ("RESCHEDULED", 0, 0)
    assert {line["reason"] for line in worker.events("job.rescheduled")} == {"shutdown"}
    assert {line["job_id"] for line in worker.events("job.rescheduled")} == set(jobs)


def test_a_second_signal_hands_back_at_once_and_is_no_failure(database: str, shop: Shop, here: Path) -> None:
    with running("shop:hf", "--shutdown-timeout", "200", cwd=here, DATABASE_URL=database) as worker:
        jobs = [shop.ask(task, LONG_S) for task in SLEEPERS]
        worker.began(*jobs)
        worker.send(signal.SIGINT)
        worker.saw("worker.stopping")
        worker.send(signal.SIGINT)
        assert worker.ended(within_s=30) == 0
    for job in jobs:
        assert shop.look(job, "state::text", "attempts") == ("RESCHEDULED", 0)


def test_an_idle_worker_stops_at_once(database: str, here: Path) -> None:
    with running("shop:hf", cwd=here, DATABASE_URL=database) as worker:
        claims(worker)
        began = time.monotonic()
        assert worker.stop() == 0
        assert time.monotonic() - began < 10


def test_a_handler_that_blocks_the_loop_for_ever_does_not_keep_the_program_from_ending(
    database: str, shop: Shop, here: Path
) -> None:
    with running("shop:hf", "--shutdown-timeout", "1", cwd=here, DATABASE_URL=database) as worker:
        job = shop.ask("block_the_loop", LONG_S)
        (blocked,) = worker.saw("loop.blocked")
        assert "block_the_loop" in blocked["message"]
        worker.send(signal.SIGTERM)
        assert worker.ended(within_s=1 + 5 + 1) == 1
        message = worker.events("worker.stopped")[0]["message"]
        assert "come back when their leases end" in message
        assert "MainThread: " in message
        assert "block_the_loop:" in message
        assert "Crew.work_until:" in message  # what tasks were at is told too
    assert shop.state(job) == "RUNNING"


def test_a_thread_that_keeps_the_interpreter_from_exiting_does_not_keep_the_program(
    database: str, shop: Shop, here: Path
) -> None:
    with running("shop:hf", "--shutdown-timeout", "1", cwd=here, DATABASE_URL=database) as worker:
        shop.wait("COMPLETED", shop.ask("leave_a_thread", LONG_S))
        worker.send(signal.SIGTERM)
        assert worker.ended(within_s=1 + 5 + 1) == 0


@pytest.fixture
def own_server(open_directory: Path) -> Generator[OwnServer]:
    server = OwnServer(open_directory / "pg")
    yield server
    server.stop()


def test_a_database_that_is_gone_at_the_stop_is_exit_code_1_in_time(
    own_server: OwnServer, here: Path
) -> None:
    with running("shop:hf", "--shutdown-timeout", "3", cwd=here, DATABASE_URL=own_server.dsn) as worker:
        with psycopg.connect(own_server.dsn, autocommit=True) as conn:
            shop = Shop(conn)
            jobs = [shop.ask("in_loop", LONG_S), shop.ask("in_thread", LONG_S)]
            worker.began(*jobs)
        own_server.kill()
        worker.saw("database.lost")
        worker.send(signal.SIGTERM)
        assert worker.ended(within_s=3 + 5 + 1) == 1
    assert "Traceback" not in worker.text


def test_a_database_that_comes_back_is_told_once_and_work_goes_on(own_server: OwnServer, here: Path) -> None:
    with running("shop:hf", cwd=here, DATABASE_URL=own_server.dsn) as worker:
        claims(worker)
        with psycopg.connect(own_server.dsn, autocommit=True) as conn:
            Shop(conn).wait("COMPLETED", Shop(conn).ask("quick", 1))
        own_server.kill()
        worker.saw("database.lost")
        own_server.start()
        worker.saw("database.back")
        with psycopg.connect(own_server.dsn, autocommit=True) as conn:
            Shop(conn).wait("COMPLETED", Shop(conn).ask("quick", 1))
        assert worker.stop() == 0
    assert len(worker.events("database.lost")) == len(worker.events("database.back")) == 1
