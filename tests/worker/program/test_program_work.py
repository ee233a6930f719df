"""A worker as a program: what it does and says while it works."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.worker.program.programs import Shop, running

KEYS = {"ts", "level", "event", "message", "job_id", "task", "queue", "attempt", "worker_id"}


def test_a_worker_started_by_command_runs_jobs_of_all_its_queues(
    database: str, shop: Shop, here: Path
) -> None:
    with running(
        "shop:hf", "--queue", "default=2", "--queue", "mail=1", cwd=here, DATABASE_URL=database
    ) as worker:
        worker.saw("worker.started")
        first, second = shop.ask("quick", 21), shop.ask("quick", 4, queue="mail")
        shop.wait("COMPLETED", first, second)
        assert shop.look(first, "result") == (42,)
        assert worker.stop() == 0
    assert "default=2, mail=1" in worker.events("worker.started")[0]["message"]


def test_a_module_with_one_app_needs_no_name_for_it(database: str, shop: Shop, here: Path) -> None:
    with running("shop", cwd=here, DATABASE_URL=database) as worker:
        shop.wait("COMPLETED", shop.ask("quick", 1))
        assert worker.stop() == 0


def test_every_line_off_a_terminal_is_json_with_the_same_keys_and_no_password(
    database: str, shop: Shop, here: Path
) -> None:
    with running("shop:hf", cwd=here, DATABASE_URL=database) as worker:
        dead, talking = shop.ask("fail"), shop.ask("talk")
        shop.wait("DEAD", dead)
        shop.wait("COMPLETED", talking)
        assert worker.stop() == 0
    lines = worker.events()
    assert len(lines) == len(worker.lines)
    assert all(set(line) >= KEYS for line in lines)
    (told,) = worker.events("job.dead")
    assert (told["job_id"], told["task"], told["queue"], told["attempt"]) == (dead, "shop.fail", "default", 1)
    assert [line["event"] for line in lines][-1] == "worker.stopped"
    assert len({line["worker_id"] for line in lines}) == 1
    assert "s3cret" not in worker.text
    assert "db.example" in worker.text


def test_what_a_handler_logs_names_its_job(database: str, shop: Shop, here: Path) -> None:
    with running("shop:hf", cwd=here, DATABASE_URL=database) as worker:
        talking = shop.ask("talk")
        shop.wait("COMPLETED", talking)
        worker.stop()
    (line,) = [line for line in worker.events() if line["message"] == "hello from the handler"]
    assert (line["job_id"], line["task"], line["level"]) == (talking, "shop.talk", "warning")


def test_text_lines_are_short_and_plain_where_nobody_sees_colours(
    database: str, shop: Shop, here: Path
) -> None:
    with running("shop:hf", "--log-format", "text", cwd=here, DATABASE_URL=database) as worker:
        shop.wait("DEAD", shop.ask("fail"))
        assert worker.stop() == 0
    assert "\x1b" not in worker.text
    assert "is dead" in worker.text
    assert "s3cret" not in worker.text


def test_systemd_hears_of_the_first_claim_of_life_and_of_the_stop(
    database: str, here: Path, tmp_path: Path
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ears:
        address = str(tmp_path / "notify")
        ears.bind(address)
        ears.settimeout(60)
        with running(
            "shop:hf", cwd=here, DATABASE_URL=database, NOTIFY_SOCKET=address, WATCHDOG_USEC="100000"
        ) as worker:
            assert ears.recv(100) == b"READY=1"
            assert [ears.recv(100), ears.recv(100)] == [b"WATCHDOG=1"] * 2
            assert worker.stop() == 0
        heard = set()
        ears.setblocking(False)
        while b"STOPPING=1" not in heard:
            heard.add(ears.recv(100))
    assert heard <= {b"WATCHDOG=1", b"STOPPING=1"}


def test_the_environment_speaks_where_no_flag_does(database: str, shop: Shop, here: Path) -> None:
    with running(
        "shop:hf", cwd=here, DATABASE_URL=database, HOLDFAST_QUEUES="a=1 b=3", HOLDFAST_LOG_LEVEL="info"
    ) as worker:
        (line,) = worker.saw("worker.started")
        worker.stop()
    assert line["message"].endswith("serves a=1, b=3")
