"""Stopping a job: SIGTERM, a chance to clean up, then SIGKILL."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from holdfast.worker.children import Died, Raised, Returned
from tests.worker.children.conftest import PATIENCE_S, Hand, Open, ended, is_alive, request, until

pytestmark = pytest.mark.anyio

LONG_S = 300.0
"""A time until SIGKILL that no test waits for: what ends before has ended by SIGTERM."""


async def test_a_sleeping_handler_is_stopped_at_once(open_pool: Open, tmp_path: Path) -> None:
    hand = open_pool(kill_after_s=LONG_S)
    note = tmp_path / "note"
    job_id, running = await hand.begin("clean_up_when_stopped", str(note))
    hand.pool.stop_job(job_id, "cancelled by Ann")
    reply = await ended(running)
    assert isinstance(reply, Raised)
    assert reply.kind == "holdfast.errors.JobCancelled"
    assert reply.control == {"kind": "JobCancelled", "delay_s": None, "reason": "cancelled by Ann"}
    assert "in sleep" in reply.traceback
    assert note.read_text() == "cancelled by Ann True"


async def test_a_handler_that_goes_to_sleep_just_when_the_signal_comes_is_stopped(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=LONG_S)
    job_id, running = await hand.begin("sleep_past_the_signal")
    hand.pool.stop_job(job_id, "cancelled")
    reply = await ended(running)
    assert isinstance(reply, Raised)
    assert reply.kind == "holdfast.errors.JobCancelled"


async def test_an_async_handler_is_cancelled_where_it_awaits(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=LONG_S)
    job_id, running = await hand.begin("sleep_async")
    hand.pool.stop_job(job_id, "timed out")
    reply = await ended(running)
    assert isinstance(reply, Raised)
    assert reply.kind == "asyncio.exceptions.CancelledError"
    assert reply.control == {"kind": "JobCancelled", "delay_s": None, "reason": "timed out"}


async def test_a_handler_that_follows_an_async_one_is_stopped_all_the_same(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=LONG_S)
    await hand.run("echo_async")
    job_id, running = await hand.begin("sleep")
    hand.pool.stop_job(job_id, "cancelled")
    assert isinstance(await ended(running), Raised)


async def test_a_handler_may_return_or_fail_when_it_is_stopped(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=LONG_S)
    job_id, running = await hand.begin("return_when_stopped")
    hand.pool.stop_job(job_id, "cancelled")
    assert await ended(running) == Returned("done anyway")
    job_id, running = await hand.begin("fail_when_stopped")
    hand.pool.stop_job(job_id, "cancelled")
    reply = await ended(running)
    assert isinstance(reply, Raised)
    assert (reply.kind, reply.message, reply.control) == ("ValueError", "could not clean up", None)


async def test_a_handler_that_ignores_sigterm_is_killed_after_the_time_it_has(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=0.3)
    job_id, running = await hand.begin("sleep_stubbornly")
    began = time.monotonic()
    hand.pool.stop_job(job_id, "timed out after 5 s")
    hand.pool.stop_job(job_id, "a second reason changes nothing")
    assert await ended(running) == Died("killed by SIGKILL", "timed out after 5 s")
    assert time.monotonic() - began >= 0.3


async def test_a_stop_never_cuts_a_message_in_two(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=LONG_S)
    for _ in range(5):
        job = request("chatter_until_stopped")
        running = asyncio.create_task(hand.pool.run(job))
        await hand.messages.wait_for(job.job_id, "log", count=20)
        # While the loop sleeps nobody reads, so the child is stuck within a frame when it is to stop.
        time.sleep(0.1)  # noqa: ASYNC251
        hand.pool.stop_job(job.job_id, "cancelled")
        time.sleep(0.1)  # noqa: ASYNC251
        reply = await ended(running)
        assert isinstance(reply, Raised), reply
        assert reply.kind == "holdfast.errors.JobCancelled"
        hand.messages.all.clear()


async def test_a_child_that_was_stopped_gets_no_other_job(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=LONG_S)
    before = await hand.run("who")
    job_id, running = await hand.begin("return_when_stopped")
    hand.pool.stop_job(job_id, "cancelled")
    await ended(running)
    assert await hand.run("who") != before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_from_elsewhere_does_not_stop_a_job(hand: Hand, number: signal.Signals) -> None:
    """Ctrl-C, or a service manager that signals every process, must not decide for the worker."""
    reply = await hand.run("who")
    assert isinstance(reply, Returned)
    job = request("wait_for_shutdown")
    running = asyncio.create_task(hand.pool.run(job))
    await hand.messages.wait_for(job.job_id)
    os.kill(int(str(reply.result)), number)
    hand.pool.announce_shutdown()
    assert await ended(running) == Returned(False)


async def test_a_stop_works_after_a_signal_from_elsewhere(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=LONG_S)
    reply = await hand.run("who")
    assert isinstance(reply, Returned)
    job_id, running = await hand.begin("sleep")
    os.kill(int(str(reply.result)), signal.SIGTERM)
    hand.pool.stop_job(job_id, "cancelled")
    assert isinstance(await ended(running), Raised)


async def test_a_shutdown_is_told_to_jobs_that_begin_after_it(hand: Hand) -> None:
    hand.pool.announce_shutdown()
    assert await hand.run("wait_for_shutdown") == Returned(False)


async def test_stopping_a_job_that_is_not_there_does_nothing(hand: Hand) -> None:
    hand.pool.stop_job("nobody", "for nothing")
    assert await hand.run("echo", 1) == Returned(1)


async def test_cancelling_the_call_stops_the_job_and_waits_for_it(open_pool: Open, tmp_path: Path) -> None:
    hand = open_pool(kill_after_s=LONG_S)
    note = tmp_path / "note"
    _, running = await hand.begin("clean_up_when_stopped", str(note))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ended(running)
    assert note.read_text() == "cancelled True"
    assert await hand.run("echo", 1) == Returned(1)


async def test_cancelling_the_call_twice_kills_the_child_at_once(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=LONG_S)
    reply = await hand.run("who")
    assert isinstance(reply, Returned)
    _, running = await hand.begin("sleep_stubbornly")
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ended(running)
    assert not is_alive(int(str(reply.result)))


async def test_cancelling_a_call_that_waits_gives_its_place_back(hand: Hand) -> None:
    job_id, first = await hand.begin("sleep")
    waiting = [asyncio.create_task(hand.pool.run(request("who"))) for _ in range(3)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting, timeout=PATIENCE_S)
    assert all(task.cancelled() for task in waiting)
    hand.pool.stop_job(job_id, "enough")
    await ended(first)
    assert await hand.run("echo", 1) == Returned(1)


@pytest.mark.parametrize("turns", range(6))
async def test_cancelling_at_any_moment_of_the_start_loses_no_place(hand: Hand, turns: int) -> None:
    running = asyncio.create_task(hand.pool.run(request("sleep")))
    for _ in range(turns):
        await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await ended(running)
    assert await hand.run("echo", 1) == Returned(1)
    assert (hand.pool.busy, hand.pool.idle) == (0, 1)


async def test_a_job_stopped_while_its_child_starts_never_runs(hand: Hand) -> None:
    job = request("sleep")
    running = asyncio.create_task(hand.pool.run(job))
    await until(lambda: bool(hand.pool._starter.children))
    hand.pool.stop_job(job.job_id, "cancelled")
    assert await ended(running) == Died("stopped before it began", "cancelled", ran=False)
    await until(lambda: not hand.pool._starter.children)
