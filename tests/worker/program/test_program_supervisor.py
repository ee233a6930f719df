"""Several worker processes under one that looks after them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.program.programs import Program, Shop, children_of, is_alive, running, wait_for, write_app


def started(worker: Program, count: int = 2) -> list[int]:
    """The worker processes, once they have begun to claim."""
    worker.saw("worker.started", count)
    wait_for(lambda: len(children_of(worker.pid)) == count, f"{count} processes")
    return children_of(worker.pid)


def test_several_processes_work_each_under_an_id_of_its_own(database: str, shop: Shop, here: Path) -> None:
    with running(
        "shop:hf", "--queue", "default=1", "--processes", "2", cwd=here, DATABASE_URL=database
    ) as worker:
        started(worker)
        jobs = [shop.ask("in_loop", 2.0) for _ in range(2)]
        worker.began(*jobs)
        assert len({shop.look(job, "assignee_id") for job in jobs}) == 2
        assert worker.stop() == 0
    assert {shop.state(job) for job in jobs} == {"COMPLETED"}
    assert len({line["worker_id"] for line in worker.events("worker.started")}) == 2


def test_a_stop_reaches_every_process_and_hands_back_at_no_cost(
    database: str, shop: Shop, here: Path
) -> None:
    with running(
        "shop:hf", "--processes", "2", "--queue", "default=3", "--shutdown-timeout", "0.5",
        cwd=here, DATABASE_URL=database,
    ) as worker:  # fmt: skip
        started(worker)
        jobs = [shop.ask(task, 300.0) for task in ("in_loop", "in_thread", "in_process") * 2]
        worker.began(*jobs)
        assert worker.stop(signal.SIGINT) == 0
    assert {shop.look(job, "state::text", "attempts") for job in jobs} == {("RESCHEDULED", 0)}


def test_a_second_signal_hurries_every_process(database: str, shop: Shop, here: Path) -> None:
    with running(
        "shop:hf", "--processes", "2", "--shutdown-timeout", "200", cwd=here, DATABASE_URL=database
    ) as worker:
        started(worker)
        job = shop.ask("in_loop", 300.0)
        worker.began(job)
        worker.send(signal.SIGTERM)
        worker.saw("supervisor.stopping")
        worker.saw("worker.stopping", 1)
        worker.send(signal.SIGTERM)
        assert worker.ended(within_s=30) == 0
    assert shop.look(job, "state::text", "attempts") == ("RESCHEDULED", 0)


def test_a_killed_process_is_replaced(database: str, shop: Shop, here: Path) -> None:
    with running("shop:hf", "--processes", "2", "--lease", "1", cwd=here, DATABASE_URL=database) as worker:
        first, second = started(worker)
        os.kill(first, signal.SIGKILL)
        (died,) = worker.saw("process.died")
        assert "SIGKILL" in died["message"]
        worker.saw("worker.started", 3)
        now = children_of(worker.pid)
        assert (len(now), second in now, first in now) == (2, True, False)
        shop.wait("COMPLETED", shop.ask("quick", 1))
        assert worker.stop() == 0


def test_processes_do_not_outlive_a_killed_supervisor(database: str, shop: Shop, here: Path) -> None:
    with running(
        "shop:hf", "--processes", "2", "--shutdown-timeout", "0.5", cwd=here, DATABASE_URL=database
    ) as worker:
        processes = started(worker)
        jobs = [shop.ask(task, 300.0) for task in ("in_loop", "in_process")]
        worker.began(*jobs)
        below = wait_for(lambda: [each for process in processes for each in children_of(process)], "a child")
        worker.send(signal.SIGKILL)
        wait_for(lambda: not any(map(is_alive, [*processes, *below])), "the processes to be gone")
    shop.wait("RESCHEDULED", *jobs)


def test_an_app_that_cannot_be_imported_is_said_once_and_ends_it_all(tmp_path: Path) -> None:
    write_app(tmp_path, "import a_module_that_is_not_there\n")
    with running("shop:hf", "--processes", "3", cwd=tmp_path) as worker:
        assert worker.ended() == 2
    assert worker.text.count("No module named 'a_module_that_is_not_there'") == 1
    assert "giving up" in worker.text


def test_no_database_is_exit_code_69_with_several_processes_too(here: Path) -> None:
    with running(
        "shop:hf", "--processes", "2", cwd=here, DATABASE_URL="postgresql://127.0.0.1:1/x"
    ) as worker:
        assert worker.ended(within_s=40) == 69


def test_a_process_that_does_not_stop_in_time_is_killed(database: str, shop: Shop, here: Path) -> None:
    with running(
        "shop:hf", "--processes", "2", "--shutdown-timeout", "1", cwd=here, DATABASE_URL=database
    ) as worker:
        first, _ = started(worker)
        os.kill(first, signal.SIGSTOP)
        worker.send(signal.SIGTERM)
        assert worker.ended(within_s=1 + 5 + 3) == 1
        assert not is_alive(first)
    assert worker.events("process.killed")


def test_systemd_hears_from_the_supervisor_when_all_processes_claim(
    database: str, here: Path, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ears:
        address = str(tmp_path / "notify")
        ears.bind(address)
        ears.settimeout(60)
        with running(
            "shop:hf", "--processes", "2", cwd=here, DATABASE_URL=database, NOTIFY_SOCKET=address
        ) as worker:
            assert ears.recv(100) == b"READY=1"
            worker.saw("worker.started", 2)
            assert worker.stop() == 0
        assert ears.recv(100) == b"STOPPING=1"
        ears.setblocking(False)
        with pytest.raises(BlockingIOError):
            ears.recv(100)


def test_the_supervisor_does_not_load_the_app_or_the_driver(here: Path) -> None:
    script = "import sys, holdfast.worker.supervisor, holdfast.worker.launching, holdfast.cli.worker; "
    script += "print([name for name in ('psycopg', 'msgspec', 'holdfast.app') if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
