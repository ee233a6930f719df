"""A PostgreSQL of the run's own, to be stopped, killed, frozen and filled up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from holdfast import embedded
from holdfast.errors import HoldfastError

SETTINGS: Final = {
    "max_connections": "120",
    "shared_buffers": "256MB",
    "deadlock_timeout": "200ms",
    "log_lock_waits": "on",
    "log_min_messages": "warning",
    "max_wal_size": "256MB",
    "autovacuum_naptime": "5s",
    "restart_after_crash": "on",
}
"""Durability stays on: fsync and synchronous_commit are not among them."""

DISK_MB: Final = 1200
OWN_WAY: Final = "-c default_transaction_read_only=off -c statement_timeout=0 -c lock_timeout=0"
"""Sessions of the harness are not bound by what its faults set for all others."""
JOB_BYTES: Final = 8_000
"""What a job leaves behind with all its changes, traces and indexes; measured 5,000."""
STRANGERS: Final = ("reindex", "vacuum", "lock table", "alter table", "comment on", "do $$")
UP_WITHIN_S: Final = 120.0


class Server:
    """The server, its files in a directory of the run; on a small disk in memory where we may mount one."""

    def __init__(self, directory: Path, *, jobs: int = 0, settings: dict[str, str] | None = None) -> None:
        self._disk = directory
        self._directory = directory / "pg"
        self._settings = {**SETTINGS, **(settings or {})}
        self._lock = threading.RLock()
        self._read_to = 0
        self.deadlocks = 0
        self.foreign_deadlocks = 0
        self.deadlock_details: list[str] = []
        self.panics = 0
        self.is_mounted = _mount(directory, DISK_MB + jobs * JOB_BYTES // 1_000_000)
        self._server: embedded.Server | None = None
        self.start()

    @property
    def dsn(self) -> str:
        """Of the database that nobody works in."""
        assert self._server is not None
        return make_conninfo(self._server.dsn, connect_timeout=5)

    @property
    def socket(self) -> Path:
        """The file that the server listens on."""
        found = conninfo_to_dict(self.dsn)
        return Path(str(found["host"])) / f".s.PGSQL.{found['port']}"

    @property
    def log(self) -> Path:
        return self._directory / "server.log"

    @property
    def pid(self) -> int:
        assert self._server is not None
        return self._server.pid

    def database(self, name: str) -> str:
        return make_conninfo(self.dsn, dbname=name)

    def connect(self, name: str = "holdfast", **options: Any) -> psycopg.Connection[Any]:
        """A session of the harness, committing by itself, that waits for a server which is on its way up."""
        deadline = monotonic() + UP_WITHIN_S
        while True:
            try:
                return psycopg.connect(
                    self.database(name),
                    autocommit=True,
                    application_name="gauntlet",
                    options=OWN_WAY,
                    **options,
                )
            except psycopg.OperationalError:
                if monotonic() > deadline:
                    raise
                sleep(0.05)

    def start(self) -> None:
        """Start it if it is down; returns when it answers."""
        with self._lock:
            self.read_log()
            self._server = embedded.start(self._directory, settings=self._settings)

    def read_log(self) -> None:
        """Count what must not be in it. Statistics of the server do not survive a crash, its log does."""
        with self._lock, suppress(FileNotFoundError), self.log.open("rb") as log:
            if log.seek(0, os.SEEK_END) < self._read_to:
                self._read_to = 0  # it was put aside at a start, just after we had read it
            log.seek(self._read_to)
            self._read(log.read().decode(errors="replace"))
            self._read_to = log.tell()

    def _read(self, text: str) -> None:
        self.panics += text.count("PANIC:")
        for part in text.split("deadlock detected")[1:]:
            # The DETAIL names the statements of everybody in the circle. One in which a fault of ours stands,
            # with the locks of DDL, tells nothing about the engine.
            detail = part[:3000].partition("HINT:")[0].lower()
            if any(word in detail for word in STRANGERS):
                self.foreign_deadlocks += 1
            else:
                self.deadlocks += 1
                self.deadlock_details.append(part[:3000])

    def stop(self, number: signal.Signals) -> None:
        """SIGINT: fast, sessions are ended in order. SIGQUIT: immediate, as if it had crashed."""
        with self._lock:
            _kill(self.pid, number)
            self.wait_until_down()

    def kill(self) -> None:
        """End it without a word, as the kernel does when memory runs out."""
        with self._lock:
            children = _children(self.pid)
            _kill(self.pid, signal.SIGKILL)
            for child in children:
                _kill(child, signal.SIGKILL)
            self.wait_until_down()

    def freeze(self) -> list[int]:
        """Stop all its processes where they are; answers them, for `thaw`."""
        frozen = [self.pid, *_children(self.pid)]
        for pid in frozen:
            _kill(pid, signal.SIGSTOP)
        return frozen

    def thaw(self, frozen: list[int]) -> None:
        for pid in frozen:
            _kill(pid, signal.SIGCONT)

    def wait_until_down(self) -> None:
        deadline = monotonic() + UP_WITHIN_S
        while embedded.status(self._directory).running:
            if monotonic() > deadline:
                raise TimeoutError("the server does not stop")
            sleep(0.01)

    def ensure_up(self) -> None:
        """After anything: leave with a server that answers."""
        deadline = monotonic() + UP_WITHIN_S
        while True:
            try:
                self.start()
                with psycopg.connect(self.dsn, connect_timeout=5):
                    return
            except (HoldfastError, psycopg.OperationalError):
                if monotonic() > deadline:
                    raise
                sleep(0.1)

    @property
    def filler(self) -> Path:
        return self._disk / "filler"

    def fill_disk(self) -> None:
        """Leave nothing of the disk; removing `filler` undoes it."""
        with self.filler.open("wb") as file:
            size = 0
            for chunk in (256 << 20, 16 << 20, 1 << 20, 64 << 10):
                with suppress(OSError):
                    while True:
                        os.posix_fallocate(file.fileno(), size, chunk)
                        size += chunk

    def close(self) -> None:
        with suppress(HoldfastError):
            embedded.stop(self._directory)
        if self._server is not None:
            self._server.close()
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self._disk)], check=False, capture_output=True)
        shutil.rmtree(self._disk, ignore_errors=True)


def _mount(directory: Path, megabytes: int) -> bool:
    """A disk of its own that can be filled without harm to others: for root only."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o755)
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "gauntlet", str(directory)],
        check=False,
        capture_output=True,
    )
    return done.returncode == 0


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _kill(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
