"""Whose process the server is: ours, or, when we are root, that of a user without rights."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import DirectoryUnusable, EmbeddedError

if sys.platform != "win32":
    import pwd

UNPRIVILEGED_USERS = ("postgres", "nobody")
"""Who runs the server when we are root, the better first: PostgreSQL refuses to run as root."""


@dataclass(frozen=True, slots=True)
class Account:
    """The operating-system user that runs the server and owns its data."""

    name: str
    uid: int
    gid: int
    foreign: bool
    """True when we are root and the server is not; only root can become someone else."""

    # For subprocess: None leaves the child as we are.
    @property
    def user(self) -> int | None:
        return self.uid if self.foreign else None

    @property
    def group(self) -> int | None:
        return self.gid if self.foreign else None

    @property
    def extra_groups(self) -> list[int] | None:
        return [] if self.foreign else None


def server_account(data: Path | None = None) -> Account:
    """Choose who runs the server: we; if we are root, the owner of the data, else `postgres` or `nobody`."""
    uid = os.geteuid()
    if uid != 0:
        return Account(user_name(uid), uid, os.getegid(), foreign=False)
    accounts = list(_foreign_accounts())
    if not accounts:
        raise EmbeddedError(
            "PostgreSQL does not run as root and this system has neither a user postgres nor a user nobody: "
            "run Holdfast as another user, or set DATABASE_URL to a database of your own"
        )
    if data is None or not data.exists():
        return accounts[0]
    # A user postgres may have come to this system after nobody made the data.
    owner = data.stat().st_uid
    for account in accounts:
        if account.uid == owner:
            return account
    raise DirectoryUnusable(
        f"{data} belongs to user id {owner}, as whom root does not run PostgreSQL: run Holdfast as that user"
    )


def user_name(uid: int) -> str:
    """The name of a user; PostgreSQL's initdb refuses to work for a user id without one."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        raise EmbeddedError(
            f"user id {uid} has no name on this system and PostgreSQL does not start without one: "
            "add it to /etc/passwd, or set DATABASE_URL to a database of your own"
        ) from None


def blocked_at(path: Path, account: Account) -> Path | None:
    """The first part of the path that the account may not enter (at its end: execute), or None."""
    if not account.foreign:
        return None
    path = path.resolve()
    steps = [*reversed(path.parents), path]
    return next((step for step in steps if step.exists() and not _may_pass(step.stat(), account)), None)


def _may_pass(status: os.stat_result, account: Account) -> bool:
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _foreign_accounts() -> Iterator[Account]:
    for name in UNPRIVILEGED_USERS:
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            yield Account(name, entry.pw_uid, entry.pw_gid, foreign=True)
