"""`hf.run_worker` in a program of one's own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.errors import HoldfastError, InvalidArgument
from tests.worker.program.programs import APP, Shop, wait_for

ENDING = """
if __name__ == "__main__":
    {before}
    hf.run_worker({arguments})
    print("went on", file=sys.stderr)
"""


def script(here: Path, arguments: str = "", before: str = "pass") -> Path:
    path = here / "shop.py"
    path.write_text(APP + ENDING.format(arguments=arguments, before=before))
    return path


def start(path: Path, dsn: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(path)],
        cwd="/",
        env={"DATABASE_URL": dsn, "PATH": "/usr/bin:/bin"},
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    "arguments", ["", '{"default": 2}, processes=2, shutdown_timeout=timedelta(seconds=5)']
)
def test_a_script_runs_its_own_tasks_until_a_signal_and_goes_on(
    arguments: str, database: str, shop: Shop, tmp_path: Path
) -> None:
    with start(script(tmp_path, arguments), database) as program:
        job = shop.ask("quick", 3)
        shop.wait("COMPLETED", job)
        program.send_signal(signal.SIGTERM)
        _, said = program.communicate(timeout=60)
    assert program.returncode == 0, said
    lines = said.splitlines()
    assert lines[-1] == "went on"
    assert "worker.stopped" in {json.loads(line)["event"] for line in lines[:-1]}


def test_logging_that_the_program_set_up_is_left_alone(database: str, shop: Shop, tmp_path: Path) -> None:
    before = "logging.basicConfig(format='mine: %(message)s', level='INFO')"
    with start(script(tmp_path, before=before), database) as program:
        shop.wait("COMPLETED", shop.ask("quick", 3))
        program.send_signal(signal.SIGINT)
        _, said = program.communicate(timeout=60)
    assert program.returncode == 0, said
    assert all(line.startswith("mine: ") for line in said.splitlines()[:-1])


def test_a_child_of_an_unguarded_script_says_what_is_wrong(database: str, shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "shop.py"
    path.write_text(f"{APP}\nhf.run_worker()\n")
    with start(path, database) as program:
        job = shop.ask("in_process", 0.0)
        wait_for(lambda: shop.look(job, "error_message") != (None,), "the failure")
        assert "__main__" in shop.look(job, "error_message")[0]
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=60)
    assert program.returncode == 0


def test_no_database_ends_the_script_with_the_code_of_the_command(tmp_path: Path) -> None:
    with start(script(tmp_path), "postgresql://u:s3cret@127.0.0.1:1/db") as program:
        _, said = program.communicate(timeout=60)
    assert program.returncode == 69
    assert "went on" not in said
    assert "Traceback" not in said
    assert "s3cret" not in said


def test_on_a_running_loop_the_other_way_is_named() -> None:
    async def main() -> None:
        Holdfast().run_worker()

    with pytest.raises(HoldfastError, match=r"async with hf\.worker"):
        asyncio.run(main())


def test_several_processes_must_be_able_to_find_the_app() -> None:
    with pytest.raises(InvalidArgument, match="find the app in a module"):
        Holdfast().run_worker(processes=2)


def test_a_setting_that_does_not_exist_is_named() -> None:
    with pytest.raises(InvalidArgument, match="no setting leas"):
        Holdfast().run_worker(leas=3)


def test_handlers_of_signals_are_given_back(database: str, shop: Shop) -> None:
    before = signal.getsignal(signal.SIGTERM)
    app = Holdfast(database)
    seen: list[object] = []

    @app.task(name="shop.quick")
    def stop_it(number: int) -> None:
        wait_for(lambda: signal.getsignal(signal.SIGTERM) is not before)
        seen.append(number)
        signal.raise_signal(signal.SIGTERM)

    shop.ask("quick", 7)
    app.run_worker(shutdown_timeout=5)
    app.close()
    assert seen == [7]
    assert signal.getsignal(signal.SIGTERM) is before
