"""Where the routes find the streams of their server: opened at the first use, as the database is."""

from __future__ import annotations

import asyncio
from typing import cast

from starlette.requests import HTTPConnection

from holdfast.web.backend import Backend
from holdfast.web.remote.sessions import Sessions


class Room:
    """The streams of one server, which may not have reached its database yet."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._sessions: Sessions | None = None
        self._watching: asyncio.Task[None] | None = None

    async def sessions(self) -> Sessions:
        """All streams; raise DatabaseUnavailable if the database cannot be reached in time."""
        store = await self._backend.store()
        if self._sessions is None:
            dsn = self._backend.app.stores.database().dsn
            self._sessions = Sessions(dsn, self._backend.settings.schema, store)
            self._watching = asyncio.create_task(self._stop_in_time(self._sessions))
        return self._sessions

    async def close(self) -> None:
        """End all streams, and wait until what did not arrive is handed back."""
        if self._watching is not None:
            self._watching.cancel()
        if self._sessions is not None:
            await self._sessions.close()

    async def _stop_in_time(self, sessions: Sessions) -> None:
        await self._backend.closing.wait()
        sessions.stop("the server stops")


async def sessions_of(connection: HTTPConnection) -> Sessions:
    """The streams of the server that got this request."""
    return await cast("Room", connection.app.state.room).sessions()
