"""A worker process that is started anew whenever a source is saved, until somebody says stop."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.dev.watching import Sources

LOOK_S: Final = 0.3
"""How often to look whether a file was saved: no system tells of that in a way that all have."""

STOP_S: Final = 8.0
"""How long a worker may take to stop: a handler that does not end is not to hold up whoever saved a file."""


class Session:
    """One worker after the other. What is to be told goes to `say`."""

    def __init__(self, command: Sequence[str], sources: Sources, say: Callable[[str], None]) -> None:
        self._command = list(command)
        self._sources = sources
        self._say = say
        self._worker: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Go on until an interrupt; then the worker is stopped, too."""
        self._start()
        try:
            while True:
                time.sleep(LOOK_S)
                self._look()
        finally:
            self._stop()

    def _look(self) -> None:
        if saved := self._sources.changed():
            more = f" and {len(saved) - 1} more" if len(saved) > 1 else ""
            self._stop()
            self._say(f"{saved[0]}{more} changed: the worker starts anew.")
            self._start()
        elif self._worker is not None and (code := self._worker.poll()) is not None:
            self._worker = None
            self._say(f"The worker ended with exit code {code}; it starts anew when a file is saved.")

    def _start(self) -> None:
        self._worker = subprocess.Popen(self._command)

    def _stop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is None:
            return
        if worker.poll() is None:
            worker.send_signal(signal.SIGTERM)
        try:
            worker.wait(STOP_S)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
