"""The real program as a process of its own, on a pipe or on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Answer:
    """What a process said and how it ended."""

    code: int
    stdout: str
    stderr: str = ""


def holdfast(*arguments: str, dsn: str | None = None, typed: str | None = None, **environment: str) -> Answer:
    """Run it on pipes."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        input=typed,
        capture_output=True,
        text=True,
        env=_environment(dsn, environment),
        timeout=60,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def on_terminal(
    *arguments: str,
    dsn: str | None = None,
    columns: int = 80,
    until: Callable[[str], bool] | None = None,
    **environment: str,
) -> Answer:
    """Run it on a terminal so wide; it is interrupted as soon as what it has shown is enough."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    settings = {"TERM": "xterm", "NO_COLOR": "1", **environment}
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments],
        stdin=child,
        stdout=child,
        stderr=child,
        env=_environment(dsn, settings),
        start_new_session=True,
    )
    os.close(child)
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([parent], [], [], 1.0)[0]:
            try:
                shown += os.read(parent, 65536)
            except OSError:  # the other end is closed
                break
        if until is not None and until(shown.decode(errors="replace")):
            process.send_signal(signal.SIGINT)
            until = None
    code = process.wait(timeout=30)
    os.close(parent)
    return Answer(code, shown.decode(errors="replace").replace("\r\n", "\n"))


def _environment(dsn: str | None, given: dict[str, str]) -> dict[str, str]:
    # Neither whose database, nor how wide whoever runs the tests believes a terminal to be.
    own = {
        name: value
        for name, value in os.environ.items()
        if "DATABASE_URL" not in name and name not in ("COLUMNS", "LINES")
    }
    return own | ({"HOLDFAST_DATABASE_URL": dsn} if dsn else {}) | given
