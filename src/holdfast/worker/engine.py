"""A worker, from start to stop: what `hf.worker(...)` gives."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Final, Protocol, Self, cast

from holdfast.embedded import Database
from holdfast.errors import InvalidArgument, QueueClosed
from holdfast.queue import checks
from holdfast.store import arguments
from holdfast.tasks.registry import Registry
from holdfast.telemetry import Metrics
from holdfast.worker import stopping
from holdfast.worker.crew import Crew
from holdfast.worker.settings import Settings, settings_from
from holdfast.worker.watchdog import Watchdog

logger: Final = logging.getLogger("holdfast.worker")

DEFAULT_QUEUES: Final = {"default": 10}


class App(Protocol):
    """What a worker needs of the app whose tasks it runs."""

    @property
    def schema(self) -> str: ...

    @property
    def registry(self) -> Registry: ...

    @property
    def metrics(self) -> Metrics: ...

    def database(self) -> Database:
        """The app's database, reached and checked. Blocks."""
        ...


class Worker:
    """Runs the jobs of some queues, so many at a time of each, until it is told to stop.

    `async with hf.worker({"default": 10, "mail": 2}) as worker` starts on entry and stops in order on
    leaving: nothing more is claimed, handlers are waited for up to `shutdown_timeout`, what is not done by
    then is handed back, at no cost to the job.
    """

    def __init__(
        self,
        app: App,
        queues: Mapping[str, int] | Iterable[str] | None = None,
        *,
        tags: Iterable[str] = (),
        worker_id: str | None = None,
        processes: int = 1,
        **settings: Any,
    ) -> None:
        if arguments.whole_number(processes, "processes") > 1:
            raise InvalidArgument("a worker is one process; for several: hf.run_worker(..., processes=2)")
        self._app = app
        self.queues: Final = _queues(queues)
        self.tags: Final = tuple(checks.distinct(tags, "tags"))
        self.settings: Final[Settings] = settings_from(settings)
        self.worker_id: Final = worker_id or _new_worker_id()
        self.settled = True
        """After the stop: whether everything was settled or handed back."""
        self._crew: Crew | None = None
        self._watchdog: Watchdog | None = None
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._over = False

    async def start(self) -> None:
        """Reach the database and begin to claim. Raises DatabaseUnavailable, SchemaMissing and the like."""
        if self._crew is not None or self._over:
            raise QueueClosed("this worker was started before: make another one")
        database = await asyncio.to_thread(self._app.database)
        self._watchdog = Watchdog(asyncio.get_running_loop(), _say_blocked)
        self._watchdog.start()
        self._crew = Crew(
            dsn=database.dsn,
            schema=self._app.schema,
            worker_id=self.worker_id,
            queues=self.queues,
            tags=self.tags,
            registry=self._app.registry,
            metrics=self._app.metrics,
            settings=self.settings,
            app=self._app,
        )
        logger.info(
            "worker %s serves %s",
            self.worker_id,
            ", ".join(f"{queue}={size}" for queue, size in self.queues.items()),
            extra={"event": "worker.started", "worker_id": self.worker_id},
        )

    async def run(self) -> None:
        """Start, work until `stop()` is called, and stop in order."""
        if self._crew is None:
            await self.start()
        try:
            await self._started().work_until(self._stop)
        finally:
            await self._finish()

    async def ready(self) -> None:
        """Wait until the database has answered the first claim, for each queue."""
        await self._started().look()

    async def drain(self) -> None:
        """Wait until nothing in its queues can be claimed and nothing runs; jobs due later may wait."""
        await self._started().wait_until_dry()

    def stop(self) -> None:
        """Stop in order; called a second time, without waiting for handlers. Call it on the loop's thread."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()
        if self._crew is not None:
            self._crew.stop_claiming()

    @property
    def running(self) -> int:
        """How many jobs are being executed now."""
        return 0 if self._crew is None else len(self._crew.roster)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._finish()

    async def _finish(self) -> None:
        crew, self._crew, self._over = self._crew, None, True
        if crew is None:
            return
        about = {"worker_id": self.worker_id}
        logger.info("worker %s stops", self.worker_id, extra={"event": "worker.stopping", **about})
        try:
            self.settled = await stopping.stop(crew, self._hurry)
        finally:
            if self._watchdog is not None:
                self._watchdog.stop()
            logger.info("worker %s has stopped", self.worker_id, extra={"event": "worker.stopped", **about})

    def _started(self) -> Crew:
        if self._crew is None:
            raise QueueClosed("the worker does not run: start it with `async with`, start() or run()")
        return self._crew


def _queues(queues: Mapping[str, int] | Iterable[str] | None) -> dict[str, int]:
    if queues is None:
        return dict(DEFAULT_QUEUES)
    if isinstance(queues, Mapping):
        sizes = dict(cast("Mapping[str, int]", queues))
    else:
        sizes = dict.fromkeys(checks.distinct(queues, "queues"), DEFAULT_QUEUES["default"])
    if not sizes:
        raise InvalidArgument('a worker needs at least one queue, as in {"default": 10}')
    return {
        arguments.queue(name, "queues"): arguments.whole_number(size, f'concurrency of queue "{name}"')
        for name, size in sizes.items()
    }


def _new_worker_id() -> str:
    """Tells machines, processes and successive workers of one process apart."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"


def _say_blocked(seconds: float, stack: str) -> None:
    logger.warning(
        "the event loop was blocked for %.1f s by:\n%s\nuse a sync handler (it runs in a thread) or await",
        seconds,
        stack,
        extra={"event": "loop.blocked"},
    )
