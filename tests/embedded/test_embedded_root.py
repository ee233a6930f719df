"""As root, and as somebody who is not."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Generator, Iterable
from pathlib import Path

import psycopg
import pytest

from holdfast import embedded
from holdfast.embedded import account
from holdfast.errors import DirectoryUnusable
from tests.embedded.conftest import open_directory
from tests.embedded.users import PACKAGES, SOURCE, environment

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

PYTHON = f"/usr/bin/python3.{sys.version_info.minor}"
"""A Python that everybody may run; ours may lie in root's home."""


def modes(paths: Iterable[Path]) -> dict[Path, tuple[int, int, int]]:
    return {path: (s.st_mode, s.st_uid, s.st_gid) for path in paths for s in [path.stat()]}


def upward(*paths: Path) -> set[Path]:
    return {step for path in paths for step in (path, *path.parents)}


@pytest.fixture
def base() -> Generator[Path]:
    """On the disk: from memory, some systems run no programs."""
    with open_directory(None) as directory:
        yield directory


@pytest.fixture
def private_programs(base: Path) -> Path:
    """PostgreSQL's programs under a directory that only root may enter, as a virtual environment in /root."""
    found = embedded.find_binaries().directory.resolve()
    package = found.parent.parent
    home = base / "home"
    home.mkdir()
    shutil.copytree(
        package, home / package.name, ignore=shutil.ignore_patterns("include", "*.a", "__pycache__")
    )
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, home / libraries.name)
    home.chmod(0o700)
    return home / package.name / found.parent.name / found.name


def test_no_directory_outside_ours_changes_its_mode_or_owner(base: Path) -> None:
    programs = embedded.find_binaries().directory
    before = modes(upward(base, programs, Path(sys.executable)))
    embedded.start(base / "new/pg").close()
    assert modes(before) == before


def test_the_server_runs_without_rights_and_root_connects(made: Path) -> None:
    with embedded.start(made) as server, psycopg.connect(server.dsn):
        owner = account.server_account()
        assert owner.name in account.UNPRIVILEGED_USERS
        assert (made / "data").stat().st_uid == owner.uid
        process = Path(f"/proc/{server.pid}")
        if process.exists():
            assert process.stat().st_uid == owner.uid
            assert "Groups:\t \n" in (process / "status").read_text()


def test_a_closed_parent_is_named_and_stays_closed(base: Path) -> None:
    closed = base / "closed"
    closed.mkdir(mode=0o700)
    for directory in (closed, closed / "pg", closed / "deep/pg"):
        with pytest.raises(DirectoryUnusable, match=f"may not enter {closed} on the way to"):
            embedded.start(directory)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert not list(closed.iterdir())


def test_directories_made_for_the_server_are_passable_whatever_the_umask(base: Path) -> None:
    before = os.umask(0o077)
    try:
        with embedded.start(base / "new/deep/pg") as server, psycopg.connect(server.dsn):
            assert stat.S_IMODE((base / "new").stat().st_mode) == 0o755
            assert stat.S_IMODE((base / "new/deep/pg").stat().st_mode) == 0o711
    finally:
        os.umask(before)


def test_programs_the_server_cannot_reach_are_copied_once(
    private_programs: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_PG_BIN", str(private_programs))
    before = modes(upward(private_programs, *private_programs.iterdir()))

    with embedded.start(made) as server, psycopg.connect(server.dsn) as connection:
        assert made / "programs" in server.bin_directory.parents
        copied = server.bin_directory.stat().st_ino
        connection.execute("do $$ begin end $$")  # needs plpgsql, a library of the copy
    with embedded.start(made) as again:
        assert again.bin_directory.stat().st_ino == copied

    assert modes(before) == before
    assert len(list((made / "programs").iterdir())) == 1


def test_copied_programs_make_a_cluster_too(
    private_programs: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_PG_BIN", str(private_programs))
    with embedded.start(directory) as server, psycopg.connect(server.dsn):
        assert server.version == embedded.find_binaries().version


def test_data_made_by_nobody_stays_nobodys_when_a_user_postgres_comes(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(account, "UNPRIVILEGED_USERS", ("nobody",))
        embedded.start(directory).close()
    nobody = (directory / "data").stat().st_uid
    with embedded.start(directory) as server, psycopg.connect(server.dsn):
        assert Path(f"/proc/{server.pid}").stat().st_uid == nobody


@pytest.mark.skipif(not os.access(PYTHON, os.X_OK), reason=f"there is no {PYTHON}")
def test_a_normal_user_needs_no_root(base: Path) -> None:
    for path in upward(SOURCE, PACKAGES):
        if not path.stat().st_mode & stat.S_IXOTH:
            pytest.skip(f"{path} is closed to others")
    home = base / "home"
    home.mkdir(mode=0o700)
    shutil.chown(home, "nobody")
    code = """
import os, psycopg
from holdfast import embedded
with embedded.database_or_embedded() as database:
    with psycopg.connect(database.dsn) as connection:
        print(connection.execute("select current_user").fetchone()[0])
    print(os.stat(database.server.directory).st_mode & 0o777, os.stat(database.server.directory).st_uid)
print(embedded.status().running)
"""
    done = subprocess.run(
        [PYTHON, "-c", code],
        user="nobody",
        group=home.stat().st_gid,
        extra_groups=[],
        env=environment() | {"HOLDFAST_HOME": str(home)},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["holdfast", f"{0o700} {home.stat().st_uid}", "False"], done.stderr
