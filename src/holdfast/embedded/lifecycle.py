"""Start, share, stop and look at the embedded database of a directory."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.embedded import locks, process
from holdfast.embedded.account import server_account
from holdfast.embedded.binaries import find_binaries
from holdfast.embedded.cluster import (
    check_settings,
    check_version,
    cluster_version,
    initialise,
    write_configuration,
)
from holdfast.embedded.copies import reachable
from holdfast.embedded.directories import check_directory, make_private, prepare_directory
from holdfast.embedded.places import Layout, default_directory, socket_directory
from holdfast.embedded.ready import wait_until_ready
from holdfast.embedded.server import Server, Use, dsn
from holdfast.errors import DirectoryUnusable, EmbeddedError

START_LIMIT_S = 600.0
"""How long a start may take: after a crash PostgreSQL replays its log first, and must not be cut short."""

ORPHAN_GRACE_S = 1.0
"""How long what a killed server left behind may take to end by itself; mostly it is milliseconds."""

WAITING = "waiting for another process that is starting or stopping PostgreSQL"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Status:
    """How an embedded database is doing."""

    directory: Path
    running: bool
    pid: int | None
    version: int | None
    """PostgreSQL's major version, None if there is no database in the directory yet."""
    in_use: bool
    users: tuple[int, ...]
    """The processes that use it, where the system tells (Linux)."""
    keep: bool
    """True if it is to run until `stop`, whether used or not."""
    dsn: str | None


def start(
    directory: str | os.PathLike[str] | None = None,
    *,
    keep: bool = False,
    log: Say | None = None,
    settings: Mapping[str, str] | None = None,
    limit_s: float = START_LIMIT_S,
) -> Server:
    """Use the embedded database of this directory, made and started if need be; it answers when this returns.

    Any number of processes and threads may do so at once. The server stops with its last user, unless one of
    them said `keep`. `settings` are PostgreSQL's and count only for the one that starts the server. `log` is
    told of what takes time. Without a directory, it is `default_directory()`.
    """
    check_settings(settings or {})
    layout = _layout(directory)
    say = log or logging.getLogger("holdfast.embedded").info
    try:
        prepare_directory(layout, server_account())
        with locks.exclusive(layout.start_lock, lambda: say(WAITING)) as start_lock:
            return _start(layout, start_lock, keep, settings or {}, limit_s, say)
    except OSError as problem:
        raise DirectoryUnusable(f"{layout.directory} cannot be used: {problem}") from problem


def stop(directory: str | os.PathLike[str] | None = None) -> bool:
    """Stop the server of this directory, whoever uses it; False if none was running."""
    layout = _layout(directory)
    if not layout.directory.is_dir():
        return False
    _check(layout)
    with locks.exclusive(layout.start_lock):
        layout.keep.unlink(missing_ok=True)
        return process.stop_server(layout)


def status(directory: str | os.PathLike[str] | None = None) -> Status:
    """Look at the database of this directory without starting or waiting for anything."""
    layout = _layout(directory)
    if not layout.directory.is_dir():
        return Status(layout.directory, False, None, None, False, (), False, None)
    _check(layout)
    running = process.is_alive(layout)
    noted = process.read_pid_file(layout) if running else None
    return Status(
        directory=layout.directory,
        running=running,
        pid=noted.pid if noted else None,
        version=cluster_version(layout),
        in_use=locks.is_shared(layout.users_lock),
        users=locks.sharers(layout.users_lock),
        keep=layout.keep.exists(),
        dsn=dsn(noted.socket_directory) if noted else None,
    )


def _layout(directory: str | os.PathLike[str] | None) -> Layout:
    if sys.platform == "win32":
        raise EmbeddedError(
            "the embedded database does not run on Windows: set DATABASE_URL to a PostgreSQL of your own"
        )
    return Layout(Path(directory).expanduser().resolve() if directory else default_directory())


def _check(layout: Layout) -> None:
    try:
        check_directory(layout)
    except PermissionError:
        raise DirectoryUnusable(
            f"you may not look into {layout.directory}: it belongs to another user"
        ) from None


def _start(
    layout: Layout, start_lock: int, keep: bool, settings: Mapping[str, str], limit_s: float, say: Say
) -> Server:
    use = Use(layout)
    try:
        launched = _ensure_launched(layout, start_lock, keep, settings, say)
        noted = wait_until_ready(layout, limit_s, say)
        if noted is None and not launched:  # it ran, and was killed just now
            _ensure_launched(layout, start_lock, keep, settings, say)
            noted = wait_until_ready(layout, limit_s, say)
        if noted is None:
            why = process.log_tail(layout)
            raise EmbeddedError(f"PostgreSQL did not start in {layout.directory}: {why} (see {layout.log})")
        return _server(layout, noted, use)
    except BaseException:
        use.give_back()  # the watchdog, if there is one already, sees to the rest
        raise


def _ensure_launched(
    layout: Layout, start_lock: int, keep: bool, settings: Mapping[str, str], say: Say
) -> bool:
    """Leave with a server alive, though perhaps not ready; True if it is new, False if it ran before."""
    deadline = time.monotonic() + ORPHAN_GRACE_S
    while True:
        with locks.try_exclusive(layout.server_lock) as server_lock:
            if server_lock is not None:
                _mark(layout, keep)
                _launch(layout, start_lock, server_lock, settings, say)
                return True
        if process.listener(layout) is not None:
            if keep:
                _mark(layout, keep)
            return False
        # Alive, but nobody listens: a killed server's orphans hold its memory, or one is just being launched.
        if time.monotonic() > deadline:
            process.end_orphans(layout)
        time.sleep(process.POLL_S)


def _launch(layout: Layout, start_lock: int, server_lock: int, settings: Mapping[str, str], say: Say) -> None:
    account = server_account(layout.data)
    version = cluster_version(layout)
    binaries = find_binaries(version)
    check_version(layout, binaries)
    binaries = reachable(binaries, account, layout)
    if version is None:
        say(f"making a private PostgreSQL {binaries.version} in {layout.directory}")
        initialise(layout, binaries, account, start_lock)
    sockets = socket_directory(layout)
    make_private(sockets, account)
    write_configuration(layout, binaries, account, sockets, settings)
    process.launch(layout, binaries, account, sockets, server_lock)


def _mark(layout: Layout, keep: bool) -> None:
    if keep:
        layout.keep.touch()
    else:
        layout.keep.unlink(missing_ok=True)


def _server(layout: Layout, noted: process.PidFile, use: Use) -> Server:
    # From the server's own notes: another process may have started it, with other programs than ours.
    command = shlex.split((layout.data / "postmaster.opts").read_text())
    return Server(
        directory=layout.directory,
        socket_directory=noted.socket_directory,
        bin_directory=Path(command[0]).parent,
        version=int((layout.data / "PG_VERSION").read_text()),
        pid=noted.pid,
        _use=use,
    )
