"""Type checkers accept good calls, see the types they have, and reject every planted mistake."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GOOD = HERE / "good.py"
MISTAKES = HERE / "mistakes.py.txt"

Check = Callable[[Path], set[int]]


def by_mypy(file: Path) -> set[int]:
    """The lines mypy complains about."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        str(file),
    ]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache" / "typing-tests"), "--config-file", ""]
    run = subprocess.run(
        [*command, *cache], cwd=ROOT, capture_output=True, text=True, env=_environment(), check=False
    )
    assert run.returncode in (0, 1), run.stdout + run.stderr
    lines = [line.split(":") for line in run.stdout.splitlines() if ": error:" in line]
    assert all(Path(parts[0]).name == file.name for parts in lines), run.stdout
    return {int(parts[1]) for parts in lines}


def by_pyright(file: Path) -> set[int]:
    """The lines pyright complains about."""
    run = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(run.stdout)["generalDiagnostics"]
    return {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "MYPYPATH": str(ROOT / "src")}


def planted() -> set[int]:
    lines = MISTAKES.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if "# E " in line}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("check", [by_mypy, by_pyright])
def test_good_calls_are_accepted_with_the_types_they_have(check: Check) -> None:
    assert check(GOOD) == set()


@pytest.mark.timeout(400)
@pytest.mark.parametrize("check", [by_mypy, by_pyright])
def test_every_planted_mistake_is_found_where_it_is_and_nowhere_else(check: Check, tmp_path: Path) -> None:
    file = tmp_path / "mistakes.py"
    file.write_text(MISTAKES.read_text(encoding="utf-8"), encoding="utf-8")
    assert check(file) == planted()
