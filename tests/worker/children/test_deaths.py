"""A child that dies takes its own job with it, says how, and nothing else comes to harm."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from holdfast.worker.children import Died, Returned
from holdfast.worker.children.spawning import describe_exit
from tests.worker.children.conftest import Hand, Open, ended, is_alive, is_running, request, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("task", "payload", "description"),
    [
        ("exit_now", 3, "exited with code 3"),
        ("exit_now", 0, "exited with code 0"),
        ("segfault", None, "killed by SIGSEGV"),
        ("overflow_stack", None, "killed by SIGSEGV"),
        ("die", "SIGKILL", "killed by SIGKILL (not by its worker: out of memory?)"),
        ("die", "SIGABRT", "killed by SIGABRT"),
    ],
)
async def test_a_death_is_told_and_the_next_job_runs(
    hand: Hand, task: str, payload: object, description: str
) -> None:
    if task == "overflow_stack" and sys.version_info >= (3, 12):
        pytest.skip("this Python notices the end of the stack by itself")
    assert await hand.run(task, payload) == Died(description)
    assert await hand.run("echo", "alive") == Returned("alive")


async def test_a_death_is_told_where_the_system_lets_nobody_look_first(
    open_pool: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some systems have no way to wait for a process without collecting it."""
    monkeypatch.delattr(os, "waitid")
    hand = open_pool()
    assert await hand.run("exit_now", 3) == Died("exited with code 3")
    assert await hand.run("echo", "alive") == Returned("alive")
    await hand.pool.close(5)


async def test_a_death_is_told_even_if_somebody_else_collects_the_dead(hand: Hand) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        reply = await hand.run("die", "SIGABRT")
        assert isinstance(reply, Died)  # how it ended is lost
    finally:
        signal.signal(signal.SIGCHLD, before)


async def test_a_death_leaves_the_jobs_of_other_children_alone(open_pool: Open, tmp_path: Path) -> None:
    hand = open_pool(size=2)
    (tmp_path / "in advance").touch()
    other = asyncio.create_task(
        hand.pool.run(meeting := request("meet", {"place": str(tmp_path), "jobs": 3}))
    )
    await hand.messages.wait_for(meeting.job_id, "started")
    for _ in range(3):
        assert await hand.run("exit_now", 1) == Died("exited with code 1")
    (tmp_path / "at last").touch()
    assert isinstance(await ended(other), Returned)


async def test_a_child_killed_from_outside_in_mid_job_fails_that_job(hand: Hand) -> None:
    pid = await _pid(hand)
    _, running = await hand.begin("sleep")
    os.kill(pid, signal.SIGKILL)
    reply = await ended(running)
    assert isinstance(reply, Died)
    assert reply.description.startswith("killed by SIGKILL")
    assert reply.ran
    assert not is_alive(pid)


async def test_a_job_given_to_a_child_that_died_idle_runs_in_another(hand: Hand) -> None:
    pid = await _pid(hand)
    os.kill(pid, signal.SIGKILL)
    # At once: the loop has had no time to notice.
    reply = await hand.run("who")
    assert isinstance(reply, Returned)
    assert reply.result != pid


async def test_an_answer_counts_even_if_the_child_died_before_it_was_read(hand: Hand) -> None:
    _, running = await hand.begin("answer_and_die")
    hand.pool.announce_shutdown()
    time.sleep(0.5)  # noqa: ASYNC251 - while the loop sleeps, nobody reads
    assert await ended(running) == Returned("answered")


async def test_an_idle_child_that_dies_is_not_counted(hand: Hand) -> None:
    pid = await _pid(hand)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: hand.pool.idle == 0)
    assert not is_alive(pid)


@pytest.mark.parametrize(
    "garbage",
    [
        "hello, this is not for you\n",
        "\x00\x00\x00\x05hello",
        "\x00\x00\x00\x02[]",
        '\x00\x00\x00\x0e{"op":"dance"}',
        '\x00\x00\x00\x11{"op":"returned"}',
        "\xff" * 100_000,
    ],
)
async def test_garbage_on_the_pipe_is_the_end_of_the_child(hand: Hand, garbage: str) -> None:
    pid = await _pid(hand)
    reply = await hand.run("write_garbage", garbage)
    assert isinstance(reply, Died)
    assert reply.description.startswith("wrote ")
    await until(lambda: not is_alive(pid))
    assert await hand.run("echo", 1) == Returned(1)


async def test_a_child_that_closes_its_pipe_is_ended(hand: Hand) -> None:
    pid = await _pid(hand)
    assert await hand.run("close_pipe") == Died("closed its pipe without an answer")
    assert not is_alive(pid)


async def test_programs_that_a_handler_started_die_with_a_crashed_child(hand: Hand) -> None:
    job = request("start_a_program")
    running = asyncio.create_task(hand.pool.run(job))
    program = int(str((await hand.messages.wait_for(job.job_id))["done"]))
    assert await ended(running) == Died("exited with code 1")
    await until(lambda: not is_running(program))


async def test_programs_that_a_handler_started_die_with_a_killed_child(open_pool: Open) -> None:
    hand = open_pool(kill_after_s=0.0)
    job = request("start_a_program", "wait")
    running = asyncio.create_task(hand.pool.run(job))
    program = int(str((await hand.messages.wait_for(job.job_id))["done"]))
    hand.pool.stop_job(job.job_id, "timed out")
    await ended(running)
    await until(lambda: not is_running(program))


async def test_a_death_is_noticed_even_if_a_fork_of_the_child_lives_on(hand: Hand) -> None:
    job = request("fork_and_die")
    running = asyncio.create_task(hand.pool.run(job))
    fork = int(str((await hand.messages.wait_for(job.job_id))["done"]))
    try:
        assert isinstance(await ended(running), Died)
    finally:
        os.kill(fork, signal.SIGTERM)  # which our children ignore and their forks must not
    await until(lambda: not is_running(fork))


async def test_a_handler_that_forks_answers_once_and_its_copy_ends(hand: Hand) -> None:
    assert await hand.run("fork", job_id="J1") == Returned(None)
    assert hand.messages.all == [("J1", {"type": "started"})]
    assert await hand.run("echo", 1) == Returned(1)


def test_an_exit_is_put_into_words() -> None:
    assert describe_exit(3, by_us=False) == "exited with code 3"
    assert describe_exit(-signal.SIGTERM, by_us=False) == "killed by SIGTERM"
    assert describe_exit(-signal.SIGKILL, by_us=True) == "killed by SIGKILL"
    assert describe_exit(-120, by_us=False) == "killed by signal 120"


async def _pid(hand: Hand) -> int:
    reply = await hand.run("who")
    assert isinstance(reply, Returned)
    return int(str(reply.result))
