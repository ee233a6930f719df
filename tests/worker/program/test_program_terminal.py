"""A worker at a terminal: lines for people, and Ctrl-C, which the terminal sends to everybody at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worker.program.programs import Shop, wait_for

# The terminal becomes that of the program's own session, as if somebody had logged in there.
LOG_IN = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """A terminal with `holdfast worker` in the foreground."""

    def __init__(self, *arguments: str, cwd: Path, dsn: str) -> None:
        self._ours, theirs = os.openpty()
        os.set_blocking(self._ours, False)
        command = [sys.executable, "-m", "holdfast", "worker", *arguments]
        self.process = subprocess.Popen(
            [sys.executable, "-c", LOG_IN, *command],
            cwd=cwd,
            env={**os.environ, "DATABASE_URL": dsn},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._seen = b""

    @property
    def text(self) -> str:
        try:
            while more := os.read(self._ours, 4096):
                self._seen += more
        except OSError:  # nothing new, or nobody is there any more
            pass
        return self._seen.decode()

    def press_ctrl_c(self) -> None:
        os.write(self._ours, b"\x03")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)


@pytest.mark.parametrize("processes", [1, 2])
def test_ctrl_c_stops_in_order_and_once_however_many_processes_hear_it(
    processes: int, database: str, shop: Shop, here: Path
) -> None:
    terminal = Terminal("shop:hf", "--processes", str(processes), cwd=here, dsn=database)
    try:
        wait_for(lambda: terminal.text.count("serves default=10") == processes, "the workers")
        jobs = [shop.ask(task, 2.0) for task in ("in_loop", "in_thread", "in_process")]
        wait_for(lambda: all(f"begun {job}" in terminal.text for job in jobs), "the handlers to begin")
        terminal.press_ctrl_c()
        assert terminal.process.wait(60) == 0
        said = terminal.text
    finally:
        terminal.close()
    assert {shop.state(job) for job in jobs} == {"COMPLETED"}, said
    assert "\x1b[2m" in said
    assert '"event"' not in said
