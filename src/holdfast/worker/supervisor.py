"""Several worker processes and the one that looks after them: starts, restarts, stops.

Each is a fresh interpreter with a worker of its own; this process runs no job and does not import the app.
The first one is started alone: what is wrong with the app or the database is said once, not by all of them.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from time import monotonic
from types import FrameType
from typing import Final

from holdfast.worker import leash, notify

logger: Final = logging.getLogger("holdfast.worker")

KILL_AFTER_S: Final = 5.0
"""How long after the shutdown timeout a process that is still there is killed."""

STEADY_S: Final = 10.0
"""A process that lived so long is restarted at once when it dies."""

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0

FALSE_STARTS: Final = 5
"""So many deaths without a single process that got to work: it will not get better."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True, eq=False)
class Place:
    """A place for one process, which is replaced when it dies."""

    number: int
    process: subprocess.Popen[bytes] | None = None
    end: socket.socket | None = None
    """Our end of its leash."""
    is_ready: bool = False
    began_at: float = 0.0
    deaths: int = 0
    """In a row, each soon after a start."""
    start_at: float | None = None
    """When to start its next process; None: not before somebody says so."""


class Supervisor:
    """Runs a command in so many processes until told to stop. Used on the main thread."""

    def __init__(
        self,
        command: Sequence[str],
        processes: int,
        shutdown_timeout_s: float,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = list(command)
        self._places = [Place(number) for number in range(1, processes + 1)]
        self._shutdown_timeout_s = shutdown_timeout_s
        self._notifier = notify.Notifier.of()
        self._environment = {**os.environ, **(environment or {})}
        self._selector = selectors.DefaultSelector()
        self._was_ready = False
        self._said_ready = False
        self._stopping_since: float | None = None
        self._killed = False
        self._ping_at = monotonic()
        self._worst = 0

    def run(self, *, is_last: bool = False) -> int:
        """Supervise until all processes have stopped; the worst of their exit codes.

        With `is_last` the process is about to exit with it, and no signal changes that any more.
        """
        with self._wakeups(is_last) as wakeups:
            self._places[0].start_at = monotonic()
            while self._stopping_since is None or any(place.process for place in self._places):
                self._act()
                for key, _ in self._selector.select(self._wait_s()):
                    if key.data is None:
                        self._hear(wakeups.recv(64))
                    else:
                        self._listen(key.data)
                self._reap()
        return self._worst

    @contextmanager
    def _wakeups(self, is_last: bool) -> Generator[socket.socket]:
        """Signals as bytes on a socket, to be waited for together with everything else."""
        reader, writer = socket.socketpair()
        with reader, writer:
            writer.setblocking(False)
            before = {number: signal.signal(number, _only_wake_up) for number in (*_SIGNALS, signal.SIGCHLD)}
            fd = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
            self._selector.register(reader, selectors.EVENT_READ)
            try:
                yield reader
            finally:
                signal.set_wakeup_fd(fd)
                for number, handler in before.items():
                    # What is ignored stays so while the interpreter exits; a handler does not.
                    signal.signal(number, signal.SIG_IGN if is_last and number in _SIGNALS else handler)
                self._selector.close()

    # What happens

    def _hear(self, numbers: bytes) -> None:
        for number in numbers:
            if number in _SIGNALS:
                self._stop(signal.Signals(number))

    def _stop(self, number: signal.Signals) -> None:
        """Pass a signal on: the first stops the workers, the second hurries them."""
        if self._stopping_since is None:
            self._stopping_since = monotonic()
            self._notifier.tell(notify.STOPPING)
            logger.info(
                "%s: %d worker processes stop",
                number.name,
                sum(place.process is not None for place in self._places),
                extra={"event": "supervisor.stopping"},
            )
        self._pass_on(number)

    def _pass_on(self, number: signal.Signals) -> None:
        for place in self._places:
            if place.process is not None:
                with suppress(ProcessLookupError):
                    place.process.send_signal(number)

    def _listen(self, place: Place) -> None:
        """A process says that it is ready, or is about to end."""
        end = place.end
        if end is None:
            return
        try:
            word = end.recv(16)
        except OSError:
            word = b""
        if not word:
            self._drop(place)  # its end is closed; the process itself is reaped when it is gone
            return
        place.is_ready = self._was_ready = True
        now = monotonic()
        for other in self._places:
            if other.process is None and other.start_at is None:
                other.start_at = now
        if not self._said_ready and all(each.is_ready for each in self._places):
            self._said_ready = True
            self._notifier.tell(notify.READY)

    def _reap(self) -> None:
        for place in self._places:
            if place.process is not None and (code := place.process.poll()) is not None:
                place.process = None
                self._drop(place)
                if self._stopping_since is None:
                    self._replace(place, code)
                elif (
                    -code not in _SIGNALS
                ):  # one that our signal kills was not up yet and has claimed nothing
                    self._worst = max(self._worst, code if code >= 0 else 1)

    def _replace(self, place: Place, code: int) -> None:
        """A process died that nobody stopped."""
        now = monotonic()
        place.deaths = 0 if place.is_ready and now - place.began_at >= STEADY_S else place.deaths + 1
        place.is_ready = False
        if not self._was_ready and (code > 0 or place.deaths >= FALSE_STARTS):
            logger.error(
                "the first worker process %s before it could work; giving up",
                _how(code),
                extra={"event": "supervisor.failed"},
            )
            self._worst = code if code > 0 else 1
            self._stopping_since = now
            return
        pause_s = 0.0 if place.deaths <= 1 else _pause_s(place.deaths - 1)
        place.start_at = now + pause_s
        logger.warning(
            "worker process %d %s; %s",
            place.number,
            _how(code),
            f"another one starts in {pause_s:g} s" if pause_s else "another one starts",
            extra={"event": "process.died"},
        )

    # What is to be done

    def _act(self) -> None:
        now = monotonic()
        if self._stopping_since is None:
            for place in self._places:
                if place.start_at is not None and place.start_at <= now:
                    self._try_to_start(place)
        elif now >= self._kill_at() and not self._killed:
            self._killed = True
            logger.error(
                "worker processes that did not stop in time are killed; their jobs come back as leases end",
                extra={"event": "process.killed"},
            )
            self._pass_on(signal.SIGKILL)
        if self._notifier.ping_s is not None and now >= self._ping_at:
            self._ping_at = now + self._notifier.ping_s
            self._notifier.tell(notify.ALIVE)

    def _try_to_start(self, place: Place) -> None:
        try:
            self._start(place)
        except OSError as error:  # no memory, too many processes: it may pass
            place.deaths += 1
            place.start_at = monotonic() + _pause_s(place.deaths)
            logger.error(
                "worker process %d cannot be started: %s; trying again",
                place.number,
                error,
                extra={"event": "process.died"},
            )

    def _start(self, place: Place) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            place.process = subprocess.Popen(
                self._command,
                pass_fds=(theirs.fileno(),),
                env={**self._environment, leash.VARIABLE: str(theirs.fileno())},
                stdin=subprocess.DEVNULL,
                # A group of its own: Ctrl-C reaches this process alone, which passes it on once.
                process_group=0,
            )
        place.end, place.start_at, place.began_at = ours, None, monotonic()
        self._selector.register(ours, selectors.EVENT_READ, place)
        logger.debug("worker process %d starts", place.process.pid, extra={"event": "process.started"})

    def _drop(self, place: Place) -> None:
        if place.end is not None:
            self._selector.unregister(place.end)
            place.end.close()
            place.end = None

    def _kill_at(self) -> float:
        return (self._stopping_since or 0.0) + self._shutdown_timeout_s + KILL_AFTER_S

    def _wait_s(self) -> float | None:
        """Until when nothing is to be done unless something happens."""
        moments = [place.start_at for place in self._places if place.start_at is not None]
        if self._stopping_since is not None:
            moments = [] if self._killed else [self._kill_at()]
        if self._notifier.ping_s is not None:
            moments.append(self._ping_at)
        return max(0.0, min(moments) - monotonic()) if moments else None


def _only_wake_up(number: int, frame: FrameType | None) -> None:
    """What a signal means is decided where its byte is read."""


def _pause_s(deaths: int) -> float:
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** min(deaths - 1, 10))


def _how(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    with suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"
