"""The server beside something else: in a thread of a process that has other things to do."""

from __future__ import annotations

import socket
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import replace

from holdfast.errors import HoldfastError
from holdfast.web.serving import Server
from holdfast.web.settings import WebSettings

START_S = 30.0
STOP_S = 10.0


@contextmanager
def serving(settings: WebSettings) -> Generator[str]:
    """Serve until the end of the block; yields the address. A port that is taken gives way to a free one."""
    listens = threading.Event()
    found: list[str] = []

    def ready(address: str) -> None:
        found.append(address)
        listens.set()

    def run() -> None:
        try:
            server.run()
        finally:
            listens.set()

    server = Server(replace(settings, port=_port(settings)), ready)
    thread = threading.Thread(target=run, name="holdfast web", daemon=True)
    thread.start()
    if not listens.wait(START_S) or not found:
        raise HoldfastError(f"the dashboard could not be served on {settings.host}")
    try:
        yield found[0]
    finally:
        server.should_exit = True
        thread.join(STOP_S)


def _port(settings: WebSettings) -> int:
    """The port that is wanted if nobody has it, else any."""
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family)) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, settings.port))
        except OSError:
            return 0
    return settings.port
