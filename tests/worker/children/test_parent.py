"""Children do not outlive their worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.worker.children.conftest import is_running

ROOT = Path(__file__).parents[3]
SOON_S = 2.0

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")


@pytest.mark.parametrize(
    "tasks",
    [
        # By the end of the pipe, as on a system whose kernel makes no promises:
        ["forget_parent", "sleep"],
        ["forget_parent", "sleep_stubbornly"],
        ["forget_parent", "sleep_async"],
        ["forget_parent", "leave_a_thread"],
        # By the kernel, for a handler that lets no thread run that could see the end of the pipe:
        pytest.param(["sleep_without_letting_go"], marks=on_linux),
        pytest.param(["leave_a_thread"], marks=on_linux),
    ],
    ids=" ".join,
)
def test_a_child_is_gone_soon_after_its_worker_was_killed(tasks: list[str]) -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "tests.worker.children.parent", *tasks],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    with worker:
        try:
            assert worker.stdout is not None
            child = int(worker.stdout.readline())
            assert is_running(child)
        finally:
            worker.kill()
    began = time.monotonic()
    try:
        while is_running(child) and time.monotonic() - began < 10 * SOON_S:
            time.sleep(0.005)
        assert time.monotonic() - began < SOON_S
    finally:
        if is_running(child):
            os.kill(child, signal.SIGKILL)
