"""Jobs in children: what goes in, what comes out, and on how many of them."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from holdfast.domain.job import JsonValue
from holdfast.errors import InvalidArgument
from holdfast.worker.children import ChildPool, Died, PoolClosed, Raised, Returned
from tests.worker.children.conftest import APP, Hand, Open, ended, request

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("task", ["echo", "echo_async"])
async def test_a_payload_comes_back_equal(hand: Hand, task: str) -> None:
    payload: dict[str, JsonValue] = {
        "args": [1, 2.5, None, True],
        "kwargs": {"name": "Zoë 🐘", "deep": [[[]]]},
    }
    assert await hand.run(task, payload) == Returned(payload)


async def test_a_handler_knows_its_job_and_stands_where_the_worker_stands(hand: Hand) -> None:
    reply = await hand.run("facts", job_id="J1", attempt=3, deadline_s=2.5, meta={"queue": "mail"})
    assert reply == Returned(
        {
            "job_id": "J1",
            "task": "facts",
            "attempt": 3,
            "deadline_s": 2.5,
            "meta": {"queue": "mail"},
            "directory": os.getcwd(),
            "path": sys.path,
            "thread": True,
            "session": True,
        }
    )


async def test_eight_jobs_run_on_three_children_three_at_a_time(open_pool: Open, tmp_path: Path) -> None:
    hand = open_pool(size=3)
    first = [hand.run("meet", {"place": str(tmp_path), "jobs": 3}, job_id=f"J{n}") for n in range(3)]
    more = [hand.run("who") for _ in range(5)]
    replies = await asyncio.gather(*first, *more)
    pids = [reply.result for reply in replies if isinstance(reply, Returned)]
    assert len(pids) == 8
    assert len(set(pids[:3])) == 3
    assert set(pids[3:]) <= set(pids[:3])
    assert (hand.pool.busy, hand.pool.idle) == (0, 3)


async def test_no_more_children_are_started_than_are_needed(open_pool: Open) -> None:
    hand = open_pool(size=3)
    assert len({str(await hand.run("who")) for _ in range(4)}) == 1
    assert (hand.pool.busy, hand.pool.idle) == (0, 1)


async def test_a_busy_child_is_counted_as_busy(hand: Hand) -> None:
    job_id, running = await hand.begin("sleep")
    assert (hand.pool.busy, hand.pool.idle) == (1, 0)
    hand.pool.stop_job(job_id, "enough")
    await ended(running)
    assert (hand.pool.busy, hand.pool.idle) == (0, 0)


@pytest.mark.parametrize("task", ["echo", "echo_async"])
async def test_large_payloads_and_results_pass_each_other(open_pool: Open, task: str) -> None:
    hand = open_pool(size=2)
    large = {"text": "ä" * 1_000_000, "list": ["x" * 1000] * 1000}
    replies = await asyncio.gather(*(hand.run(task, large) for _ in range(4)))
    assert replies == [Returned(large)] * 4


async def test_a_payload_that_json_cannot_say_is_refused_before_a_child_gets_it(hand: Hand) -> None:
    with pytest.raises(TypeError, match="set"):
        await hand.run("echo", {1, 2})
    assert await hand.run("echo", 1) == Returned(1)


async def test_what_waits_for_a_child_can_be_stopped_and_never_runs(hand: Hand) -> None:
    first_id, first = await hand.begin("sleep")
    second = request("who")
    waiting = asyncio.create_task(hand.pool.run(second))
    third = asyncio.create_task(hand.pool.run(request("echo", 3)))
    await asyncio.sleep(0)
    hand.pool.stop_job(second.job_id, "changed our minds")
    assert await ended(waiting) == Died("stopped before it began", "changed our minds", ran=False)
    hand.pool.stop_job(first_id, "enough")
    assert isinstance(await ended(first), Raised)
    assert await ended(third) == Returned(3)


async def test_a_closed_pool_takes_no_jobs(hand: Hand) -> None:
    await hand.pool.close(5)
    with pytest.raises(PoolClosed, match="job-"):
        await hand.run("echo")


async def test_a_pool_of_no_children_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="at least 1"):
        ChildPool(size=0, target=APP)
