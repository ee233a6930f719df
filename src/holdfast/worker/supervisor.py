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
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Final

from holdfast.worker import notify
from holdfast.worker.place import Place, how_it_ended
from holdfast.worker.wakeups import signals_as_bytes

logger: Final = logging.getLogger("holdfast.worker")

KILL_AFTER_S: Final = 5.0
"""How long after the shutdown timeout a process that is still there is killed."""

FALSE_STARTS: Final = 5
"""So many deaths without a single process that got to work: it will not get better."""

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


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
        """Whether any process ever got to work."""
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
        """Have signals wake it up; where it reads which."""
        with signals_as_bytes() as wakeups:
            before = {number: signal.signal(number, _only_wake_up) for number in (*_SIGNALS, signal.SIGCHLD)}
            self._selector.register(wakeups, selectors.EVENT_READ)
            try:
                yield wakeups
            finally:
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
        for place in self._places:
            place.send(number)

    def _listen(self, place: Place) -> None:
        """A process says that it is ready, or is about to end."""
        try:
            word = b"" if place.end is None else place.end.recv(16)
        except OSError:
            word = b""
        if not word:
            self._drop(place)  # its end is closed; the process itself is reaped when it is gone
            return
        place.is_ready = self._was_ready = True
        for other in self._places:
            if other.process is None and other.start_at is None:
                other.start_at = monotonic()
        if not self._said_ready and all(each.is_ready for each in self._places):
            self._said_ready = True
            self._notifier.tell(notify.READY)

    def _reap(self) -> None:
        for place in self._places:
            code = place.exit_code()
            if code is None:
                continue
            self._drop(place)
            if self._stopping_since is None:
                self._replace(place, code)
            elif -code not in _SIGNALS:  # one that our signal kills was not up yet and has claimed nothing
                self._worst = max(self._worst, code if code >= 0 else 1)

    def _replace(self, place: Place, code: int) -> None:
        """A process died that nobody stopped."""
        pause_s = place.plan_another()
        if not self._was_ready and (code > 0 or place.deaths >= FALSE_STARTS):
            logger.error(
                "the first worker process %s before it could work; giving up",
                how_it_ended(code),
                extra={"event": "supervisor.failed"},
            )
            self._worst = code if code > 0 else 1
            self._stopping_since = monotonic()
            return
        logger.warning(
            "worker process %d %s; %s",
            place.number,
            how_it_ended(code),
            f"another one starts in {pause_s:g} s" if pause_s else "another one starts",
            extra={"event": "process.died"},
        )

    # What is to be done

    def _act(self) -> None:
        now = monotonic()
        if self._stopping_since is None:
            for place in self._places:
                if place.start_at is not None and place.start_at <= now:
                    self._start(place)
        elif now >= self._kill_at() and not self._killed:
            self._killed = True
            logger.error(
                "worker processes that did not stop in time are killed; their jobs come back as leases end",
                extra={"event": "process.killed"},
            )
            for place in self._places:
                place.send(signal.SIGKILL)
        if self._notifier.ping_s is not None and now >= self._ping_at:
            self._ping_at = now + self._notifier.ping_s
            self._notifier.tell(notify.ALIVE)

    def _start(self, place: Place) -> None:
        try:
            end = place.start(self._command, self._environment)
        except OSError as error:  # no memory, too many processes: it may pass
            pause_s = place.plan_another()
            logger.error(
                "worker process %d cannot be started: %s; trying again in %g s",
                place.number,
                error,
                pause_s,
                extra={"event": "process.died"},
            )
            return
        self._selector.register(end, selectors.EVENT_READ, place)

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
