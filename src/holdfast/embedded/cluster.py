"""Make a cluster and write its configuration."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from holdfast.config import PG_BIN_VARIABLE
from holdfast.embedded.account import Account, user_name
from holdfast.embedded.binaries import Binaries
from holdfast.embedded.directories import make_private
from holdfast.embedded.places import PORT, Layout
from holdfast.errors import DirectoryUnusable, EmbeddedError, InvalidArgument

SUPERUSER = "holdfast"
DATABASE = "holdfast"

SETTINGS: Mapping[str, str] = {
    "shared_buffers": "128MB",
    "max_connections": "100",
    "max_wal_size": "1GB",
    "timezone": "UTC",
    "default_text_search_config": "pg_catalog.english",
    "log_line_prefix": "%m [%p] ",
    "cluster_name": "holdfast",
}
"""What differs from PostgreSQL's defaults. fsync and synchronous_commit stay on: what is stored is stored."""

_OURS_ALONE = frozenset(
    {"listen_addresses", "port", "unix_socket_directories", "unix_socket_permissions"}
    | {"hba_file", "ident_file", "config_file", "data_directory"}
)
_SETTING_NAME = re.compile(r"[a-z_][a-z0-9_.]*")
_PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def environment() -> dict[str, str]:
    """What PostgreSQL's programs see of our environment: no PG… variable, no secret of the application."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {"LC_ALL": "C"}


def cluster_version(layout: Layout) -> int | None:
    """The major version of PostgreSQL that made the cluster, or None if there is no cluster yet."""
    note = layout.data / "PG_VERSION"
    return int(note.read_text()) if note.exists() else None


def check_version(layout: Layout, binaries: Binaries) -> None:
    """Refuse to open a cluster with programs of another major version: they could not read it."""
    made_by = cluster_version(layout)
    if made_by not in (None, binaries.version):
        raise DirectoryUnusable(
            f"{layout.data} was made by PostgreSQL {made_by}, but the programs in {binaries.directory} are "
            f"PostgreSQL {binaries.version}: set {PG_BIN_VARIABLE} to the programs of PostgreSQL {made_by} "
            "(their pg_dump saves what should move), or choose another directory"
        )


def initialise(layout: Layout, binaries: Binaries, account: Account, start_lock: int) -> None:
    """Make the cluster with `initdb`; it appears as a whole or not at all."""
    shutil.rmtree(layout.new_data, ignore_errors=True)  # the remains of one who was killed
    make_private(layout.new_data, account)
    command: list[str | Path] = [
        *(binaries.initdb, "-D", layout.new_data, f"--username={SUPERUSER}", "--encoding=UTF8", "--locale=C"),
        # What counts is written by write_configuration; this is for one who starts the cluster by hand.
        *("--auth-local=peer", "--auth-host=reject", "--data-checksums", "--no-instructions"),
    ]
    try:
        done = subprocess.run(
            command,
            user=account.user,
            group=account.group,
            extra_groups=account.extra_groups,
            # initdb holds the start lock too: if we are killed, the next one waits for its end.
            pass_fds=(start_lock,),
            env=environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    except OSError as problem:
        raise EmbeddedError(f"{binaries.initdb} could not be run as {account.name}: {problem}") from None
    if done.returncode != 0:
        shutil.rmtree(layout.new_data, ignore_errors=True)
        raise EmbeddedError(f"initdb could not make a cluster in {layout.directory}: {_reason(done.stdout)}")
    layout.new_data.rename(layout.data)
    _sync(layout.directory)


def write_configuration(
    layout: Layout, binaries: Binaries, account: Account, sockets: Path, settings: Mapping[str, str]
) -> None:
    """Write the three configuration files beside the data; `settings` come after ours and win."""
    values = {
        **SETTINGS,
        # The default's three I/O workers would serve reads from disk, of which a small database has few.
        **({"io_method": "sync"} if binaries.version >= 18 else {}),
        **settings,
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": '"' + str(sockets).replace('"', '""') + '"',
        "unix_socket_permissions": "0700",
        "hba_file": str(layout.hba),
        "ident_file": str(layout.ident),
    }
    lines = [f"{name} = {_quoted(value)}" for name, value in values.items()]
    _write(
        layout.config,
        ["# Written by Holdfast at every start; use ALTER SYSTEM or the settings argument.", *lines],
    )
    # Not `trust`: the socket's directory is closed to others, but one wrong chmod must not make superusers.
    # Not plain `peer` either: the database user is `holdfast`, whatever the user of the system is called.
    _write(layout.hba, ["local all all peer map=holdfast", "local replication all peer map=holdfast"])
    # Root can become anyone, so leaving it out would keep nobody out, but would shut out `sudo holdfast …`.
    users = sorted({"root", account.name, user_name(os.geteuid())})
    _write(layout.ident, [f'holdfast "{user}" {SUPERUSER}' for user in users])


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse settings that would open the server to others or that are none."""
    for name in settings:
        if not _SETTING_NAME.fullmatch(name):
            raise InvalidArgument(f"setting {name!r}: use the name of a PostgreSQL setting in lower case")
        if name in _OURS_ALONE:
            raise InvalidArgument(
                f"setting {name!r} is Holdfast's own: the embedded database is private to its directory"
            )


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _write(path: Path, lines: list[str]) -> None:
    """Replace the file in one step; it holds no secret and the server's user must be able to read it."""
    new = path.with_name(f"{path.name}.tmp")
    new.write_text("\n".join([*lines, ""]))
    new.chmod(0o644)
    new.rename(path)


def _reason(output: str) -> str:
    problems = [line.strip() for line in output.splitlines() if "error:" in line or "FATAL" in line]
    return "; ".join(problems) or output.strip() or "it said nothing"


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
