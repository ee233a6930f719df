"""The worker's end of a child's pipe. Reads and writes as the socket allows; neither waits for the other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from holdfast.worker.children.frames import Frame, Garbled, Splitter

_CHUNK = 256 * 1024


class Link:
    """A socket whose other end a child holds.

    `on_frame` gets what arrives, in order; `on_fault` is called at most once: with None at the end of the
    pipe, or with what was wrong. After a fault nothing arrives any more.
    """

    def __init__(
        self, ours: socket.socket, on_frame: Callable[[Frame], None], on_fault: Callable[[str | None], None]
    ) -> None:
        ours.setblocking(False)
        self._socket = ours
        self._loop = asyncio.get_running_loop()
        self._on_frame = on_frame
        self._on_fault = on_fault
        self._incoming = Splitter()
        self._outgoing = bytearray()
        self._reading = True
        self._loop.add_reader(ours, self._read_some)

    def send(self, data: bytes) -> None:
        """Send this after all that was sent before. A child that is gone gets nothing; that is no error."""
        if not self._reading:
            return
        waiting = bool(self._outgoing)
        self._outgoing += data
        if not waiting:
            self._write_some()

    def drain(self) -> None:
        """Take in all that has arrived; for a child that is dead, and can write no more."""
        while self._reading and self._read_some():
            pass

    def close(self) -> None:
        """Let go; the child sees the end of its pipe."""
        self._end_reading()
        self._end_writing()
        self._socket.close()

    def _read_some(self) -> bool:
        """Whether there was something, and may be more."""
        try:
            data = self._socket.recv(_CHUNK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            data = b""
        if not data:
            self._fault(None)
            return False
        try:
            for frame in self._incoming.feed(data):
                if self._reading:  # what came before may have ended it
                    self._on_frame(frame)
        except Garbled as error:
            self._fault(f"wrote something else than messages on its pipe: {error}")
        return True

    def _write_some(self) -> None:
        try:
            sent = self._socket.send(self._outgoing)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:  # it is gone, and its end will tell more
            self._end_writing()
            return
        del self._outgoing[:sent]
        if self._outgoing:
            self._loop.add_writer(self._socket, self._write_some)
        else:
            self._loop.remove_writer(self._socket)

    def _fault(self, what: str | None) -> None:
        self._end_reading()
        self._on_fault(what)

    def _end_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._socket)

    def _end_writing(self) -> None:
        self._outgoing.clear()
        if self._socket.fileno() >= 0:
            self._loop.remove_writer(self._socket)
