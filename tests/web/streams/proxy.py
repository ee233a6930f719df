"""A way to a server that can be cut, or go dead: then nothing passes any more, and nobody is told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit


class HttpProxy:
    """Passes bytes on between clients and a server."""

    def __init__(self, address: str) -> None:
        self._target = (urlsplit(address).hostname or "", urlsplit(address).port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self._lock = threading.Lock()
        self._passes = threading.Event()
        self._passes.set()
        self._ways: list[tuple[socket.socket, socket.socket]] = []
        self._closing = False
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def cut_all(self) -> None:
        """Cut every connection there is now, on both sides."""
        with self._lock:
            ways, self._ways = self._ways, []
        for way in ways:
            _hang_up(*way)

    def go_dead(self) -> None:
        """From now on nothing passes, in either direction; connections stay open on both sides."""
        self._passes.clear()

    def close(self) -> None:
        self._closing = True
        self._thread.join()
        self._listener.close()
        self.cut_all()
        self._passes.set()

    def _take(self) -> None:
        while not self._closing:
            with suppress(TimeoutError, ConnectionError):
                client = self._listener.accept()[0]
                client.settimeout(None)
                try:
                    server = socket.create_connection(self._target)
                except OSError:
                    client.close()
                    continue
                with self._lock:
                    self._ways.append((client, server))
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._passes.wait()
                sink.sendall(data)
        self._passes.wait()  # nobody hears of an end either
        _hang_up(source, sink)


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def proxied(address: str) -> Generator[HttpProxy]:
    """A proxy in front of a server."""
    proxy = HttpProxy(address)
    try:
        yield proxy
    finally:
        proxy.close()
