"""How far handlers have come, written down: at most once a second for each, and the last word always."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.store import Store
from holdfast.worker.context import RunContext

logger: Final = logging.getLogger("holdfast.worker")

WRITE_S: Final = 2.0
"""How long one word may take: it delays the end of its job, and nothing depends on it."""


class ProgressWriter:
    """Belongs to the event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._writes: dict[RunContext, asyncio.Task[None]] = {}

    def plan(self, context: RunContext) -> None:
        """A handler has said something: write it when it may be written."""
        asyncio.get_running_loop().call_later(context.wait_s(), self._begin, context)

    async def finish(self, context: RunContext) -> None:
        """Write the last word, after all others."""
        context.is_over = True
        under_way = self._writes.get(context)
        if under_way is not None:
            await under_way
        await self._write(context)

    def _begin(self, context: RunContext) -> None:
        if context.is_over or context.latest is None:
            return
        if context in self._writes:
            self.plan(context)  # the one before is slow; two at once might overtake each other
            return
        write = self._writes[context] = asyncio.create_task(self._write(context))
        write.add_done_callback(lambda _: self._writes.pop(context, None))

    async def _write(self, context: RunContext) -> None:
        report = context.take()
        if report is None:
            return
        try:
            await self._store.report_progress(
                context.job_id, context.job.lease_id, *report, timeout_s=WRITE_S
            )
        except HoldfastError as error:
            logger.debug("progress of job %s is not written: %s", context.job_id, error)
