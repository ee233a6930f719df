"""A child that cannot start says why, and is not tried over and over."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.worker.children import ChildPool, Died, Raised, Returned, process
from holdfast.worker.children.spawning import Plan, spawn
from holdfast.worker.children.starting import FIRST_PAUSE_S, LONGEST_PAUSE_S, Starter
from tests.worker.children.conftest import PATIENCE_S, Open, request

BOOT = "from holdfast.worker.children.child import main; main()"

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("target", "kind", "message"),
    [
        (
            "shop.nowhere:hf",
            "ModuleNotFoundError",
            'cannot import "shop.nowhere": ModuleNotFoundError: No module',
        ),
        (
            "tests.worker.children.broken:app",
            "RuntimeError",
            'cannot import "tests.worker.children.broken": RuntimeError: no settings for this shop',
        ),
        ("tests.worker.children.app:hf", "AttributeError", '"tests.worker.children.app" has no "hf"'),
        ("tests.worker.children.app:HOARD", "Untargetable", "is no Holdfast app: list has no execute()"),
        ("tests.worker.children.app", "Untargetable", "must look like package.module:attribute"),
    ],
)
async def test_an_app_that_cannot_be_found_is_named_with_the_reason(
    open_pool: Open, target: str, kind: str, message: str
) -> None:
    reply = await open_pool(target=target).run("echo")
    assert isinstance(reply, Raised)
    assert not reply.ran
    assert reply.kind.endswith(kind)
    assert message in reply.message


async def test_the_traceback_of_a_failed_import_shows_the_line(open_pool: Open) -> None:
    reply = await open_pool(target="tests.worker.children.broken:app").run("echo")
    assert isinstance(reply, Raised)
    assert 'raise RuntimeError("no settings for this shop")' in reply.traceback


async def test_a_broken_app_does_not_make_the_pool_spin(open_pool: Open, tmp_path: Path) -> None:
    """Five jobs on two children: the first two fail together, the others one by one, after pauses."""
    tries = _app(tmp_path, "open(__file__ + '.tries', 'a').write('x')\nraise OSError('down')")
    hand = open_pool(size=2, target="flaky_app:app")
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE_S):
        replies = await asyncio.gather(*(hand.pool.run(request("echo")) for _ in range(4)))
    assert all(isinstance(reply, Raised) and not reply.ran for reply in replies)
    assert time.monotonic() - began >= FIRST_PAUSE_S + 2 * FIRST_PAUSE_S
    assert tries.read_text() == "xxxx"


async def test_an_app_that_was_mended_is_found_and_all_is_fast_again(open_pool: Open, tmp_path: Path) -> None:
    _app(tmp_path, "raise OSError('down')")
    hand = open_pool(size=2, target="flaky_app:app")
    assert isinstance(await hand.run("echo"), Raised)
    _app(tmp_path, "from tests.worker.children.app import app")
    assert await hand.run("echo", 1) == Returned(1)
    assert hand.pool._starter._pause_s == 0


async def test_a_job_that_waits_for_a_broken_app_can_be_stopped(open_pool: Open) -> None:
    hand = open_pool(target="shop.nowhere:hf")
    await hand.run("echo")
    hand.pool._starter._not_before = time.monotonic() + 1000
    job = request("echo")
    running = asyncio.create_task(hand.pool.run(job))
    await asyncio.sleep(0)
    hand.pool.stop_job(job.job_id, "cancelled")
    async with asyncio.timeout(PATIENCE_S):
        assert await running == Died("stopped before it began", "cancelled", ran=False)


async def test_pauses_grow_up_to_a_limit() -> None:
    starter = Starter(Plan("x:y", os.getcwd(), 1.0, logging.INFO, None), 1.0)
    pauses: list[float] = []
    for _ in range(9):
        starter._not_before = 0.0
        starter._failed(Died("broken", ran=False))
        pauses.append(starter._pause_s)
    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S


async def test_a_child_that_dies_while_it_starts_is_told_as_that(open_pool: Open, tmp_path: Path) -> None:
    _app(tmp_path, "import os; os._exit(9)")
    reply = await open_pool(target="flaky_app:app").run("echo")
    assert reply == Died("exited with code 9 while it started", ran=False)


async def test_a_child_that_never_gets_ready_is_killed(open_pool: Open, tmp_path: Path) -> None:
    _app(tmp_path, "import time; time.sleep(600)")
    reply = await open_pool(target="flaky_app:app", start_within_s=0.3).run("echo")
    assert reply == Died("killed, because it was not ready after 0.3 s", ran=False)


async def test_a_python_that_is_not_there_is_named(open_pool: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    hand = open_pool()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    reply = await hand.run("echo")
    assert isinstance(reply, Died)
    assert not reply.ran
    assert "/nowhere/python" in reply.description


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_that_everybody_gets_does_not_end_a_child_that_starts(
    open_pool: Open, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """Ctrl-C at a terminal, or a service manager that stops all processes of a worker."""

    def spawn_and_signal(plan: Plan, descriptor: int) -> subprocess.Popen[bytes]:
        child = spawn(plan, descriptor)
        child.send_signal(number)
        return child

    monkeypatch.setattr(process, "spawn", spawn_and_signal)
    reply = await open_pool().run("facts")
    assert isinstance(reply, Returned)


async def test_children_stand_where_the_pool_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_pool: Open
) -> None:
    hand = open_pool()
    here = os.getcwd()
    monkeypatch.chdir(tmp_path)
    reply = await hand.run("facts")
    assert isinstance(reply, Returned)
    assert isinstance(reply.result, dict)
    assert reply.result["directory"] == here


def test_a_child_whose_parent_is_gone_already_ends_at_once() -> None:
    """The parent died before the child could ask to die with it: nobody will tell."""
    not_our_pid, no_pipe = "1", "99"
    done = subprocess.run(
        [sys.executable, "-c", BOOT, no_pipe, not_our_pid],
        timeout=PATIENCE_S,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


async def test_no_child_is_started_before_there_is_a_job() -> None:
    pool = ChildPool(size=3, target="shop.nowhere:hf")
    assert (pool.busy, pool.idle, len(pool._starter.children)) == (0, 0, 0)
    await pool.close(0)


@pytest.fixture(autouse=True)
def _importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")


def _app(directory: Path, source: str) -> Path:
    (directory / "flaky_app.py").write_text(source + "\n")
    return directory / "flaky_app.py.tries"
