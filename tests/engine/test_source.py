from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.engine.source import read, shipped
from holdfast.engine.status import Installed, compare
from holdfast.errors import InvalidArgument


def write(directory: Path, *files: str, text: str = "select 1;\n") -> Path:
    for file in files:
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        (directory / file).write_bytes(text.encode())
    return directory


def test_functions_are_applied_in_the_order_of_their_names(tmp_path: Path) -> None:
    source = read(write(tmp_path, "functions/20_b.sql", "functions/10_z.sql", "functions/90_a.sql"))
    assert [file.name for file in source.functions] == ["10_z.sql", "20_b.sql", "90_a.sql"]


@pytest.mark.parametrize("second", ["0003_gap.sql", "0001_again.sql", "2_short.sql", "0002-dash.sql"])
def test_a_migration_that_does_not_continue_the_count_is_refused(tmp_path: Path, second: str) -> None:
    write(tmp_path, "migrations/0001_a.sql", f"migrations/{second}")
    with pytest.raises(InvalidArgument, match="without a gap"):
        read(tmp_path)


def test_line_ends_of_a_checkout_do_not_change_checksums(tmp_path: Path) -> None:
    files = ("migrations/0001_a.sql", "functions/10_b.sql")
    unix = read(write(tmp_path / "unix", *files, text="select 1;\nselect 2;\n"))
    windows = read(write(tmp_path / "windows", *files, text="select 1;\r\nselect 2;\r\n"))
    assert unix == windows


def test_a_renamed_function_file_is_another_fingerprint(tmp_path: Path) -> None:
    one, other = write(tmp_path / "1", "functions/10_a.sql"), write(tmp_path / "2", "functions/20_a.sql")
    assert read(one).fingerprint != read(other).fingerprint


@pytest.mark.parametrize(
    ("release", "state"),
    [("0.9.9", "behind"), ("1.2", "behind"), ("1.2.0.0", "behind"), ("1.2.1", "newer"), ("1.10", "newer")],
)
def test_other_functions_are_newer_only_if_a_later_release_brought_them(
    tmp_path: Path, release: str, state: str
) -> None:
    source = read(write(tmp_path, "migrations/0001_a.sql", "functions/10_b.sql"), "1.2.0rc1")
    checksums = {1: source.migrations[0].checksum}
    assert compare(source, Installed(checksums, "other functions", release), "holdfast").state == state
    assert compare(source, Installed(checksums, source.fingerprint, release), "holdfast").state == "current"


def test_our_own_release_has_migrations_functions_and_their_signatures() -> None:
    source = shipped()
    assert source.version >= 1
    assert source.functions
    assert any(signature.startswith("view jobs_with_status: ") for signature in source.signatures)
