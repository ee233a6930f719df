"""A place for embedded databases where the server's user can go, and nothing of the caller's environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import embedded
from holdfast.config import DATABASE_URL_VARIABLES, HOME_VARIABLE

SETTINGS = (
    "PGHOST",
    "PGPORT",
    "PGUSER",
    "PGDATABASE",
    "PGDATA",
    "PGOPTIONS",
    HOME_VARIABLE,
    *DATABASE_URL_VARIABLES,
)


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def base() -> Generator[Path]:
    """A directory open to all, as /var/lib is; no server in it survives the test."""
    with open_directory(quick_place()) as directory:
        yield directory


@pytest.fixture
def directory(base: Path) -> Path:
    """The directory of an embedded database that does not exist yet."""
    return base / "pg"


@pytest.fixture
def made(directory: Path, _cluster: Path) -> Path:
    """The directory of an embedded database that was used before and is not running."""
    return copy(_cluster, directory)


@pytest.fixture(scope="session")
def shared(_cluster: Path) -> Generator[embedded.Server]:
    """A running server for tests that only look at it."""
    with (
        open_directory(quick_place()) as directory,
        embedded.start(copy(_cluster, directory / "pg")) as server,
    ):
        yield server


@pytest.fixture(scope="session")
def _cluster() -> Generator[Path]:
    with open_directory(quick_place()) as directory:
        embedded.start(directory / "pg").close()
        yield directory / "pg"


def copy(cluster: Path, directory: Path) -> Path:
    """Copy a cluster, which is quicker than to make one."""
    subprocess.run(["cp", "-pR", cluster, directory], check=True)
    return directory


def quick_place() -> Path | None:
    """Memory, if there is enough of it: the disk is slow when others test at the same time."""
    memory = Path("/dev/shm")  # noqa: S108
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2**30
    return memory if roomy else None


@contextmanager
def open_directory(place: Path | None) -> Generator[Path]:
    """A directory in that place, the usual one for None, that every user may enter."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-embedded-", dir=place))
    directory.chmod(0o755)  # mkdtemp makes it private, and as root the server is another user
    try:
        yield directory
    finally:
        for lock in directory.rglob("server.lock"):
            if lock.stat().st_uid == os.geteuid():
                embedded.stop(lock.parent)
        shutil.rmtree(directory)
