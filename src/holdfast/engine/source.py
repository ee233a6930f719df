"""What this release installs: numbered migrations and functions, read from SQL files beside this module."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from holdfast.errors import InvalidArgument

HERE = Path(__file__).parent
SIGNATURES_FILE = "signatures.txt"

_MIGRATION_FILE = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
_RELEASE = re.compile(r"\d+(\.\d+)*")


@dataclass(frozen=True, slots=True)
class SqlFile:
    """One SQL file; the checksum does not depend on the line ends of the checkout."""

    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return sha256(self.sql.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Migration(SqlFile):
    """A numbered change of tables and types, applied once and never edited after its release."""

    version: int


@dataclass(frozen=True, slots=True)
class Source:
    """Everything one release of Holdfast installs.

    `signatures` has each function and view as the database shows it (see bookkeeping/objects.sql). From it
    an upgrade knows which installed ones it must drop to create the new ones. `make schema` writes it.
    """

    migrations: tuple[Migration, ...]
    functions: tuple[SqlFile, ...]
    signatures: tuple[str, ...]
    release: str

    @property
    def version(self) -> int:
        return len(self.migrations)

    @property
    def fingerprint(self) -> str:
        """Tells one set of functions from another."""
        listing = "".join(f"{file.name} {file.checksum}\n" for file in self.functions)
        return sha256(listing.encode()).hexdigest()


def read(directory: Path = HERE, release: str | None = None) -> Source:
    """Read `migrations/*.sql` and `functions/*.sql`, in the order of their names, and `signatures.txt`."""
    signatures = directory / SIGNATURES_FILE
    return Source(
        migrations=_migrations(directory / "migrations"),
        functions=tuple(SqlFile(path.name, _text(path)) for path in _sql_files(directory / "functions")),
        signatures=tuple(_text(signatures).splitlines()) if signatures.exists() else (),
        release=release_numbers(release or version("holdfast")),
    )


@cache
def shipped() -> Source:
    """The source of this release, read once."""
    return read()


@cache
def bookkeeping(name: str) -> str:
    """One of the installer's own statements."""
    return _text(HERE / "bookkeeping" / f"{name}.sql")


def release_numbers(release: str) -> str:
    """The part of a release that is compared: `1.2.0rc1` counts as `1.2.0`."""
    numbers = _RELEASE.match(release)
    if numbers is None:
        raise InvalidArgument(f"release {release!r} does not begin with a number")
    return numbers[0]


def _migrations(directory: Path) -> tuple[Migration, ...]:
    return tuple(_migration(path, number) for number, path in enumerate(_sql_files(directory), start=1))


def _migration(path: Path, number: int) -> Migration:
    named = _MIGRATION_FILE.fullmatch(path.name)
    if named is None or int(named[1]) != number:
        raise InvalidArgument(f"migration {path.name!r}: expected {number:04}_name.sql, without a gap")
    return Migration(name=path.name, sql=_text(path), version=number)


def _sql_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.sql"))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
