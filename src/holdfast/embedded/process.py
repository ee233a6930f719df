"""The server as a set of processes: is it alive, who listens, start it, stop it."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from holdfast.embedded import watchdog
from holdfast.embedded.account import Account
from holdfast.embedded.binaries import Binaries
from holdfast.embedded.cluster import environment
from holdfast.embedded.locks import is_exclusive
from holdfast.embedded.places import PORT, Layout
from holdfast.errors import EmbeddedError

POLL_S = 0.005
STOP_LIMIT_S = 120.0
LOG_BYTES = 10_000_000

_ORDINARY = ("starting PostgreSQL", "listening on", "starting up", "shut down", "exited with", "checkpoint")
"""Words of log lines that do not tell why a server did not start."""


@dataclass(frozen=True, slots=True)
class PidFile:
    """What a running server writes about itself into its data directory."""

    pid: int
    socket_directory: Path


def read_pid_file(layout: Layout) -> PidFile | None:
    """The server's own note, or None if there is none or it is not finished."""
    try:
        lines = (layout.data / "postmaster.pid").read_text().splitlines()
        return PidFile(int(lines[0]), Path(lines[4])) if lines[4] else None  # the socket is filled in last
    except (FileNotFoundError, IndexError, ValueError):
        return None


def is_alive(layout: Layout) -> bool:
    """True as long as one process of the server lives, be it an orphan of a killed server."""
    return is_exclusive(layout.server_lock)


def listener(layout: Layout) -> int | None:
    """The process that accepts connections, by the kernel's word; None if there is none, 0 if out of sight.

    A number from a file could by now be another process's, or mean another one (in another container).
    """
    noted = read_pid_file(layout)
    if noted is None:
        return None
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(noted.socket_directory / f".s.PGSQL.{PORT}"))
        except OSError:
            return None
        return _peer(probe, noted)


def launch(layout: Layout, binaries: Binaries, account: Account, sockets: Path, server_lock: int) -> None:
    """Start the server under its watchdog, detached and holding the lock; return before it is ready."""
    _forget_dead_server(layout, sockets)
    become = (str(account.uid), str(account.gid)) if account.foreign else ("-", "-")
    server = (str(binaries.postgres), "-D", str(layout.data), "-c", f"config_file={layout.config}")
    with _open_log(layout) as log:
        done = subprocess.run(
            [
                _python(),
                "-I",
                "-S",
                watchdog.__file__,
                str(layout.directory),
                str(server_lock),
                *become,
                *server,
            ],
            pass_fds=(server_lock,),
            start_new_session=True,  # no Ctrl-C, no hang-up of our terminal
            env=environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=False,
        )
    if done.returncode != 0:
        raise EmbeddedError(f"the watchdog of {layout.directory} did not start: {log_tail(layout)}")


def stop_server(layout: Layout) -> bool:
    """Shut the server down, with all its processes; False if none was alive. Needs the start lock."""
    if not is_alive(layout):
        return False
    pid = listener(layout)
    if pid is None:
        end_orphans(layout)
    elif pid > 0:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)  # fast: open transactions are rolled back, what was committed is safe
    deadline = time.monotonic() + STOP_LIMIT_S
    while is_alive(layout):
        if time.monotonic() > deadline:
            raise EmbeddedError(
                f"the server in {layout.directory} did not stop within {STOP_LIMIT_S:.0f} s: see {layout.log}"
            )
        time.sleep(POLL_S)
    return True


def end_orphans(layout: Layout) -> None:
    """End the processes a killed server left behind, as it would have done itself.

    Where the system does not show them (no /proc), they are left to end by themselves.
    """
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if _is_postgres_in(layout.data, entry):
                os.kill(int(entry.name), signal.SIGQUIT)


def log_tail(layout: Layout) -> str:
    """The last complaints in the server's log, in one line."""
    try:
        lines = layout.log.read_text(errors="replace").splitlines()[-20:]
    except OSError:
        return "there is no log"
    telling = [line for line in lines if line.strip() and not any(word in line for word in _ORDINARY)]
    return "; ".join(line.partition("] ")[2] or line for line in telling[-2:]) or "the log is empty"


def _peer(connection: socket.socket, noted: PidFile) -> int:
    if sys.platform == "darwin":
        local_level, local_peer_pid = 0, 2
        return int(struct.unpack("i", connection.getsockopt(local_level, local_peer_pid, 4))[0])
    if hasattr(socket, "SO_PEERCRED"):
        return int(struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0])
    return noted.pid  # the best there is on other systems


def _forget_dead_server(layout: Layout, sockets: Path) -> None:
    """Remove the note of a killed server: its number may by now be another's, and PostgreSQL would not start.

    We hold the server lock, so no server of ours lives; one that was started by hand is left in peace.
    """
    note = layout.data / "postmaster.pid"
    with suppress(FileNotFoundError, IndexError, ValueError):
        if _is_server_of(layout.data, int(note.read_text().splitlines()[0])):
            return
    note.unlink(missing_ok=True)
    for name in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock"):
        (sockets / name).unlink(missing_ok=True)


def _is_server_of(data: Path, pid: int) -> bool:
    if Path("/proc/self/cwd").exists():
        with suppress(OSError):
            return _is_postgres_in(data, Path(f"/proc/{pid}"))
        return False
    shown = subprocess.run(["ps", "-p", str(pid), "-o", "comm="], capture_output=True, text=True, check=False)
    return "postgres" in shown.stdout


def _is_postgres_in(data: Path, process: Path) -> bool:
    # All processes of a server work in its data directory; so may a user's shell, hence the name.
    return (process / "cwd").readlink() == data and (process / "comm").read_text().strip() == "postgres"


def _open_log(layout: Layout) -> BinaryIO:
    """Open the log for appending; one that has grown large is put aside first."""
    if layout.log.exists() and layout.log.stat().st_size > LOG_BYTES:
        layout.log.rename(layout.log.with_name(f"{layout.log.name}.1"))
    return os.fdopen(os.open(layout.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600), "ab")


def _python() -> str:
    if not sys.executable:
        raise EmbeddedError(
            "sys.executable does not name a Python to watch over the server: set DATABASE_URL"
        )
    return sys.executable
