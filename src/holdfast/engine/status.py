"""Compare what a database has with what this release brings. Pure: the installer asks the database."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from holdfast.config import migrate_command
from holdfast.engine.source import Migration, Source
from holdfast.errors import HoldfastError, InstallationRefused, SchemaMissing, SchemaTooNew, SchemaTooOld

State = Literal["missing", "behind", "current", "newer", "changed"]


@dataclass(frozen=True, slots=True)
class Installed:
    """What a database says about itself: checksums of its migrations by version, and its functions."""

    checksums: Mapping[int, str]
    fingerprint: str
    release: str


@dataclass(frozen=True, slots=True)
class Status:
    """How an installation stands to this release of Holdfast.

    missing: not installed. behind: `migrate up` has something to do. newer: installed by a later release.
    changed: a migration was applied whose file reads differently now. `version` and `release` are the
    database's (0 and None if missing), `code_version` and `code_release` ours.
    """

    schema: str
    state: State
    version: int
    code_version: int
    release: str | None
    code_release: str
    pending: tuple[Migration, ...]
    changed: tuple[Migration, ...]
    functions_current: bool


def compare(source: Source, installed: Installed | None, schema: str) -> Status:
    """Say how an installation (None: there is none) stands to the source."""
    checksums: Mapping[int, str] = installed.checksums if installed else {}
    pending = tuple(each for each in source.migrations if each.version not in checksums)
    changed = tuple(
        each for each in source.migrations if checksums.get(each.version, each.checksum) != each.checksum
    )
    functions_current = installed is not None and installed.fingerprint == source.fingerprint
    version = max(checksums, default=0)
    state: State
    if installed is None:
        state = "missing"
    elif version > source.version or (not functions_current and _later(installed.release, source.release)):
        state = "newer"
    elif changed:
        state = "changed"
    else:
        state = "current" if functions_current and not pending else "behind"
    return Status(
        schema=schema,
        state=state,
        version=version,
        code_version=source.version,
        release=installed.release if installed else None,
        code_release=source.release,
        pending=pending,
        changed=changed,
        functions_current=functions_current,
    )


def obstacle(status: Status) -> HoldfastError | None:
    """What keeps this release from working with the installation; None if nothing does."""
    match status.state:
        case "current":
            return None
        case "missing":
            return SchemaMissing(
                f'Holdfast is not installed here in schema "{status.schema}". '
                f"Run: {migrate_command(status.schema)}"
            )
        case "behind":
            return SchemaTooOld(
                f'schema "{status.schema}" is at version {status.version} (Holdfast {status.release}); '
                f"this is Holdfast {status.code_release} with version {status.code_version}"
                f"{' and other functions' if not status.functions_current else ''}. "
                f"Run: {migrate_command(status.schema)}"
            )
        case "newer":
            return SchemaTooNew(
                f'schema "{status.schema}" is at version {status.version} (Holdfast {status.release}); '
                f"this is Holdfast {status.code_release}, which knows {status.code_version}. Upgrade it"
            )
        case "changed":
            names = ", ".join(each.name for each in status.changed)
            return InstallationRefused(
                f'schema "{status.schema}" was installed with other contents of {names} than this Holdfast '
                f"{status.code_release} has. An applied migration must never be edited: use a released one"
            )
        case _:
            assert_never(status.state)


def _later(release: str, than: str) -> bool:
    return _numbers(release) > _numbers(than)


def _numbers(release: str) -> list[int]:
    """1.2.0 is as late as 1.2."""
    return [int(number) for number in re.sub(r"(\.0)+$", "", release).split(".")]
