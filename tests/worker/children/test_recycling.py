"""Children are replaced by number of jobs and by memory, and are otherwise kept."""

from __future__ import annotations

import pytest

from holdfast.worker.children import Returned
from tests.worker.children.conftest import Hand, Open, is_alive, until

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024


async def test_a_child_is_replaced_after_so_many_jobs(open_pool: Open) -> None:
    hand = open_pool(max_jobs=2)
    pids = [await _pid(hand) for _ in range(5)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]
    assert pids[0] != pids[4]
    await until(lambda: not any(map(is_alive, pids[:4])))


async def test_a_child_that_failed_counts_its_job_as_any_other(open_pool: Open) -> None:
    hand = open_pool(max_jobs=2)
    first = await _pid(hand)
    await hand.run("raise_kind", "KeyError")
    assert await _pid(hand) != first


async def test_a_child_is_replaced_when_it_has_grown_too_large(open_pool: Open) -> None:
    hand = open_pool(max_rss_bytes=200 * MIB)
    first = await _pid(hand)
    assert await hand.run("hoard", 1 * MIB) == Returned(first)
    assert await hand.run("hoard", 300 * MIB) == Returned(first)
    assert await _pid(hand) != first
    await until(lambda: not is_alive(first))


async def test_a_child_without_limits_is_kept(hand: Hand) -> None:
    assert len({await _pid(hand) for _ in range(20)}) == 1


async def _pid(hand: Hand) -> int:
    reply = await hand.run("who")
    assert isinstance(reply, Returned)
    return int(str(reply.result))
