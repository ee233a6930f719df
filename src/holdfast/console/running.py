"""Going through steps on the connections of an app."""

from __future__ import annotations

from typing import TypeVar

from holdfast.app import Holdfast
from holdfast.store.steps import Steps, run_awaiting, run_blocking

R = TypeVar("R")


def run(app: Holdfast, steps: Steps[R]) -> R:
    """Go through the steps, blocking."""
    return run_blocking(app.stores.blocking(), steps)


async def arun(app: Holdfast, steps: Steps[R]) -> R:
    """Go through the steps, for asyncio."""
    return await run_awaiting(await app.stores.asynchronous(), steps)
