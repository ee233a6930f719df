"""A worker as a program: it starts, it hears signals, and it ends in time with a code that says how.

The first SIGTERM or SIGINT stops it in order, the second in a hurry. Exit codes: 0 everything was settled or
handed back, 1 it could not be, or the worker cannot work here, 2 wrong usage, 69 no first connection.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib import import_module
from time import monotonic
from types import FrameType
from typing import Any, Final

from holdfast.errors import DatabaseUnavailable, HoldfastError, InvalidArgument
from holdfast.worker import logs, notify
from holdfast.worker.engine import Worker
from holdfast.worker.heap import seldom_searched
from holdfast.worker.last_resort import LastResort
from holdfast.worker.wakeups import signals_as_bytes

logger: Final = logging.getLogger("holdfast.worker")

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 69

FIRST_CONNECTION_S: Final = 10.0
"""How long to try for a first connection; whoever had one tries for ever."""

RETRY_S: Final = 0.5

IN_TIME_S: Final = 4.5
"""What is left after the shutdown timeout to hand back and say goodbye; a bit less than the 5 s promised."""

ABANDON_S: Final = 1.0
"""How long a first connection that nobody wants any more may keep the process."""

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run(worker: Worker, *, on_ready: Callable[[], None] | None = None, is_last: bool = False) -> int:
    """Run a worker until a signal stops it, and answer the exit code.

    Errors one must expect are logged in a line. With `is_last` the process is about to exit with the code:
    it is ended in time even if something keeps the interpreter from exiting.
    """
    program = Program(worker, on_ready)
    before = program.take_signals()
    try:
        return program.run()
    finally:
        if is_last:
            ignore_signals()
        else:
            for number, handler in before.items():
                signal.signal(number, handler)
            program.last_resort.disarm()


def ignore_signals() -> None:
    """The code is known: a signal that comes now must not put another in its place.

    An interpreter that exits takes back handlers, and the next signal would kill it; it leaves ignored ones.
    """
    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


class Program:
    """One worker and the signals of its process."""

    def __init__(self, worker: Worker, on_ready: Callable[[], None] | None = None) -> None:
        self._worker = worker
        self._on_ready = on_ready
        self._notifier = notify.Notifier.of()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        self._is_told = False
        self.last_resort = LastResort(FAILED)

    def take_signals(self) -> dict[signal.Signals, Any]:
        """Have signals stop the worker; returns who heard them before. Only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            return {}
        # Not the loop's own handlers: those wait for a loop that a handler may be blocking for ever.
        return {number: signal.signal(number, self._hear) for number in SIGNALS}

    def run(self) -> int:
        """Work; the exit code."""
        logs.name_worker(self._worker.worker_id)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = self.last_resort.code = runner.run(self._serve())
            self.last_resort.arm(IN_TIME_S)
        return code

    def _hear(self, number: int, frame: FrameType | None) -> None:
        """In the middle of anything. No log line: the interrupted code may be writing one."""
        if not self._is_told:
            self._is_told = True
            self.last_resort.arm(self._worker.settings.shutdown_timeout + IN_TIME_S)
            self._notifier.tell(notify.STOPPING)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the worker has stopped
                self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self._stopped.set()
        self._worker.stop()

    async def _serve(self) -> int:
        self._loop = self.last_resort.loop = asyncio.get_running_loop()
        if self._is_told:  # before there was a loop to tell
            self._stop()
        try:
            with _woken_by_signals(self._loop):
                if not await self._begin():
                    return DONE if self._stopped.is_set() else UNREACHABLE
                return await self._work()
        except HoldfastError as error:
            logger.error("%s", error, extra={"event": "worker.failed"})
            return USAGE if isinstance(error, InvalidArgument) else FAILED
        except Exception:
            logger.exception("the worker met something unexpected and ends", extra={"event": "worker.failed"})
            return FAILED

    async def _begin(self) -> bool:
        """Start the worker; False if the database cannot be reached, or if it was told to stop meanwhile."""
        until = monotonic() + FIRST_CONNECTION_S
        is_said = False
        while not self._stopped.is_set():
            try:
                return await self._start()
            except DatabaseUnavailable as error:
                if monotonic() + RETRY_S >= until:
                    logger.error(
                        "no connection within %.0f s: %s",
                        FIRST_CONNECTION_S,
                        error,
                        extra={"event": "worker.failed"},
                    )
                    return False
                if not is_said:
                    is_said = True
                    logger.warning("%s; trying for %.0f s", error, FIRST_CONNECTION_S)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), RETRY_S)
        return False

    async def _start(self) -> bool:
        starting = asyncio.create_task(self._worker.start())
        stopping = asyncio.create_task(self._stopped.wait())
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not starting.done():
            # Nothing was claimed yet. The thread that waits for the server cannot be told, so it is left.
            starting.cancel()
            self.last_resort.arm(ABANDON_S)
            return False
        await starting
        return True

    async def _work(self) -> int:
        announcing = asyncio.create_task(self._announce())
        try:
            with seldom_searched():
                await self._worker.run()
        finally:
            announcing.cancel()
        return DONE if self._worker.settled else FAILED

    async def _announce(self) -> None:
        """Tell whoever started us when the first claim was answered, and that we are alive."""
        await self._worker.ready()
        self._notifier.tell(notify.READY)
        if self._on_ready is not None:
            self._on_ready()
        while self._notifier.ping_s is not None:
            self._notifier.tell(notify.ALIVE)
            await asyncio.sleep(self._notifier.ping_s)


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Have the loop wake up for a signal, so that its handler runs at once.

    Handlers run on the main thread, between two steps of Python. A signal that the kernel gives to another
    thread, or that comes in the instant before the loop goes to sleep, would be heard when the loop wakes up.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with signals_as_bytes() as wakeups:
        loop.add_reader(wakeups, wakeups.recv, 64)
        try:
            yield
        finally:
            loop.remove_reader(wakeups)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """That of uvloop, if it is installed."""
    try:
        uvloop: Any = import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
