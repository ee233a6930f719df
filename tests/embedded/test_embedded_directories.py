"""Directories that cannot be used, and the one sentence that says so."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import psycopg
import pytest

from holdfast import embedded
from holdfast.embedded.account import server_account
from holdfast.embedded.places import Layout, socket_directory
from holdfast.errors import DirectoryUnusable, EmbeddedError

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
needs_rights = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def refusal(directory: Path) -> str:
    """What is said about the directory, in one sentence."""
    with pytest.raises(DirectoryUnusable) as caught:
        embedded.start(directory)
    said = str(caught.value)
    assert "\n" not in said
    assert ". " not in said
    return said


def test_a_file_is_no_directory(base: Path) -> None:
    (base / "file").touch()
    assert f"{base}/file is not a directory" in refusal(base / "file")
    assert f"{base}/file" in refusal(base / "file/pg")


def test_a_directory_with_other_things_is_left_as_it_is(base: Path) -> None:
    (base / "photos").mkdir()
    (base / "photos/beach.jpg").touch()
    assert "beach.jpg" in refusal(base / "photos")
    assert [path.name for path in (base / "photos").iterdir()] == ["beach.jpg"]


def test_an_empty_directory_is_as_good_as_none(directory: Path) -> None:
    directory.mkdir(mode=0o755)
    with embedded.start(directory):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o755


def test_the_data_directory_of_another_postgresql_is_not_touched(base: Path) -> None:
    (base / "main").mkdir()
    (base / "main/PG_VERSION").write_text("16\n")
    assert "data directory of another PostgreSQL" in refusal(base / "main")


def test_data_that_is_no_cluster_is_named(directory: Path) -> None:
    (directory / "data").mkdir(parents=True)
    assert f"{directory}/data is not the data directory" in refusal(directory)


def test_a_cluster_of_another_version_names_both_and_what_to_do(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = embedded.find_binaries()
    monkeypatch.setenv("HOLDFAST_PG_BIN", str(found.directory))
    (made / "data/PG_VERSION").write_text("14\n")
    said = refusal(made)
    assert "made by PostgreSQL 14" in said
    assert f"are PostgreSQL {found.version}" in said
    assert "set HOLDFAST_PG_BIN to the programs of PostgreSQL 14" in said


def test_a_directory_everybody_may_write_to_is_refused(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    assert f"every user of this machine may write to {directory}" in refusal(directory)


@needs_root
def test_a_directory_of_someone_else_names_the_owner(directory: Path) -> None:
    directory.mkdir()
    os.chown(directory, server_account().uid, -1)
    assert f"belongs to {server_account().name}, not to you" in refusal(directory)
    for look in (embedded.status, embedded.stop):
        with pytest.raises(DirectoryUnusable):
            look(directory)


@needs_root
def test_data_of_someone_else_names_the_owner(made: Path) -> None:
    os.chown(made / "data", 54321, -1)
    assert "user id 54321" in refusal(made)


@needs_rights
def test_a_directory_one_may_not_write_to_is_named(base: Path) -> None:
    (base / "locked").mkdir(mode=0o555)
    assert f"you may not use {base}/locked" in refusal(base / "locked/pg")
    assert f"you may not write to {base}/locked" in refusal(base / "locked")


def test_a_user_without_a_name_is_told_so(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(EmbeddedError, match="user id 54321 has no name"):
        embedded.start(directory)


def test_a_path_too_long_for_a_socket_works_with_a_private_directory_elsewhere(made: Path) -> None:
    directory = made.rename(made.with_name("long" * 25))
    with embedded.start(directory) as server:
        elsewhere = server.socket_directory
        assert directory not in elsewhere.parents
        assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700
        assert elsewhere.stat().st_uid == server_account().uid
        with embedded.start(directory) as again, psycopg.connect(again.dsn):
            assert again.socket_directory == elsewhere
    shutil.rmtree(elsewhere)


@pytest.mark.parametrize("trap", ["link", "open directory"])
def test_a_socket_directory_somebody_else_prepared_is_refused(base: Path, trap: str) -> None:
    directory = base / ("trap" * 25)
    prepared = socket_directory(Layout(directory))
    if trap == "link":
        prepared.symlink_to(base)
    else:
        prepared.mkdir()
        prepared.chmod(0o755)
        os.chown(prepared, server_account().uid, -1)
    try:
        assert f"{prepared} is not a directory that belongs to" in refusal(directory)
    finally:
        prepared.unlink() if trap == "link" else prepared.rmdir()


def test_a_directory_removed_under_a_running_server_is_made_anew(made: Path) -> None:
    with embedded.start(made):
        shutil.rmtree(made, ignore_errors=True)
        shutil.rmtree(made, ignore_errors=True)  # the server may have written meanwhile
        with embedded.start(made) as again, psycopg.connect(again.dsn) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
