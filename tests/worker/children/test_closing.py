"""Closing a pool: in time, whatever the children do, and with nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.worker.children import ChildRequest, Died, Raised, Returned
from holdfast.worker.children.pool import CLOSING
from tests.worker.children.conftest import PATIENCE_S, Hand, Open, ended, is_alive, request

pytestmark = pytest.mark.anyio


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors where they are listed")
async def test_fifty_jobs_of_all_kinds_leave_nothing_behind(open_pool: Open) -> None:
    gc.collect()  # what tests before this one have left must not go meanwhile
    before, others = _possessions(), _children()
    hand = open_pool(size=3, max_jobs=4, kill_after_s=0.2)
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(hand.pool.run(job) for job in _mixture()))
        assert _possessions() != before
        await hand.pool.close(5)
    gc.collect()
    assert _possessions() == before
    assert _children() <= others


def _children() -> set[str]:
    """Every child of this process, zombies included; the server of the tests may be one."""
    lists = Path("/proc/self/task").glob("*/children")
    return {pid for each in lists for pid in each.read_text().split()}


def _mixture() -> Iterator[ChildRequest]:
    tasks = [("echo", 1), ("exit_now", 3), ("raise_kind", "KeyError"), ("echo_async", 2), ("die", "SIGKILL")]
    for number in range(50):
        task, payload = tasks[number % len(tasks)]
        yield request(task, payload)


def _possessions() -> tuple[set[str], int]:
    descriptors = {f"{name} {_target(name)}" for name in os.listdir("/proc/self/fd")}
    return {text for text in descriptors if "/proc/" not in text}, threading.active_count()


def _target(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{name}")
    except FileNotFoundError:
        return "/proc/"  # the one the listing itself used


async def test_a_stuck_child_is_killed_when_its_time_is_over(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=300.0)
    pid = await _pid(hand)
    _, running = await hand.begin("sleep_stubbornly")
    await asyncio.wait_for(hand.pool.close(0.2), PATIENCE_S)
    assert not is_alive(pid)
    assert await ended(running) == Died("killed by SIGKILL", CLOSING)


async def test_a_stopped_process_is_closed_like_any_other(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=0.1)
    pid = await _pid(hand)
    os.kill(pid, signal.SIGSTOP)
    await asyncio.wait_for(hand.pool.close(PATIENCE_S), PATIENCE_S)
    assert not is_alive(pid)


async def test_running_jobs_get_a_chance_to_clean_up(open_pool: Open, tmp_path: Path) -> None:
    hand = open_pool(kill_after_s=300.0)
    note = tmp_path / "note"
    _, running = await hand.begin("clean_up_when_stopped", str(note))
    await hand.pool.close(PATIENCE_S)
    reply = await ended(running)
    assert isinstance(reply, Raised)
    assert note.read_text() == f"{CLOSING} True"


async def test_jobs_that_still_wait_never_run(hand: Hand) -> None:
    _, first = await hand.begin("sleep")
    second = asyncio.create_task(hand.pool.run(request("echo")))
    await asyncio.sleep(0)
    await hand.pool.close(5)
    assert isinstance(await ended(first), Raised)
    assert await ended(second) == Died("stopped before it began", CLOSING, ran=False)


async def test_idle_children_end_by_themselves(open_pool: Open, capfd: pytest.CaptureFixture[str]) -> None:
    hand = open_pool(kill_after_s=300.0)
    pid = await _pid(hand)
    await asyncio.wait_for(hand.pool.close(PATIENCE_S), PATIENCE_S)
    assert not is_alive(pid)
    assert capfd.readouterr() == ("", "")


async def test_closing_twice_and_together_is_fine(hand: Hand) -> None:
    await hand.run("echo")
    await asyncio.gather(hand.pool.close(5), hand.pool.close(5))
    await hand.pool.close(0)


async def test_a_close_that_is_cancelled_kills_what_is_left(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=300.0)
    _, running = await hand.begin("sleep_stubbornly")
    closing = asyncio.create_task(hand.pool.close(300))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert await ended(running) == Died("killed by SIGKILL", CLOSING)


async def test_closing_while_children_start_leaves_none(open_pool: Open) -> None:
    hand = open_pool(size=3)
    running = [asyncio.create_task(hand.pool.run(request("echo"))) for _ in range(3)]
    await asyncio.sleep(0.01)
    began = time.monotonic()
    await hand.pool.close(5)
    assert time.monotonic() - began < 6
    for each in running:
        assert await ended(each) in (
            Returned(None),
            Died("stopped before it began", CLOSING, ran=False),
        )
    assert not hand.pool._starter.children


async def _pid(hand: Hand) -> int:
    reply = await hand.run("who")
    assert isinstance(reply, Returned)
    return int(str(reply.result))
