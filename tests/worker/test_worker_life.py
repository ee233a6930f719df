"""A worker leaves nothing behind, needs no more memory with time, and few commits for many jobs."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from time import monotonic
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast
from holdfast.domain.job import ClaimedJob
from holdfast.domain.states import JobState
from holdfast.errors import QueueClosed, SchemaMissing
from holdfast.worker.children.memory import resident_bytes
from tests.worker.hands import PATIENCE_S, at_work, drained, until

pytestmark = pytest.mark.anyio


def connections(conn: psycopg.Connection[Any]) -> int:
    row = conn.execute(
        "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    ).fetchone()
    assert row is not None
    return int(row[0])


def our_threads() -> list[str]:
    """Those of workers, and of the pools of connections, which bear our name too."""
    return sorted(thread.name for thread in threading.enumerate() if thread.name.startswith("holdfast"))


async def test_an_idle_worker_keeps_nothing_of_the_jobs_it_has_done(hf: Holdfast) -> None:
    @hf.task(name="noop")
    async def noop(text: str) -> None:
        pass

    payload = {"args": ["of this test alone"], "kwargs": {}}
    async with at_work(hf, {"default": 500}) as worker:
        await noop.aenqueue("of this test alone")
        await drained(worker)
        await hf.aenqueue_many(noop.job("of this test alone") for _ in range(2000))
        await drained(worker)

        kept = [each for each in gc.get_objects() if isinstance(each, ClaimedJob) and each.payload == payload]
        assert len(kept) == 0


@pytest.mark.timeout(300)
async def test_a_hundred_starts_and_stops_leave_no_task_thread_or_connection(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    ran: list[int] = []

    @hf.task(name="thread", resources=["key"])
    def in_thread() -> None:
        ran.append(1)

    async def cycle() -> None:
        handle = await in_thread.aenqueue()
        async with at_work(hf, {"default": 2, "other": 1}, resource_busy_delay=0.01):
            await handle.aresult(PATIENCE_S)

    await cycle()
    await until(lambda: not our_threads())
    before = (len(asyncio.all_tasks()), connections(conn), len(os.listdir("/proc/self/fd")))
    for _ in range(100):
        await cycle()
    gc.collect()

    assert len(ran) == 101
    await until(lambda: not our_threads(), f"left over: {our_threads()}")
    await until(lambda: connections(conn) <= before[1])
    assert len(asyncio.all_tasks()) <= before[0]
    assert len(os.listdir("/proc/self/fd")) <= before[2] + 2


async def test_a_worker_can_be_started_once_and_says_so(hf: Holdfast) -> None:
    worker = hf.worker()
    with pytest.raises(QueueClosed):
        await worker.drain()
    async with worker:
        await drained(worker)
        with pytest.raises(QueueClosed):
            await worker.start()
    with pytest.raises(QueueClosed):
        await worker.start()


async def test_a_worker_refuses_a_database_without_holdfast(blank_database: str) -> None:
    hf = Holdfast(blank_database)
    with pytest.raises(SchemaMissing):
        async with hf.worker():
            pass
    await hf.aclose()
    await until(lambda: not our_threads())


async def test_a_worker_whose_installation_is_removed_ends_with_the_error_and_does_not_spin(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    entered = asyncio.Event()

    @hf.task(name="long")
    async def long() -> None:
        entered.set()
        await asyncio.sleep(PATIENCE_S * 3)

    await long.aenqueue()
    worker = hf.worker({"default": 2}, shutdown_timeout=1, poll_idle=0.1)
    run = asyncio.create_task(worker.run())
    await until(entered.is_set)
    conn.execute("drop schema holdfast cascade")
    with pytest.raises(SchemaMissing, match="holdfast migrate up"):
        async with asyncio.timeout(PATIENCE_S):
            await run
    assert not worker.settled


async def test_drain_waits_for_what_runs_and_what_waits_but_not_for_what_is_due_later(hf: Holdfast) -> None:
    ran: list[int] = []

    @hf.task(name="chain")
    async def chain(left: int) -> None:
        ran.append(left)
        await asyncio.sleep(0.01)
        if left:
            await chain.aenqueue(left - 1)

    later = await chain.using(delay=3600).aenqueue(0)
    await chain.aenqueue(20)
    async with at_work(hf, {"default": 2}) as worker:
        await drained(worker)
        assert ran == list(range(20, -1, -1))
        assert worker.running == 0

    assert await later.astate() is JobState.INITIAL_PENDING


async def test_many_jobs_share_commits_and_a_single_one_is_settled_at_once(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    def commits() -> int:
        conn.execute("select pg_stat_clear_snapshot()")
        row = conn.execute(
            "select pg_stat_get_db_xact_commit(oid) from pg_database where datname = current_database()"
        )
        found = row.fetchone()
        assert found is not None
        return int(found[0])

    @hf.task(name="noop")
    async def noop() -> None: ...

    async with at_work(hf, {"default": 100}, poll_idle=PATIENCE_S) as worker:
        await drained(worker)
        began = monotonic()
        single = await noop.aenqueue()
        await single.aresult(PATIENCE_S)
        took_s = monotonic() - began

    await hf.aenqueue_many([noop.job() for _ in range(3000)])
    before = commits()
    async with at_work(hf, {"default": 100}) as worker:
        began = monotonic()
        await drained(worker)
        seconds = monotonic() - began
    await until(lambda: connections(conn) <= 1)
    per_job = (commits() - before) / 3000

    print(
        f"a single job: {took_s * 1000:.1f} ms; "
        f"3000 jobs: {3000 / seconds:.0f}/s, {per_job:.3f} commits per job"
    )
    assert per_job < 0.2
    assert took_s < PATIENCE_S / 3


@pytest.mark.timeout(300)
async def test_memory_is_flat_over_twenty_thousand_jobs(hf: Holdfast) -> None:
    @hf.task(name="noop")
    async def noop(text: str) -> str:
        return text

    async def run(jobs: int) -> None:
        for _ in range(jobs // 1000):
            await hf.aenqueue_many([noop.job("x" * 100) for _ in range(1000)], returning=False)
        await drained(worker)
        gc.collect()

    async with at_work(hf, {"default": 50}) as worker:
        await run(5000)
        before = resident_bytes()
        await run(20_000)
        after = resident_bytes()

    print(f"memory: {before / 2**20:.1f} MiB after 5,000 jobs, {after / 2**20:.1f} MiB after 25,000")
    assert after - before < 8 * 2**20
