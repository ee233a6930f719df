"""Start children: at once while that works; one at a time and ever later while it does not."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from holdfast.worker.children.process import ChildProcess
from holdfast.worker.children.spawning import Plan
from holdfast.worker.children.values import Died, Raised

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0


class Starter:
    """Makes children that are ready. An app that cannot be imported costs one try per pause, no more."""

    def __init__(self, plan: Plan, start_within_s: float) -> None:
        self.children: set[ChildProcess] = set()
        """All that are not gone yet."""
        self._plan = plan
        self._start_within_s = start_within_s
        self._pause_s = 0.0
        self._not_before = 0.0
        self._one_at_a_time = asyncio.Lock()

    async def start(self) -> ChildProcess | Raised | Died:
        """A child that is ready, or why there is none."""
        if not self._pause_s:
            return await self._try()
        async with self._one_at_a_time:
            await asyncio.sleep(max(0.0, self._not_before - time.monotonic()) if self._pause_s else 0.0)
            return await self._try()

    async def _try(self) -> ChildProcess | Raised | Died:
        try:
            child = ChildProcess(self._plan)
        except OSError as error:
            return self._failed(Died(f"could not be started: {error}", ran=False))
        self.children.add(child)
        child.gone.add_done_callback(lambda _: self.children.discard(child))
        try:
            done, _ = await asyncio.wait([child.ready], timeout=self._start_within_s)
        except asyncio.CancelledError:
            child.kill()
            raise
        if not done:
            child.kill()
            return self._failed(
                Died(f"killed, because it was not ready after {self._start_within_s:g} s", ran=False)
            )
        trouble = child.ready.result()
        if trouble is None:
            self._pause_s = 0.0
            return child
        child.retire()
        return self._failed(trouble)

    def _failed(self, trouble: Raised | Died) -> Raised | Died:
        if time.monotonic() >= self._not_before:  # several that fail together count as one
            self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            self._not_before = time.monotonic() + self._pause_s
        return trouble
