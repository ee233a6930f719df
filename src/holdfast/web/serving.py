"""Serving until somebody says stop."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from signal import SIGINT, SIGTERM
from typing import Final

import uvicorn

from holdfast.web.app import create_app
from holdfast.web.backend import Backend
from holdfast.web.settings import WebSettings

STOP_S: Final = 5
"""How long requests may go on after a stop."""

UNTAKEN_S: Final = 30
"""How long what is sent may wait for its client to take it."""

MOST_REQUESTS: Final = 1000
"""At once; more are told to come again."""


class Server(uvicorn.Server):
    """uvicorn, which says where it listens as soon as it does."""

    def __init__(self, settings: WebSettings, ready: Callable[[str], None] = lambda address: None) -> None:
        self._ready = ready
        self.app = create_app(settings)
        super().__init__(
            uvicorn.Config(
                self.app,
                host=settings.host.strip("[]"),
                port=settings.port,
                log_config=None,
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=STOP_S,
                limit_concurrency=MOST_REQUESTS,
            )
        )

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Stop in order at a signal. uvicorn would raise it again in the end, as if that had failed."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in (SIGINT, SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._let_go_of_the_dead()
            self._ready(self.address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Before it waits for those who are still being answered, as those are who watch.
        backend: Backend | None = getattr(self.app.state, "backend", None)
        if backend is not None:
            backend.closing.set()
        await super().shutdown(sockets)

    def _let_go_of_the_dead(self) -> None:
        """Have the system end connections that take nothing: those of clients that are gone, or hang."""
        option: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)
        if option is not None:
            for listener in (each for server in self.servers for each in server.sockets):
                listener.setsockopt(socket.IPPROTO_TCP, option, UNTAKEN_S * 1000)

    @property
    def address(self) -> str:
        """Where it listens, once it does."""
        name = self.servers[0].sockets[0].getsockname()
        host = f"[{name[0]}]" if ":" in name[0] else name[0]
        return f"http://{host}:{name[1]}"


def serve(settings: WebSettings, ready: Callable[[str], None] = lambda address: None) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    Server(settings, ready).run()
