"""The guide for workers in any language: its session does what it says, its tables name all there is."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import get_args

import pytest

from holdfast.web.remote.bodies import OpenBody, OutcomeName
from tests.web.conftest import Serve
from tests.web.streams.processes import ROOT

GUIDE = (ROOT / "docs" / "guides" / "workers-in-any-language.md").read_text(encoding="utf-8")


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("bash")), reason="the session needs curl and bash"
)
def test_the_session_prints_what_the_guide_says(serve: Serve) -> None:
    session, printed = re.findall(r"^```(?:sh)?\n(.*?)^```$", GUIDE, re.M | re.S)[:2]
    done = subprocess.run(
        ["bash", "-c", session],
        env={"HOLDFAST_URL": serve().address, "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    pattern = re.escape(printed.strip()).replace("…", ".*")
    assert re.fullmatch(pattern, done.stdout.strip()), done.stdout


@pytest.mark.parametrize("what", [*OpenBody.model_fields, *get_args(OutcomeName)])
def test_the_guide_names_everything_that_can_be_said(what: str) -> None:
    assert f"`{what}`" in GUIDE


@pytest.mark.parametrize("name", ["worker.py", "worker.mjs"])
def test_an_example_has_sixty_lines_at_most(name: str) -> None:
    assert len((ROOT / "examples" / name).read_text(encoding="utf-8").splitlines()) <= 60
