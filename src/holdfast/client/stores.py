"""The connections of an app: opened at first use, once for a process and once for each event loop."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Any, Final

from holdfast.embedded import Database
from holdfast.errors import HoldfastError
from holdfast.store import Store, SyncStore

_CLOSE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class _OfLoop:
    store: Store
    closing: AsyncGenerator[None]


class Stores:
    """A blocking store for all threads of a process, and one for asyncio for each event loop.

    A forked child starts without any. What is closed is opened again at the next use.
    """

    def __init__(self, reach: Callable[[], Database], schema: str) -> None:
        self._reach = reach
        self._schema = schema
        self._opening = threading.Lock()
        self._database: Database | None = None
        self._blocking: SyncStore | None = None
        self._of_loops: dict[asyncio.AbstractEventLoop, _OfLoop] = {}
        self._of_parent: list[object] = []
        _everywhere.add(self)

    def database(self) -> Database:
        """Where the jobs are; blocks until it has been reached for the first time."""
        with self._opening:
            return self._reached()

    def blocking(self) -> SyncStore:
        """The store of this process."""
        store = self._blocking
        if store is not None:
            return store
        with self._opening:
            if self._blocking is None:
                self._blocking = SyncStore(self._reached().dsn, schema=self._schema)
            return self._blocking

    async def asynchronous(self) -> Store:
        """The store of the running event loop; it is closed with the loop, or by `aclose`."""
        loop = asyncio.get_running_loop()
        if loop not in self._of_loops:
            database = await asyncio.to_thread(self.database)
            if loop not in self._of_loops:  # another task was faster
                self._forget_closed_loops()
                store = Store(database.dsn, schema=self._schema)
                closing = self._close_with(loop, store)
                await anext(closing)
                self._of_loops[loop] = _OfLoop(store, closing)
        return self._of_loops[loop].store

    def close(self) -> None:
        """Close what is open in this process; what belongs to an event loop is closed on that loop."""
        loops = [loop for loop in list(self._of_loops) if loop.is_running()]
        if _running_loop() in loops:
            raise HoldfastError(
                "close() would block the event loop whose connections it closes: await aclose()"
            )
        try:
            for loop in loops:
                held = self._of_loops.get(loop)
                if held is not None:
                    asyncio.run_coroutine_threadsafe(_end(held.closing), loop).result(_CLOSE_S)
        finally:
            self._close_blocking()

    async def aclose(self) -> None:
        """Close the connections of the running loop, then all others of this process."""
        held = self._of_loops.get(asyncio.get_running_loop())
        if held is not None:
            await held.closing.aclose()
        await asyncio.to_thread(self.close)

    def close_at_exit(self) -> None:
        """At the end of the process its loops are gone; a pool left open would complain about its threads."""
        self._of_parent.append(self._of_loops)
        self._of_loops = {}
        self._close_blocking()

    def forget_parent(self) -> None:
        """In a child process: these connections are the parent's, and whoever held the lock is not here."""
        self._opening = threading.Lock()
        # Kept, not closed: closing would end the parent's sessions.
        self._of_parent += [self._blocking, self._of_loops]
        self._blocking, self._of_loops = None, {}

    def _reached(self) -> Database:
        if self._database is None:
            self._database = self._reach()
        return self._database

    def _close_blocking(self) -> None:
        with self._opening:
            store, self._blocking = self._blocking, None
            database, self._database = self._database, None
        try:
            if store is not None:
                store.close()
        finally:
            if database is not None:
                database.close()

    async def _close_with(self, loop: asyncio.AbstractEventLoop, store: Store) -> AsyncGenerator[None]:
        """A loop that ends closes the generators that were begun on it, and so this store."""
        try:
            yield
        finally:
            self._of_loops.pop(loop, None)
            await store.close()

    def _forget_closed_loops(self) -> None:
        for loop in [loop for loop in self._of_loops if loop.is_closed()]:
            del self._of_loops[loop]


_everywhere: Final[weakref.WeakSet[Stores]] = weakref.WeakSet()


async def _end(closing: AsyncGenerator[None]) -> None:
    await closing.aclose()


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _each(act: Callable[[Stores], Any]) -> None:
    for stores in list(_everywhere):
        act(stores)


os.register_at_fork(after_in_child=lambda: _each(Stores.forget_parent))
atexit.register(lambda: _each(Stores.close_at_exit))
