"""The end of a worker, step by step: wait, ask handlers to give up, hand back the rest, close."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from time import monotonic
from typing import TYPE_CHECKING, Final

from holdfast.worker.endings import Stop

if TYPE_CHECKING:
    from holdfast.worker.crew import Crew

logger: Final = logging.getLogger("holdfast.worker")

GRACE_S: Final = 1.0
"""What handlers get after they were told to give up, before their jobs are handed back."""

PROGRESS_LINE_S: Final = 5.0
"""How often a stop says what it waits for."""

KILL_S: Final = 0.1

END_S: Final = 3.4
"""From the moment handlers are told until what is left is written down: one bound for all these steps, for
what comes after them has to end within the 5 s promised as well."""


async def stop(crew: Crew, hurry: asyncio.Event) -> bool:
    """Wait for handlers, then ask them to give up, then hand back the rest; True if all was settled."""
    crew.stop_claiming()
    await _wait_for_handlers(crew, hurry)
    until = monotonic() + END_S
    for execution in crew.roster:
        execution.stop(Stop.SHUTDOWN)
    await crew.roster.wait_until_idle(GRACE_S)
    # Before their jobs are handed back: another worker may begin them at once.
    await crew.kill_children(KILL_S)
    await crew.roster.wait_until_idle(KILL_S)
    for execution in crew.roster:
        crew.report(execution, execution.give_up())
    return await crew.close(max(0.0, until - monotonic()))


async def _wait_for_handlers(crew: Crew, hurry: asyncio.Event) -> None:
    until = monotonic() + crew.settings.shutdown_timeout
    while crew.roster and not hurry.is_set() and monotonic() < until:
        logger.info(
            "stopping: %d jobs still run, for %.0f s at most",
            len(crew.roster),
            until - monotonic(),
            extra={"event": "worker.stopping", "worker_id": crew.worker_id},
        )
        await _first_of(hurry.wait(), crew.roster.wait_until_idle(min(PROGRESS_LINE_S, until - monotonic())))


async def _first_of(*awaited: Awaitable[object]) -> None:
    tasks = [asyncio.ensure_future(each) for each in awaited]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
