"""Workers as processes of their own, in the hands of a test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from tests.worker.hands import PATIENCE_S

T = TypeVar("T")


def eventually(what: Callable[[], T], why: str = "it never came true", within_s: float = PATIENCE_S) -> T:
    """Ask again and again until the answer is true; that answer."""
    deadline = monotonic() + within_s
    while not (answer := what()):
        assert monotonic() < deadline, why
        threading.Event().wait(0.005)
    return answer


class WorkerProcess:
    """A worker of `tests.worker.app`."""

    def __init__(self, dsn: str, queues: dict[str, int], **settings: Any) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.process", json.dumps(queues), json.dumps(settings)],
            env={**os.environ, "HOLDFAST_DATABASE_URL": dsn},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        self._ready = threading.Event()
        self.lines: list[dict[str, Any]] = []
        self._readers = [threading.Thread(target=each, daemon=True) for each in (self._watch, self._read)]
        for reader in self._readers:
            reader.start()

    def wait_until_ready(self) -> None:
        assert self._ready.wait(PATIENCE_S * 2), self.lines

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self, within_s: float = PATIENCE_S) -> int:
        """Wait for its end; the exit code."""
        code = self._process.wait(within_s)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        return code

    def events(self, event: str) -> list[dict[str, Any]]:
        """Its log lines of one event."""
        return [line for line in list(self.lines) if line.get("event") == event]

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.ended()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _watch(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip() == "ready":
                self._ready.set()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.lines.append({"event": None, "message": line})


class Notes:
    """What handlers have noted down, see `tests.worker.app.note`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def all(self) -> list[list[str]]:
        """Each as job, process, attempt, time, word."""
        if not self.path.exists():
            return []
        return [line.split() for line in self.path.read_text(encoding="utf-8").splitlines()]

    def of(self, word: str) -> list[list[str]]:
        return [note for note in self.all() if note[-1] == word]
