"""A server of the test's own, to be frozen, killed and started again."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import psycopg

from holdfast import embedded
from holdfast.engine import installer
from tests.conftest import SERVER_SETTINGS

# What was committed is still there when the server is killed, though not when the machine is.
SETTINGS = {**SERVER_SETTINGS, "synchronous_commit": "on", "full_page_writes": "on"}


class OwnServer:
    """An embedded PostgreSQL with Holdfast in it."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self._directory = directory
        self._settings = {**SETTINGS, **settings}
        self.start()
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            installer.install(conn)

    @property
    def dsn(self) -> str:
        return self._server.dsn

    def start(self) -> None:
        self._server = embedded.start(self._directory, settings=self._settings)

    def stop(self) -> None:
        embedded.stop(self._directory)

    def become_standby(self) -> None:
        """Be a standby from the next start on, of a primary that is not there."""
        data = self._directory / "data"
        signal_file = data / "standby.signal"
        signal_file.touch()
        os.chown(signal_file, data.stat().st_uid, data.stat().st_gid)

    def kill(self) -> None:
        """End it without a word, as the kernel does when memory runs out."""
        for pid in self.pids():
            with suppress(ProcessLookupError):  # a session that asked for the list may be gone by now
                os.kill(pid, signal.SIGKILL)

    def pids(self) -> list[int]:
        """The server and its sessions."""
        with psycopg.connect(self.dsn) as conn:
            rows = conn.execute("select pid from pg_stat_activity where pid <> pg_backend_pid()").fetchall()
        return [self._server.pid, *(pid for (pid,) in rows)]
