"""Live pages: one look at the installation for all who watch, and only while somebody does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

from holdfast.console import shapes, views
from holdfast.errors import HoldfastError
from holdfast.store.steps import Steps
from holdfast.web.problems import Problem

QUICK_S: Final = 1.0
"""How often it looks while something moves."""

SLOW_S: Final = 3.0
"""And while nothing does."""

SILENCE_S: Final = 15.0
"""Proxies cut what is silent for long."""

MOST_WATCHERS: Final = 200

logger: Final = logging.getLogger("holdfast.web")

Read = Callable[[Steps[Any]], Awaitable[Any]]


class Ticker:
    """Looks once for everybody. A watcher who is slow misses ticks; nothing is kept for them."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._task: asyncio.Task[None] | None = None
        self._watchers = 0
        self._news = asyncio.Condition()
        self._latest = ""
        self._number = 0

    @property
    def watchers(self) -> int:
        """How many watch."""
        return self._watchers

    @property
    def is_idle(self) -> bool:
        """Whether it does not look."""
        return self._task is None or self._task.done()

    def check_room(self) -> None:
        """Raise a Problem if too many watch."""
        if self._watchers >= MOST_WATCHERS:
            raise Problem(429, "Too much at once", f"{MOST_WATCHERS} watch already: ask now and then.")

    async def watch(self, closing: asyncio.Event) -> AsyncGenerator[str]:
        """Server-sent events: a tick when something changed, a comment when nothing has for a while."""
        self._watchers += 1
        if self.is_idle:
            self._task = asyncio.create_task(self._look())
        seen = 0
        try:
            yield "retry: 2000\n\n"
            while not closing.is_set():
                if self._number == seen:
                    changed = await self._wait(seen, closing)
                    if not changed:
                        yield ": still here\n\n"
                        continue
                again, seen = seen > 0, self._number
                yield f"event: tick\nid: {seen}\ndata: {self._latest}\n\n"
                if again:
                    yield "event: jobs\ndata: {}\n\n"
        finally:
            self._watchers -= 1

    async def close(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _wait(self, seen: int, closing: asyncio.Event) -> bool:
        """Whether there are news; also over when the server stops."""
        stopping = asyncio.ensure_future(closing.wait())
        news = asyncio.ensure_future(self._newer(seen))
        try:
            await asyncio.wait((stopping, news), timeout=SILENCE_S, return_when=asyncio.FIRST_COMPLETED)
            return news.done()
        finally:
            stopping.cancel()
            news.cancel()

    async def _newer(self, seen: int) -> None:
        async with self._news:
            await self._news.wait_for(lambda: self._number > seen)

    async def _look(self) -> None:
        while self._watchers:
            moved = False
            try:
                shown = shapes.encode(await self._read(_glance()))
                moved = shown != self._latest
            except HoldfastError as error:
                logger.debug("could not look: %s", error)
            else:
                if moved:
                    async with self._news:
                        self._latest, self._number = shown, self._number + 1
                        self._news.notify_all()
            await asyncio.sleep(QUICK_S if moved else SLOW_S)


def _glance() -> Steps[shapes.Shape]:
    """What a tick tells. The moment is left out, or every look would be news."""
    seen = yield from views.glance()
    holders = yield from views.workers()
    return {
        "queues": [shapes.queue(seen.queues, line) for line in seen.queues.queues],
        "ended_last_minute": seen.ended_last_minute,
        "workers": len(holders.workers),
    }
