"""What counts as a saved source."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.dev.starter import TEXT, write
from holdfast.dev.watching import Sources


def test_a_source_that_was_saved_made_or_removed_is_told_once(tmp_path: Path) -> None:
    kept, gone = tmp_path / "shop.py", tmp_path / "deep/old.py"
    gone.parent.mkdir()
    kept.write_text("1")
    gone.write_text("1")
    sources = Sources(tmp_path)
    assert sources.changed() == []
    kept.write_text("12")
    gone.unlink()
    (tmp_path / "new.py").write_text("")
    assert sources.changed() == [Path("deep/old.py"), Path("new.py"), Path("shop.py")]
    assert sources.changed() == []


def test_a_file_saved_with_the_same_length_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text("a")
    sources = Sources(tmp_path)
    os.utime(file, ns=(1, 1))
    assert sources.changed() == [Path("shop.py")]


def test_what_is_not_the_users_own_source_does_not_count(tmp_path: Path) -> None:
    sources = Sources(tmp_path)
    for folder in (".venv/lib", "venv", "node_modules", "__pycache__", ".git"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "some.py").write_text("")
    (tmp_path / "notes.txt").write_text("")
    assert sources.changed() == []


def test_the_starter_never_writes_over_a_file(tmp_path: Path) -> None:
    assert write(tmp_path).read_text() == TEXT
    (tmp_path / "tasks.py").write_text("mine")
    try:
        write(tmp_path)
    except FileExistsError:
        assert (tmp_path / "tasks.py").read_text() == "mine"
    else:
        raise AssertionError("it was written over")
