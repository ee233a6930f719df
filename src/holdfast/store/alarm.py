"""Waiting that another thread can end, or interrupt to give something to do."""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from time import monotonic


class Stopped(BaseException):
    """Waiting is over for good. Raised out of any wait; no handler of errors is meant to catch it."""


class Alarm:
    """One thread waits with it, any other rings it or stops the waiting."""

    def __init__(self) -> None:
        self.is_stopped = False
        self._inside, self._outside = socket.socketpair()
        self._inside.setblocking(False)
        self._outside.setblocking(False)

    def ring(self) -> None:
        """End the wait that goes on, or the next one."""
        with suppress(OSError):  # rung often enough already, or closed
            self._outside.send(b"!")

    def stop(self) -> None:
        """Raise Stopped out of the wait that goes on, and out of every later one."""
        self.is_stopped = True
        self.ring()

    def close(self) -> None:
        self._inside.close()
        self._outside.close()

    def wait(self, descriptor: int | None, events: int, deadline: float) -> bool:
        """Wait for events of a descriptor: whether they came in time. Ringing does not end it."""
        while True:
            ready, rung = self.poll(descriptor, events, deadline)
            if ready or not rung:
                return ready

    def poll(self, descriptor: int | None, events: int, deadline: float) -> tuple[bool, bool]:
        """Wait for events of a descriptor, or for the ringing: whether the one, whether the other."""
        self._refuse_if_stopped()
        poll = select.poll()
        poll.register(self._inside, select.POLLIN)
        if descriptor is not None:
            poll.register(descriptor, events)
        happened = {number for number, _ in poll.poll(max(0.0, deadline - monotonic()) * 1000)}
        self._refuse_if_stopped()
        rung = self._inside.fileno() in happened
        if rung:
            with suppress(BlockingIOError):
                while self._inside.recv(4096):
                    pass
        return descriptor in happened, rung

    def _refuse_if_stopped(self) -> None:
        if self.is_stopped:
            raise Stopped
