"""Make the directories of an embedded database, or say in one sentence why they cannot be used.

Modes and owners are set on what we create, never on what was there before.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

from holdfast.config import HOME_VARIABLE
from holdfast.embedded.account import Account, blocked_at, user_name
from holdfast.embedded.places import Layout
from holdfast.errors import DirectoryUnusable, EmbeddedError

ELSEWHERE = f"choose another directory (see {HOME_VARIABLE}) or set DATABASE_URL to a database of your own"

_OURS = frozenset(
    {"data.new", "socket", "programs", "keep", "server.log", "start.lock", "users.lock", "server.lock"}
)


def prepare_directory(layout: Layout, account: Account) -> None:
    """Create the directory if need be; afterwards we and the server's user can work in it."""
    directory = layout.directory
    # The server's user passes through root's directory to its data; its own ones inside are closed to others.
    mode = 0o711 if account.foreign else 0o700
    try:
        _make_missing(directory, mode, account)
        check_directory(layout)
    except PermissionError as problem:
        raise DirectoryUnusable(f"you may not use {problem.filename or directory}: {ELSEWHERE}") from None
    except (NotADirectoryError, FileExistsError) as problem:
        raise DirectoryUnusable(f"{problem.filename or directory} is not a directory: {ELSEWHERE}") from None
    except OSError as problem:
        raise DirectoryUnusable(f"{directory} cannot be used ({problem.strerror}): {ELSEWHERE}") from None
    _check_passable(directory, account)


def check_directory(layout: Layout) -> None:
    """Refuse a directory that is somebody else's, open to everyone, or full of other things."""
    directory = layout.directory
    status = directory.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "not a directory", str(directory))
    if status.st_uid != os.geteuid():
        raise DirectoryUnusable(
            f"{directory} belongs to {_owner(status.st_uid)}, not to you: run as that user, or {ELSEWHERE}"
        )
    if status.st_mode & stat.S_IWOTH:
        raise DirectoryUnusable(
            f"every user of this machine may write to {directory}: `chmod o-w` it, or {ELSEWHERE}"
        )
    if not os.access(directory, os.W_OK | os.X_OK):
        raise DirectoryUnusable(f"you may not write to {directory}: change its mode, or {ELSEWHERE}")
    _check_contents(layout)


def make_private(directory: Path, account: Account) -> None:
    """Create a directory that only the server's user (and root) can enter, or check that it is one."""
    if not os.path.lexists(directory):
        _make(directory, 0o700, owner=account)
    status = directory.lstat()  # not stat: in /tmp, anybody may have put a link there
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != account.uid or status.st_mode & 0o077:
        raise DirectoryUnusable(
            f"{directory} is not a directory that belongs to {account.name} and is closed to others: "
            "remove it and start again"
        )


def _make_missing(directory: Path, mode: int, account: Account) -> None:
    if directory.exists():
        return
    if not directory.parent.exists():
        _make_missing(directory.parent, 0o755 if account.foreign else 0o700, account)
    _check_passable(directory.parent, account)
    _make(directory, mode)


def _make(directory: Path, mode: int, owner: Account | None = None) -> None:
    # Made under another name, so that nobody meets it before it has its mode (mkdir obeys the umask).
    # Renaming replaces an equally empty directory of a competitor and fails on one that is already in use.
    made = directory.parent / f".{directory.name}.{secrets.token_hex(4)}.tmp"
    made.mkdir(mode=0o700)
    try:
        made.chmod(mode)
        if owner and owner.foreign:
            os.chown(made, owner.uid, owner.gid)
        made.rename(directory)
    except OSError:
        made.rmdir()
        if not directory.is_dir():
            raise


def _check_passable(directory: Path, account: Account) -> None:
    blocked = blocked_at(directory, account)
    if blocked is not None:
        raise DirectoryUnusable(
            f"as root Holdfast runs PostgreSQL as the user {account.name}, who may not enter {blocked} "
            f"on the way to {directory}: {ELSEWHERE}, or run Holdfast as another user"
        )


def _check_contents(layout: Layout) -> None:
    if (layout.directory / "PG_VERSION").exists():
        raise DirectoryUnusable(
            f"{layout.directory} is the data directory of another PostgreSQL: {ELSEWHERE}"
        )
    names = {entry.name for entry in layout.directory.iterdir()}
    if "data" in names:
        if not (layout.data / "PG_VERSION").is_file():
            raise DirectoryUnusable(
                f"{layout.data} is not the data directory of a PostgreSQL: remove it, or {ELSEWHERE}"
            )
        return
    known = {*_OURS, layout.config.name, layout.hba.name, layout.ident.name, f"{layout.log.name}.1"}
    if strange := sorted(name for name in names - known if not name.endswith(".tmp")):
        raise DirectoryUnusable(
            f"{layout.directory} is neither empty nor an embedded database (see {strange[0]}): {ELSEWHERE}"
        )


def _owner(uid: int) -> str:
    try:
        return user_name(uid)
    except EmbeddedError:
        return f"user id {uid}"
