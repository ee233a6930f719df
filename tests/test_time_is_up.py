"""A test that hangs must not take the whole run with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.conftest import GIVE_UP_S

HANGING = """
import asyncio
import pytest

@pytest.fixture
async def opened():
    yield
    print("cleaned up")

@pytest.mark.anyio
async def test_that_never_ends(opened):
    await asyncio.Event().wait()
"""


def test_a_coroutine_that_never_ends_fails_where_it_waits_and_its_fixtures_clean_up(tmp_path: Path) -> None:
    """Without our hook: time is up, the test has failed, and its fixture waits for its coroutine for ever."""
    hanging = tmp_path / "test_hanging.py"
    hanging.write_text(HANGING)
    root = Path(__file__).parent.parent

    run = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-s"),
            *(f"--timeout={GIVE_UP_S + 0.5}", f"--rootdir={root}", f"--config-file={root}/pyproject.toml"),
            str(hanging),
        ],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=GIVE_UP_S * 3,
        check=False,
    )

    assert run.returncode == 1, run.stdout + run.stderr
    assert "cleaned up" in run.stdout
    assert "await asyncio.Event().wait()" in run.stdout
    assert "TimeoutError" in run.stdout
