"""How a running handler is stopped: by an exception in the main thread, once, and never within a frame.

A stop is two things: a frame that says why, and SIGTERM, which also wakes a handler that sleeps. Either may
come first. SIGTERM alone does nothing: a service manager sends it to every process of a worker at once, and
how long its jobs may still run is for the worker to decide. SIGINT never does anything.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

from holdfast.errors import JobCancelled

MOST_REMINDERS = 5
"""Enough for a signal that was lost; whoever has a handler of his own for it is not to hear it for ever."""


class StopSwitch:
    """Stops the handler that runs while it is armed. Make it in the main thread."""

    def __init__(self) -> None:
        self.why: str | None = None
        """Set from the moment the worker has asked for a stop."""
        self._main = threading.get_ident()
        self._signalled = False
        self._armed = False
        self._done = False
        self._shields = 0
        self._held_back = False
        self._reminders = 0
        self._deliver: Callable[[str], None] = _raise

    def install(self) -> None:
        """Take over SIGTERM and SIGINT, and let no other setting of the parent's get in the way."""
        signal.signal(signal.SIGTERM, self._on_sigterm)
        # A function that does nothing, not SIG_IGN: programs that handlers start would inherit that.
        signal.signal(signal.SIGINT, _do_nothing)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        os.register_at_fork(after_in_child=_forget_signals)

    def ask(self, why: str) -> None:
        """Stop the handler; for the thread that reads the worker's frames."""
        # Each side writes its own mark before it reads the other's, so at least one of them sees both.
        self.why = why
        if self._signalled:
            signal.pthread_kill(self._main, signal.SIGTERM)

    def remind(self) -> None:
        """Send the signal again if the handler has not been stopped; for the thread that reads the frames.

        One that comes just before the main thread goes to sleep does not wake it: the system has delivered
        it, and Python looks for it when the sleep is over.
        """
        if self.why is not None and self._armed and not self._done and self._reminders < MOST_REMINDERS:
            self._reminders += 1
            signal.pthread_kill(self._main, signal.SIGTERM)

    def arm(self) -> None:
        """From now on a stop is delivered; one that came before is delivered at once."""
        self._deliver = _raise
        self._armed = True
        if self.why is not None:
            self._act()

    def disarm(self) -> None:
        """The handler is over: nothing is delivered any more."""
        self._armed = False

    def deliver_by(self, deliver: Callable[[str], None]) -> None:
        """Until it is armed again, call this with the reason instead of raising, in the main thread."""
        self._deliver = deliver

    def __enter__(self) -> None:
        """Hold a stop back for the length of a `with`, lest it leaves half a frame on the pipe."""
        if threading.get_ident() == self._main:
            self._shields += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if threading.get_ident() != self._main:
            return
        self._shields -= 1
        if self._held_back and not self._shields:
            self._act()

    def _on_sigterm(self, _signal: int, _frame: FrameType | None) -> None:
        self._signalled = True
        if self.why is not None:
            self._act()

    def _act(self) -> None:
        if not self._armed or self._done:
            return
        self._held_back = self._shields > 0
        if not self._held_back:
            self._done = True  # once: whoever carries on regardless is killed
            self._deliver(self.why or "")


def _raise(why: str) -> None:
    raise JobCancelled(why)


def _do_nothing(_signal: int, _frame: FrameType | None) -> None: ...


def _forget_signals() -> None:
    """A process that a handler forks is not ours to protect: its own parent must be able to end it."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
