"""What the routes work with: the database of the server, and who asks."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from starlette.requests import HTTPConnection

from holdfast.app import Holdfast
from holdfast.console.upkeep import keep_up
from holdfast.engine import installer
from holdfast.engine.connect import connect
from holdfast.errors import DatabaseUnavailable, HoldfastError
from holdfast.store import Call, Store
from holdfast.store.calls import watching
from holdfast.store.steps import Pause, Steps, ask, run_awaiting
from holdfast.web.metrics import Scraper
from holdfast.web.operations import Operations
from holdfast.web.settings import WebSettings
from holdfast.web.ticker import Ticker

R = TypeVar("R")

READ_S: Final = 2.0
"""How long a statement of a page may take: people look again, and the database has other things to do."""


PATIENCE_S: Final = 0.08
"""How long a search goes on to the next slice of jobs: people would rather see some, and look further."""

FITS_S: Final = 30.0
"""For so long a schema that fitted is not looked at again."""

CHECK_S: Final = 5.0
AGAIN_S: Final = 5.0


class Backend:
    """The connections of one server; opened at first use, so that it starts before its database does."""

    def __init__(self, settings: WebSettings) -> None:
        self.settings = settings
        self.app = Holdfast(settings.dsn, schema=settings.schema)
        self.operations = Operations(self.act)
        self.ticker = Ticker(self.read)
        self.scraper = Scraper(self.read)
        self.closing = asyncio.Event()
        """Set when the server begins to stop: whoever answers without end ends."""
        self._fitted_at = -FITS_S
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

    async def keep_up(self) -> None:
        """Do the upkeep of the database, as workers do, until cancelled; wait for a database that is away."""
        while True:
            try:
                store = await self.store()
            except HoldfastError:
                await asyncio.sleep(AGAIN_S)
            else:
                await keep_up(store)

    async def check(self) -> None:
        """Raise unless the database answers and its schema fits this release."""
        await self.read(ask(watching.database_clock()))
        if time.monotonic() - self._fitted_at > FITS_S:
            try:
                await asyncio.wait_for(asyncio.to_thread(self._require_current), CHECK_S)
            except TimeoutError:
                raise DatabaseUnavailable("the database did not say in time what is installed") from None
            self._fitted_at = time.monotonic()

    def _require_current(self) -> None:
        with connect(self.app.database().dsn, "holdfast web") as conn:
            installer.require_current(conn, self.settings.schema)

    async def close(self) -> None:
        """End what goes on in the background, and close the connections."""
        self.closing.set()
        await self.ticker.close()
        await self.operations.close()
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
