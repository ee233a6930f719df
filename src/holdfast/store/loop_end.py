"""An event loop that ends must end: the tasks of a connection pool may sleep through their cancellation.

A loop cancels all its tasks once and waits for them, for ever if need be. The pool's workers take a
cancellation in the middle of something for a failure of that, and go on; its scheduler waits with
`asyncio.wait_for`, which before Python 3.12 drops a cancellation that comes at the moment of a wake-up.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

POOL_NAME: Final = "holdfast"
"""What the pools are called, and their tasks after them."""

_AGAIN_S: Final = 0.02


class LoopEnd:
    """Ends the tasks of a pool with their loop, if that comes before the pool is closed."""

    def __init__(self) -> None:
        self._pool_is_closed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Begin, on the loop of the pool; once is enough."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._see_out(), name="holdfast loop end")

    async def unwatch(self) -> None:
        """The pool is closed, so its tasks have ended or are about to."""
        if self._watching is not None and not self._watching.done():
            self._pool_is_closed.set()
            await asyncio.wait([self._watching])

    async def _see_out(self) -> None:
        try:
            await self._pool_is_closed.wait()
        except asyncio.CancelledError:
            # Nobody but the loop itself knows this task, so it is the loop that ends.
            while left := [task for task in asyncio.all_tasks() if _is_of_pool(task)]:
                for task in left:
                    task.cancel()
                await asyncio.sleep(_AGAIN_S)
            raise


def _is_of_pool(task: asyncio.Task[Any]) -> bool:
    return task.get_name().startswith((f"{POOL_NAME}-worker", f"{POOL_NAME}-scheduler"))
