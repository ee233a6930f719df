"""Telling systemd how it goes (`Type=notify`): one datagram per message, to the socket it named."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final, Self

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"


class Notifier:
    """Whoever started us, if it wants to hear of us; else every message goes nowhere."""

    def __init__(self, address: str | None = None, watchdog_s: float | None = None) -> None:
        self._address = address
        self.ping_s = None if watchdog_s is None else watchdog_s / 2
        """How often to say that we are alive; None: nobody asked."""

    @classmethod
    def of(cls, environment: MutableMapping[str, str] | None = None) -> Self:
        """The one the environment names. It is for this process alone: children must not speak for it."""
        surroundings = os.environ if environment is None else environment
        address = surroundings.pop("NOTIFY_SOCKET", None)
        length = surroundings.pop("WATCHDOG_USEC", None)
        meant_for = surroundings.pop("WATCHDOG_PID", None)
        ours = meant_for in (None, str(os.getpid()))
        return cls(address, int(length) / 1e6 if address and length and length.isdigit() and ours else None)

    def tell(self, message: str) -> None:
        """Send one message; never waits, and nobody there is no error."""
        if self._address is None:
            return
        # An @ stands for the zero byte of the abstract namespace.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto(message.encode(), address)
