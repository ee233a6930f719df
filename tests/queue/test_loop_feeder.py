"""A feeder on an event loop."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from holdfast.queue.loop_feeder import LoopFeeder

pytestmark = pytest.mark.anyio


async def test_a_feeder_that_was_released_lives_until_its_connection_is_closed(database: str) -> None:
    feeder: Any = LoopFeeder(database, "holdfast")

    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    feeder._store.close = never
    await asyncio.to_thread(feeder.release)
    kept = weakref.ref(feeder)
    del feeder
    gc.collect()

    assert kept() is not None
    for task in list(LoopFeeder._running):  # pyright: ignore[reportPrivateUsage]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_feeder_stopped_just_before_it_begins_to_wait_does_not_wait(database: str) -> None:
    class Overtaken(LoopFeeder):
        def _next_turn(self) -> Any:
            self._stopping = True  # as another thread does that had the lock a moment before
            return super()._next_turn()

    feeder = Overtaken(database, "holdfast")
    try:
        await asyncio.wait_for(asyncio.wrap_future(feeder._ended), 30)
    finally:
        await asyncio.to_thread(feeder.release, 0.1)
