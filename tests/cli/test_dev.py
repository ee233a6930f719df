"""`holdfast dev`: from an empty folder to a job that has run, and anew whenever a file is saved."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from holdfast import Holdfast
from tests.cli.program import holdfast

WAIT_S = 60


class Dev:
    """The command at work in a folder, and what it has said so far."""

    def __init__(self, folder: Path, dsn: str, *arguments: str) -> None:
        own = {name: value for name, value in os.environ.items() if "DATABASE_URL" not in name}
        self.folder = folder
        self.said = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "dev", "--port", "0", "--dsn", dsn, *arguments],
            cwd=folder,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env={**own, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def wait_for(self, pattern: str, since: int = 0) -> re.Match[str]:
        """Read on until it has said this, behind that place."""
        assert self.process.stderr is not None
        deadline = time.monotonic() + WAIT_S
        while not (found := re.compile(pattern).search(self.said, since)):
            assert time.monotonic() < deadline, f"no {pattern!r} in:\n{self.said}"
            if select.select([self.process.stderr], [], [], 1.0)[0]:
                more = os.read(self.process.stderr.fileno(), 65536).decode()
                assert more, f"it ended:\n{self.said}"
                self.said += more
        return found

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(WAIT_S)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


@pytest.fixture
def dev(tmp_path: Path, blank_database: str) -> Generator[Dev]:
    running = Dev(tmp_path, blank_database, "--starter")
    yield running
    if running.process.poll() is None:
        running.stop()


MENDED = """
from holdfast import Holdfast
hf = Holdfast()

@hf.task(queue="other")
def greet(name: str) -> str:
    return "mended"
"""


def test_an_empty_folder_becomes_a_live_setup_that_reloads(dev: Dev, blank_database: str) -> None:
    address = dev.wait_for(r"The dashboard is at (http://\S+)")[1]
    assert "Wrote tasks.py" in dev.said
    assert httpx.get(f"{address}/api/me").json()["role"] == "admin"
    file = dev.folder / "tasks.py"
    with Holdfast(blank_database) as hf:

        @hf.task(name="tasks.greet")
        def greet(name: str) -> str:
            raise AssertionError("it is run by the worker")

        assert greet.enqueue("ada").result(timeout=WAIT_S) == "hello ada"
        file.write_text(file.read_text().replace("hello", "good morning"))
        dev.wait_for("tasks.py changed: the worker starts anew")
        assert greet.enqueue("ada").result(timeout=WAIT_S) == "good morning ada"
        said = len(dev.said)
        file.write_text("hf = ")
        dev.wait_for(r"cannot be imported(?s:.*)SyntaxError(?s:.*)starts anew when a file is saved", said)
        file.write_text(MENDED)
        assert greet.using(queue="other").enqueue("ada").result(timeout=WAIT_S) == "mended"
    assert dev.stop() == 0


def test_nothing_is_written_without_a_word(tmp_path: Path) -> None:
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        answer = holdfast("dev", typed="")
    finally:
        os.chdir(here)
    assert answer.code == 2
    assert "let --starter write a first one" in answer.stderr
    assert list(tmp_path.iterdir()) == []
