"""A place for one worker process under a supervisor; another takes it when the first has died."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Final

from holdfast.worker import leash

STEADY_S: Final = 10.0
"""A process that worked so long is replaced at once when it dies, whatever happened before."""

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0


@dataclass(slots=True, eq=False)
class Place:
    """Who is there now, if anybody, and when the next one may start."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    end: socket.socket | None = None
    """Our end of its leash."""
    is_ready: bool = False
    deaths: int = 0
    """In a row, each soon after a start."""
    start_at: float | None = None
    """When to start a process here; None: not before somebody says so."""
    began_at: float = 0.0

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> socket.socket:
        """Start a process; what it says arrives on the socket. Raises OSError."""
        ours, theirs = socket.socketpair()
        try:
            self.process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                env={**environment, leash.VARIABLE: str(theirs.fileno())},
                stdin=subprocess.DEVNULL,
                # A group of its own: Ctrl-C reaches the supervisor alone, which passes it on once.
                process_group=0,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self.end, self.start_at, self.began_at = ours, None, monotonic()
        return ours

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, if there is one."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)

    def exit_code(self) -> int | None:
        """The code of a process that has just ended, once; negative: the signal that killed it."""
        code = None if self.process is None else self.process.poll()
        if code is not None:
            self.process = None
        return code

    def plan_another(self) -> float:
        """Have a process started here again; after how many seconds: at once, or ever later."""
        steady = self.is_ready and monotonic() - self.began_at >= STEADY_S
        self.is_ready = False
        self.deaths = 1 if steady else self.deaths + 1
        pause_s = 0.0
        if self.deaths > 1:
            pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(self.deaths - 2, 10))
        self.start_at = monotonic() + pause_s
        return pause_s


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"exited with code {code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
