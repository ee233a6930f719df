"""What all processes of the load that speak SQL have in common: a session that comes back, and an end."""

from __future__ import annotations

import os
import signal
import threading
from random import Random
from typing import Any

import psycopg

from gauntlet.journal import journal
from gauntlet.load.told import TROUBLE


class Client:
    """Does something again and again, until SIGTERM; whatever goes wrong, it goes on."""

    pause_s = 0.05

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.rng = Random(f"{seed} {name} {os.getpid()}")
        self.journal = journal(name)
        self.over = threading.Event()
        self._conn: psycopg.Connection[Any] | None = None

    def turn(self) -> None:
        raise NotImplementedError

    @property
    def conn(self) -> psycopg.Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._conn = psycopg.connect(
                os.environ["HOLDFAST_DATABASE_URL"],
                autocommit=True,
                connect_timeout=5,
                options="-c statement_timeout=10s",
            )
        return self._conn

    def drop(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def _stop(self, *_: object) -> None:
        self.over.set()

    def run(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        print("ready", flush=True)
        while not self.over.is_set():
            try:
                self.turn()
            except TROUBLE:
                self.drop()
                self.over.wait(0.2)
            self.over.wait(self.rng.uniform(0, 2 * self.pause_s))
        self.drop()
