"""The child's end of the pipe: frames in by a thread of their own, frames out from any thread."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable

from holdfast.worker.children.frames import Frame, Garbled, Splitter
from holdfast.worker.children.stopping import StopSwitch

TICK_MS = 100
"""How often the reader looks for progress to send, while a handler runs."""

_CHUNK = 256 * 1024


class Channel:
    """A socket that the worker holds the other end of. What is sent when the worker is gone is lost."""

    def __init__(self, descriptor: int, shield: StopSwitch) -> None:
        os.set_inheritable(descriptor, False)
        self._socket = socket.socket(fileno=descriptor)
        self._shield = shield
        self._lock = threading.Lock()
        # A process that a handler forks must neither speak for us nor keep the pipe open when we are gone.
        os.register_at_fork(after_in_child=self._socket.close)

    def send(self, data: bytes) -> None:
        """Write a whole frame, or nothing."""
        with self._shield, self._lock:
            try:
                self._socket.sendall(data)
            except OSError:
                return  # the worker is gone, and the reader is about to find out

    def read(self, receive: Callable[[Frame], None], tick: Callable[[], bool]) -> None:
        """Hand over every frame until the worker is gone; between them call `tick` while it answers True."""
        splitter = Splitter()
        # Not `select`: it takes no descriptor above 1023, and a busy worker's may well be.
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        try:
            while True:
                if not poll.poll(TICK_MS if tick() else None):
                    continue
                data = self._socket.recv(_CHUNK)
                if not data:
                    return
                for frame in splitter.feed(data):
                    receive(frame)
        except (OSError, Garbled):
            return  # as good as gone
