"""A worker program that cannot start says why in a line, with an exit code, and without a password."""

from __future__ import annotations

import signal
import socket
import time
from pathlib import Path

import pytest

from tests.worker.program.programs import running, write_app


def test_no_first_connection_in_ten_seconds_is_exit_code_69(here: Path) -> None:
    nowhere = "postgresql://shop:s3cret@127.0.0.1:1/orders"
    began = time.monotonic()
    with running("shop:hf", cwd=here, DATABASE_URL=nowhere) as worker:
        assert worker.ended(within_s=30) == 69
    assert time.monotonic() - began > 9
    assert "port=1 dbname=orders" in worker.text
    assert "no connection within 10 s" in worker.lines[-1]
    assert "s3cret" not in worker.text
    assert "Traceback" not in worker.text


def test_a_server_that_does_not_answer_is_exit_code_69(here: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"postgresql://shop:s3cret@127.0.0.1:{silent.getsockname()[1]}/orders"
        with running("shop:hf", cwd=here, DATABASE_URL=dsn) as worker:
            assert worker.ended(within_s=30) == 69
    assert "s3cret" not in worker.text


def stops_at_once_while_it_looks_for_the_database(here: Path) -> bool:
    """Whether SIGTERM ends it in order, and soon, while a server takes its connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/orders"
        with running("shop:hf", cwd=here, DATABASE_URL=dsn) as worker:
            silent.settimeout(30)
            with silent.accept()[0]:
                began = time.monotonic()
                worker.send(signal.SIGTERM)
                return worker.ended(within_s=30) == 0 and time.monotonic() - began < 4


def test_a_stop_while_it_still_looks_for_the_database_is_exit_code_0(here: Path) -> None:
    assert stops_at_once_while_it_looks_for_the_database(here)


def test_a_signal_that_another_thread_was_given_is_heard_at_once(tmp_path: Path) -> None:
    # As one that comes in the instant before the loop goes to sleep: nothing interrupts the main thread.
    write_app(
        tmp_path,
        "import signal, threading, time\n"
        "from holdfast import Holdfast\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "hf = Holdfast()\n",
    )
    assert stops_at_once_while_it_looks_for_the_database(tmp_path)


def test_a_database_without_holdfast_is_exit_code_1_and_the_command_is_named(
    blank_database: str, here: Path
) -> None:
    with running("shop:hf", cwd=here, DATABASE_URL=blank_database) as worker:
        assert worker.ended() == 1
    assert "holdfast migrate up" in worker.text
    assert "Traceback" not in worker.text


def test_an_address_that_cannot_be_read_is_wrong_usage(here: Path) -> None:
    with running("shop:hf", cwd=here, DATABASE_URL="postgresql://shop:s3cret/more@db/orders") as worker:
        assert worker.ended() == 2
    assert "cannot be read" in worker.text
    assert "s3cret" not in worker.text


def test_a_module_that_breaks_shows_its_own_frames_without_the_password(tmp_path: Path) -> None:
    write_app(
        tmp_path, 'from holdfast import Holdfast\nhf = Holdfast("postgresql://u:s3cret@h/d", schema="No!")\n'
    )
    with running("shop:hf", cwd=tmp_path) as worker:
        assert worker.ended() == 2
    assert 'module "shop" cannot be imported' in worker.text
    assert "shop.py" in worker.text
    assert "importlib" not in worker.text
    assert "s3cret" not in worker.text


def test_a_schema_by_flag_is_for_apps_that_name_none(database: str, here: Path) -> None:
    with running("shop:hf", "--schema", "elsewhere", cwd=here, DATABASE_URL=database) as worker:
        assert worker.ended() == 1
        assert "elsewhere" in worker.text


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_schema_that_the_app_names_gives_way_to_no_flag_and_overrules_the_environment(
    processes: str, database: str, tmp_path: Path
) -> None:
    write_app(tmp_path, 'from holdfast import Holdfast\nhf = Holdfast(schema="mine")\n')
    several = ["--processes", processes]
    with running("shop:hf", "--schema", "other", *several, cwd=tmp_path, DATABASE_URL=database) as worker:
        assert worker.ended() == 2
        assert 'uses schema "mine"' in worker.text
    with running("shop:hf", *several, cwd=tmp_path, DATABASE_URL=database, HOLDFAST_SCHEMA="other") as worker:
        assert worker.ended() == 1
        assert ("mine" in worker.text, "other" in worker.text) == (True, False)


@pytest.mark.parametrize("processes", ["1", "3"])
def test_a_script_that_starts_a_worker_when_imported_is_told_so(processes: str, tmp_path: Path) -> None:
    write_app(tmp_path, "from holdfast import Holdfast\nhf = Holdfast()\nhf.run_worker(processes=2)\n")
    with running("shop:hf", "--processes", processes, cwd=tmp_path) as worker:
        assert worker.ended() == 2
    assert 'if __name__ == "__main__"' in worker.text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_while_the_app_is_imported_is_exit_code_0(number: signal.Signals, tmp_path: Path) -> None:
    write_app(tmp_path, "import time\nprint('importing', flush=True)\ntime.sleep(300)\n")
    with running("shop:hf", cwd=tmp_path) as worker:
        worker.until(lambda: "importing" in worker.lines, "the import")
        worker.send(number)
        assert worker.ended() == 0
    assert worker.lines == ["importing"]
