"""Other processes that use an embedded database, to be watched, asked and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from holdfast import embedded

SOURCE = Path(embedded.__file__).parents[2]
PACKAGES = Path(psycopg.__file__).parents[1]

OBEY = """
import signal, sys
from holdfast import embedded
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
server = embedded.start(sys.argv[1], keep="keep" in sys.argv)
print(server.pid, flush=True)
sys.stdin.readline()
"""
"""Start, say which server it is, and exit (without closing) when told to or when the test goes away."""


class User:
    """A Python process of its own."""

    def __init__(self, code: str, *arguments: str | Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=environment(),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def hears(self) -> str:
        """The next line the process prints; empty when it ended."""
        assert self._process.stdout
        return self._process.stdout.readline().strip()

    def says(self, line: str) -> None:
        """Give the process a line to read."""
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def exit(self) -> int:
        """Let the process come to its end, and wait for it."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        code = self._process.wait(30)
        self._process.stdout.close()
        return code

    def kill(self) -> None:
        """End the process with kill -9, and wait for it."""
        self._process.send_signal(signal.SIGKILL)
        self.exit()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.exit()


def obedient(directory: Path, *arguments: str) -> User:
    """A process that uses the database of the directory until it is told to exit, or killed."""
    return User(OBEY, directory, *arguments)


def environment() -> dict[str, str]:
    """What a child needs to find our code, and nothing else of ours."""
    kept = {name: os.environ[name] for name in ("PATH", "HOLDFAST_PG_BIN") if name in os.environ}
    return kept | {"PYTHONPATH": f"{SOURCE}:{PACKAGES}"}
