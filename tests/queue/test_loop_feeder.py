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
