"""What ties a worker process to the supervisor that started it: one socket, held by both.

The worker says on it when it is ready. When the supervisor is gone, however it went, the socket ends, and the
worker stops in order.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final, Self

VARIABLE: Final = "HOLDFAST_SUPERVISOR_FD"
READY: Final = b"r"


class Leash:
    """The worker's end."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    @classmethod
    def of(cls, environment: MutableMapping[str, str] | None = None) -> Self | None:
        """The one this process was started with; None if nobody supervises it."""
        surroundings = os.environ if environment is None else environment
        descriptor = surroundings.pop(VARIABLE, None)  # for this process, not for those it starts
        if descriptor is None:
            return None
        end = socket.socket(fileno=int(descriptor))
        end.set_inheritable(False)
        return cls(end)

    def watch(self) -> None:
        """From now on, stop this process when the supervisor is gone."""
        threading.Thread(target=self._watch, name="holdfast leash", daemon=True).start()

    def say_ready(self) -> None:
        """Tell the supervisor that the first claim was answered."""
        with suppress(OSError):  # it is gone, and the watching thread knows
            self._end.send(READY, socket.MSG_DONTWAIT)

    def _watch(self) -> None:
        with suppress(OSError):
            while self._end.recv(1):
                pass
        os.kill(os.getpid(), signal.SIGTERM)
