"""How soon something idle begins a job that somebody enqueues: the whole way, its commits included."""

from __future__ import annotations

import asyncio
import time

from holdfast.app import Holdfast
from holdfast.bench import tasks
from holdfast.bench.arena import Arena

CONCURRENCY = 10
QUIET_S = 0.5
"""Before the first job, so that the worker has gone to sleep."""
PAUSE_S = 0.02


def latencies_ms(arena: Arena, jobs: int) -> list[float]:
    """From the call of aenqueue to the handler's first line, one job after the other, nothing else to do."""
    tasks.clear(arena.conn)
    with Holdfast(arena.database) as app:
        return asyncio.run(_one_by_one(app, jobs))


async def _one_by_one(app: Holdfast, jobs: int) -> list[float]:
    began = asyncio.Event()
    began_s = 0.0

    def note(_: int) -> None:
        nonlocal began_s
        began_s = time.perf_counter()
        began.set()

    task = tasks.define_noop(app, note)
    found: list[float] = []
    async with app.worker({"default": CONCURRENCY}) as worker:
        await worker.drain()
        await asyncio.sleep(QUIET_S)
        for number in range(jobs):
            began.clear()
            asked_s = time.perf_counter()
            enqueued = asyncio.create_task(task.aenqueue(number))
            await began.wait()
            found.append((began_s - asked_s) * 1e3)
            await enqueued
            await asyncio.sleep(PAUSE_S)
        await worker.drain()
    await app.aclose()
    return found
