"""What the routes work with: the database of the server, and who asks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from starlette.requests import HTTPConnection

from holdfast.app import Holdfast
from holdfast.errors import DatabaseUnavailable
from holdfast.store import Call, Store
from holdfast.store.steps import Pause, Steps, run_awaiting
from holdfast.web.settings import WebSettings

R = TypeVar("R")

READ_S: Final = 2.0
"""How long a statement of a page may take: people look again, and the database has other things to do."""


class Backend:
    """The connections of one server; opened at first use, so that it starts before its database does."""

    def __init__(self, settings: WebSettings) -> None:
        self.settings = settings
        self.app = Holdfast(settings.dsn, schema=settings.schema)
        self._opening: asyncio.Task[Store] | None = None

    async def read(self, steps: Steps[R]) -> R:
        """Go through steps that only look, each within the time a page has."""
        return await self.act(within(READ_S, steps))

    async def act(self, steps: Steps[R]) -> R:
        """Go through steps that do something, each within the usual deadline or its own."""
        return await run_awaiting(await self.store(), steps)

    async def store(self) -> Store:
        """The connections; raise DatabaseUnavailable if the database cannot be reached in time.

        Whoever comes while it is being reached waits for the same attempt.
        """
        if self._opening is None or (self._opening.done() and _failed(self._opening)):
            self._opening = asyncio.create_task(self.app.stores.asynchronous())
        try:
            return await asyncio.wait_for(asyncio.shield(self._opening), READ_S)
        except TimeoutError:
            raise DatabaseUnavailable("the database has not been reached yet") from None

    async def close(self) -> None:
        """Close the connections."""
        if self._opening is not None and not self._opening.done():
            self._opening.cancel()
        await self.app.aclose()


def backend(connection: HTTPConnection) -> Backend:
    """The backend of the server that got this request."""
    return cast("Backend", connection.app.state.backend)


def within(seconds: float, steps: Steps[R]) -> Steps[R]:
    """The same steps; no call takes longer than this, unless it says so itself."""
    try:
        step = next(steps)
        while True:
            try:
                answer = yield _hurried(step, seconds)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as done:
        result: R = done.value
        return result
    finally:
        steps.close()


def _hurried(step: Call[Any] | Pause, seconds: float) -> Call[Any] | Pause:
    if isinstance(step, Pause) or step.timeout_s is not None:
        return step
    return replace(step, timeout_s=seconds)


def _failed(task: asyncio.Task[Store]) -> bool:
    return task.cancelled() or task.exception() is not None
