"""Where an embedded database lives: which directory a project has, and what lies where inside it."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from holdfast.config import HOME_VARIABLE
from holdfast.embedded.account import blocked_at, server_account
from holdfast.errors import EmbeddedError

PROJECT_MARKS = ("pyproject.toml", "setup.py", "manage.py", ".git")
PROJECT_DIRECTORY = ".holdfast"
ROOT_BASE = Path("/var/lib/holdfast")

PORT = 5432
"""Only a part of the socket's file name; nothing listens on TCP."""

SOCKET_PATH_BYTES = 103
"""Longest socket path: 107 on Linux, 103 on macOS."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one embedded database."""

    directory: Path

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def new_data(self) -> Path:
        """A cluster in the making; it becomes `data` in one step, so `data` is always whole."""
        return self.directory / "data.new"

    @property
    def sockets(self) -> Path:
        return self.directory / "socket"

    @property
    def programs(self) -> Path:
        return self.directory / "programs"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    @property
    def config(self) -> Path:
        return self.directory / "postgresql.conf"

    @property
    def hba(self) -> Path:
        return self.directory / "pg_hba.conf"

    @property
    def ident(self) -> Path:
        return self.directory / "pg_ident.conf"

    @property
    def start_lock(self) -> Path:
        """Held while somebody starts or stops the server."""
        return self.directory / "start.lock"

    @property
    def users_lock(self) -> Path:
        """Held in common by everyone who uses the server."""
        return self.directory / "users.lock"

    @property
    def server_lock(self) -> Path:
        """Held by the server's own processes, all of them, as long as one of them lives."""
        return self.directory / "server.lock"

    @property
    def keep(self) -> Path:
        """Exists when the server is to outlive its users."""
        return self.directory / "keep"


def default_directory(project: str | os.PathLike[str] | None = None) -> Path:
    """The directory of a project's embedded database; every process of the project finds the same.

    `.holdfast/pg` if the project has a usable `.holdfast` directory, else a directory of its own under
    HOLDFAST_HOME or the user's data directory.
    """
    start = Path(project or Path.cwd()).expanduser().resolve()
    root = project_root(start)
    for directory in (start, *start.parents):
        if _usable(directory / PROJECT_DIRECTORY):
            return directory / PROJECT_DIRECTORY / "pg"
        if directory == root:
            break
    return base_directory() / _project_name(root) / "pg"


def project_root(start: Path) -> Path:
    """The nearest directory upward that looks like a project, else the starting point itself."""
    for directory in (start, *start.parents):
        if any((directory / mark).exists() for mark in PROJECT_MARKS):
            return directory
    return start


def base_directory() -> Path:
    """Where embedded databases live unless a project has its own place."""
    if home := os.environ.get(HOME_VARIABLE):
        return Path(home).expanduser().absolute()
    if os.geteuid() == 0:
        return ROOT_BASE
    if data := os.environ.get("XDG_DATA_HOME"):
        return Path(data) / "holdfast"
    try:
        return Path.home() / ".local" / "share" / "holdfast"
    except RuntimeError:
        raise EmbeddedError(
            f"you have no home directory to keep an embedded database in: set {HOME_VARIABLE}"
        ) from None


def socket_directory(layout: Layout) -> Path:
    """The directory for the server's socket: beside the data, or a short one if that is too long."""
    if len(os.fsencode(layout.sockets / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_BYTES:
        return layout.sockets
    name = hashlib.sha256(os.fsencode(layout.directory)).hexdigest()[:12]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    # Root's runtime directory is closed to the user the server runs as.
    if (
        runtime
        and os.geteuid() != 0
        and os.access(runtime, os.W_OK | os.X_OK)
        and len(os.fsencode(runtime)) < 60
    ):
        return Path(runtime) / f"holdfast-{name}"
    return Path("/tmp") / f"holdfast-{os.geteuid()}-{name}"  # noqa: S108 (made 0700 and its owner checked)


def _project_name(root: Path) -> str:
    slug = re.sub(r"[^a-z0-9]+", "-", root.name.lower()).strip("-")[:20] or "project"
    return f"{slug}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:8]}"


def _usable(directory: Path) -> bool:
    """True if we could keep a database there; a `.holdfast` of somebody else is left alone."""
    if not directory.is_dir() or directory.stat().st_uid != os.geteuid():
        return False
    if os.geteuid() == 0:
        return blocked_at(directory, server_account()) is None
    return os.access(directory, os.W_OK | os.X_OK)
