"""A worker is seen though it holds no job, and whether it stopped or was lost can be told apart."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast
from holdfast.console import arun
from holdfast.console.upkeep import keep_up
from holdfast.console.views import Workers, workers
from holdfast.queue import beats, keeper
from holdfast.store import Store
from tests.clock import Clock
from tests.queue.proxy import proxied
from tests.worker.hands import at_work, drained, until
from tests.worker.processes import WorkerProcess, eventually

pytestmark = pytest.mark.anyio


def beat_of(conn: psycopg.Connection[Any]) -> tuple[Any, ...] | None:
    return conn.execute("select seen_at, stopped_at from holdfast.workers").fetchone()


async def test_an_idle_worker_is_seen_from_its_start_to_its_stop(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    async with at_work(hf, {"default": 3, "mail": 2}) as worker:
        await until(lambda: beat_of(conn))
        seen: Workers = await arun(hf, workers())
        (found,) = seen.workers
        assert (found.worker_id, found.status, found.jobs) == (worker.worker_id, "idle", 0)
        assert (set(found.queues), found.capacity, found.pid) == ({"default", "mail"}, 5, os.getpid())
    seen = await arun(hf, workers())
    assert seen.workers == ()
    beat = beat_of(conn)
    assert beat is not None
    assert beat[1] is not None


async def test_a_worker_says_again_and_again_that_it_is_there(
    hf: Holdfast, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "EVERY_S", 0.3)
    async with at_work(hf):
        first = await until(lambda: beat_of(conn))
        await until(lambda: beat_of(conn) != first)
        second = beat_of(conn)
        await until(lambda: beat_of(conn) != second)


async def test_a_worker_that_was_killed_is_lost_after_half_a_minute(
    hf: Holdfast, database: str, conn: psycopg.Connection[Any], clock: Clock
) -> None:
    process = WorkerProcess(database, {"default": 1})
    try:
        process.wait_until_ready()
        eventually(lambda: beat_of(conn))
        process.signal(signal.SIGKILL)
    finally:
        process.close()
    clock.advance(beats.EVERY_S * 3 + 1)
    seen: Workers = await arun(hf, workers())
    assert [worker.status for worker in seen.workers] == ["lost"]


async def test_a_worker_does_the_upkeep(
    hf: Holdfast, conn: psycopg.Connection[Any], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    @hf.task(name="noop")
    async def noop() -> None: ...

    monkeypatch.setattr(keeper, "EVERY_S", 0.3)
    completed = "select from holdfast.history where queue = 'default' and completed = 1"
    async with at_work(hf) as worker:
        await noop.aenqueue()
        await drained(worker)
        clock.advance(10)
        await until(lambda: conn.execute(completed).fetchone() is not None)


async def test_an_upkeep_that_fails_does_not_keep_the_worker_from_its_leases(
    hf: Holdfast, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    conn.execute("drop function holdfast.upkeep")
    monkeypatch.setattr(keeper, "EVERY_S", 0.2)
    async with at_work(hf, lease=30):
        for _ in range(3):
            before = await until(lambda: beat_of(conn))
            await until(lambda: beat_of(conn) != before)  # noqa: B023


async def test_the_upkeep_of_a_program_outlives_a_lost_connection(
    hf: Holdfast, database: str, conn: psycopg.Connection[Any], clock: Clock
) -> None:
    progress = "select rolled_to from holdfast.upkeep_progress"
    with proxied(database) as proxy:
        store = Store(proxy.dsn)
        keeping = asyncio.create_task(keep_up(store, 0.05))
        for _ in range(3):
            before = conn.execute(progress).fetchone()
            clock.advance(30)
            await until(lambda: conn.execute(progress).fetchone() != before)  # noqa: B023
            proxy.cut_all()
        assert not keeping.done()
        keeping.cancel()
        await asyncio.wait([keeping])
        await store.close()
