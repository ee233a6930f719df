"""What may be sent: JSON, uncompressed, up to a size, in reasonable time. Judged while it is being read."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.web.problems import Problem

MOST_BYTES: Final = 5 * 1024 * 1024
READ_WITHIN_S: Final = 30.0


class Bodies:
    """Read a request's body as a whole before anybody works on it, or refuse it."""

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_BYTES) -> None:
        self._app = app
        self._most = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check(headers)
            body = await self._read(receive) if _has_body(headers) else b""
        except Problem as problem:
            await problem.response()(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _replay(body, receive), send)

    def _check(self, headers: Headers) -> None:
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem(415, "Compressed body", "Send the body without Content-Encoding.")
        if not _has_body(headers):
            return
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Problem(415, "Not JSON", "Send JSON, with Content-Type: application/json.")
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self._most:
            raise self._too_large()

    async def _read(self, receive: Receive) -> bytes | None:
        """The body; None if the client has gone."""
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > self._most:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Problem(
                408,
                "Too slow",
                f"The body did not arrive within {READ_WITHIN_S:.0f} s.",
                headers={"Connection": "close"},
            ) from None

    def _too_large(self) -> Problem:
        return Problem(
            413,
            "Too large",
            f"A body has at most {self._most:,} bytes.",
            headers={"Connection": "close"},
            most_bytes=self._most,
        )


def _has_body(headers: Headers) -> bool:
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give the body once, then what really comes: the end of the connection."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
