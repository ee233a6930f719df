"""A stream as the answer to a request: written line by line, as fast as the client reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from holdfast.web.remote.lines import WAYS, Line
from holdfast.web.remote.session import Session

CHUNK_BYTES: Final = 64 * 1024
"""Lines are written together up to this size: one chunk at most waits for a client that does not read."""

CLOSE_S: Final = 1.0
"""How long a client has to take the last line."""


class StreamAnswer(Response):
    """Writes a session until its client leaves, or it ends.

    Nothing is taken from the stream while the connection is full, so a client that does not read leaves its
    jobs where they are. A chunk is either written or not, also when writing is broken off; what was not is
    handed back.
    """

    def __init__(self, session: Session, media_type: str) -> None:
        # Proxies that gather an answer before they pass it on would gather this one for ever.
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.headers["content-type"] = f"{media_type}; charset=utf-8"
        self._session = session
        self._written = WAYS[media_type]
        self._is_sending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._session
        session.attach()
        leaving = asyncio.create_task(_left(receive))
        writing = asyncio.create_task(self._write(send, leaving))
        try:
            await asyncio.wait((writing, leaving, session.closing), return_when=asyncio.FIRST_COMPLETED)
            # A chunk of jobs that waits for its turn must not be written any more: it is handed back.
            if session.closing.done() and not self._is_sending:
                await asyncio.wait((writing, leaving), timeout=CLOSE_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (writing, leaving):
                task.cancel()
            await asyncio.wait((writing, leaving))
            session.finish()
        if not writing.cancelled():
            writing.result()

    async def _write(self, send: Send, leaving: asyncio.Task[None]) -> None:
        session = self._session
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await self._send(send, self._written(session.first()))
        while not session.closing.done():
            for body, lines in self._chunks(await session.following()):
                if session.closing.done():
                    break
                await self._send(send, body)
                # When the connection is lost, nothing is written and nobody says so: let that be heard first.
                try:
                    await asyncio.sleep(0)
                finally:
                    if not leaving.done():
                        session.sent(lines)
        reason = session.closing.result()
        await send(_body(self._written({"type": "close", "reason": reason})))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, body: bytes) -> None:
        self._is_sending = True
        await send(_body(body))
        self._is_sending = False

    def _chunks(self, lines: Iterable[Line]) -> Iterator[tuple[bytes, list[Line]]]:
        """Lines as they are written together; each is encoded only when its turn comes."""
        body, some = b"", list[Line]()
        for line in lines:
            body += self._written(line)
            some.append(line)
            if len(body) >= CHUNK_BYTES:
                yield body, some
                body, some = b"", []
        if some:
            yield body, some


def _body(content: bytes) -> Message:
    return {"type": "http.response.body", "body": content, "more_body": True}


async def _left(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
