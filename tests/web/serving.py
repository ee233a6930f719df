"""The real server in a thread of the tests, on a real port."""

from __future__ import annotations

import threading

from fastapi import FastAPI

from holdfast.web.serving import Server
from holdfast.web.settings import WebSettings


class Running:
    """A server that answers, until it is stopped."""

    def __init__(self, settings: WebSettings) -> None:
        self._listens = threading.Event()
        self.address = ""
        self.server = Server(settings, self._ready)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._listens.wait(30), "the server did not start"
        assert self.address, "the server failed to start"

    @property
    def app(self) -> FastAPI:
        return self.server.app

    @property
    def local(self) -> str:
        """Its address for this machine, wherever it listens."""
        return f"http://127.0.0.1:{self.address.rpartition(':')[2]}"

    def stop(self) -> None:
        self.server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive(), "the server did not stop"

    def _ready(self, address: str) -> None:
        self.address = address
        self._listens.set()

    def _run(self) -> None:
        try:
            self.server.run()
        finally:
            self._listens.set()
