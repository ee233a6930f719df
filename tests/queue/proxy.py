"""A way to the database that can be cut: at once, or just before an answer comes back."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress

from psycopg.conninfo import conninfo_to_dict, make_conninfo


class Proxy:
    """Passes bytes on between clients and a server, both over TCP or a socket file."""

    def __init__(self, dsn: str) -> None:
        self._target = conninfo_to_dict(dsn)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self._lock = threading.Lock()
        self._ways: list[tuple[socket.socket, socket.socket]] = []
        self._closing = False
        self._word: bytes | None = None
        self.cuts = 0
        self.asked = 0
        """How often a client has said something."""
        self.dsn = make_conninfo(dsn, host="127.0.0.1", port=self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._take, daemon=True)
        self._thread.start()

    def swallow_answer_with(self, word: bytes) -> None:
        """Cut the next connection on which this is answered, instead: what was asked has happened."""
        with self._lock:
            self._word = word

    def cut_all(self) -> None:
        """Cut every connection there is now."""
        with self._lock:
            ways, self._ways = self._ways, []
        for way in ways:
            _hang_up(*way)

    def close(self) -> None:
        self._closing = True
        self._thread.join()
        self._listener.close()
        self.cut_all()

    def _take(self) -> None:
        while not self._closing:
            with suppress(TimeoutError):
                client = self._listener.accept()[0]
                client.settimeout(None)
                server = self._connect()
                with self._lock:
                    self._ways.append((client, server))
                for a, b, listens in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pass_on, args=(a, b, listens), daemon=True).start()

    def _connect(self) -> socket.socket:
        host, port = str(self._target["host"]), int(self._target.get("port") or 5432)
        if host.startswith("/"):
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.connect(f"{host}/.s.PGSQL.{port}")
            return server
        return socket.create_connection((host, port))

    def _pass_on(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                with self._lock:
                    self.asked += not is_answer
                    if is_answer and self._word is not None and self._word in data:
                        self._word = None
                        self.cuts += 1
                        break
                sink.sendall(data)
        _hang_up(source, sink)


def _hang_up(*ends: socket.socket) -> None:
    for end in ends:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextmanager
def proxied(dsn: str) -> Generator[Proxy]:
    """A proxy in front of a database."""
    proxy = Proxy(dsn)
    try:
        yield proxy
    finally:
        proxy.close()
