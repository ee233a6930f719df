"""Signals as bytes on a socket, to be waited for together with everything else."""

from __future__ import annotations

import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def signals_as_bytes() -> Generator[socket.socket]:
    """Where each signal that has a handler arrives as a byte, its number. Only the main thread can ask."""
    reader, writer = socket.socketpair()
    with reader, writer:
        reader.setblocking(False)
        writer.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(before)
