"""A way to the server that can be cut, slowed and muted, and that knows where PostgreSQL's messages begin.

    python -m gauntlet.arena.proxy SOCKET HOST PORT CONTROL

It listens on HOST:PORT, passes on to the server's SOCKET, and does what lines of JSON on the file CONTROL (a
Unix socket) ask: {"do": "set", "mode": "slow", "seconds": 0.2}, {"do": "reset"}, {"do": "cut", "word":
"settle", "how": "reply", "times": 3}. Every line is answered by one with what was counted.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Weather:
    """How things are on the way now."""

    mode: str = "pass"
    """pass, slow, trickle, refuse, stall; deaf (no answers), mute (no requests), gone (neither)."""
    seconds: float = 0.0
    word: str | None = None
    """Cut the next connections whose statement contains this…"""
    how: str = "reply"
    """…instead of the reply, in the middle of the reply, or in the middle of the request."""
    times: int = 0
    counts: dict[str, int] = field(default_factory=lambda: {"cuts": 0, "resets": 0, "connections": 0})

    def cuts(self, statement: str, how: str) -> bool:
        if self.times < 1 or self.how != how or (self.word or "") not in statement:
            return False
        self.times -= 1
        self.counts["cuts"] += 1
        return True


class Way:
    """One connection of a client, and ours to the server for it."""

    def __init__(self, weather: Weather, client: _Stream, server: _Stream) -> None:
        self._weather = weather
        self._client, self._server = client, server
        self._statements: dict[bytes, str] = {}
        self._now = ""
        """What the client has last asked for."""

    async def carry(self) -> None:
        ways = {asyncio.create_task(self._ask()), asyncio.create_task(self._answer())}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            self.reset()

    def reset(self) -> None:
        """Hang up on both, without a goodbye."""
        for stream in (self._client, self._server):
            stream.abort()

    async def _ask(self) -> None:
        first = await self._client.reader.readexactly(4)
        rest = await self._client.reader.readexactly(struct.unpack("!I", first)[0] - 4)
        self._server.writer.write(first + rest)
        while True:
            message = await _message(self._client.reader)
            self._heed(message)
            if self._weather.cuts(self._now, "request"):
                self._server.writer.write(message[: len(message) // 2])
                await self._server.writer.drain()
                return
            await self._send(self._server.writer, message, muted=self._weather.mode in ("mute", "gone"))

    async def _answer(self) -> None:
        while True:
            message = await _message(self._server.reader)
            if message[:1] == b"C":
                # What was asked has happened: it is committed unless a transaction is open.
                if self._weather.cuts(self._now, "reply"):
                    return
                if self._weather.cuts(self._now, "middle"):
                    self._client.writer.write(message[: len(message) // 2])
                    await self._client.writer.drain()
                    return
            await self._send(self._client.writer, message, muted=self._weather.mode in ("deaf", "gone"))

    async def _send(self, writer: asyncio.StreamWriter, message: bytes, *, muted: bool) -> None:
        if muted:
            return
        if self._weather.mode == "slow":
            await asyncio.sleep(self._weather.seconds)
        if self._weather.mode == "trickle":
            for start in range(0, len(message), 7):
                writer.write(message[start : start + 7])
                await asyncio.sleep(0)
        else:
            writer.write(message)
        await writer.drain()

    def _heed(self, message: bytes) -> None:
        """Remember what statement this is about: prepared ones are named later without their text."""
        match message[:1]:
            case b"Q":
                self._now = message[5:-1].decode(errors="replace")
            case b"P":
                name, text, _ = message[5:].split(b"\0", 2)
                self._statements[name] = text.decode(errors="replace")
                self._now = self._statements[name]
            case b"B":
                _, name, _ = message[5:].split(b"\0", 2)
                self._now = self._statements.get(name, "")
            case _:
                pass


@dataclass(frozen=True, slots=True)
class _Stream:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def abort(self) -> None:
        sock = self.writer.get_extra_info("socket")
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Proxy:
    """All ways there are."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._weather = Weather()
        self._ways: set[Way] = set()

    async def serve(self, host: str, port: int, control: str) -> None:
        async with (
            await asyncio.start_server(self._take, host, port),
            await asyncio.start_unix_server(self._obey, control),
        ):
            print("ready", flush=True)
            await asyncio.Event().wait()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._weather.counts["connections"] += 1
        client = _Stream(reader, writer)
        if self._weather.mode == "refuse":
            client.abort()
            return
        while self._weather.mode == "stall":  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        try:
            server = _Stream(*await asyncio.open_unix_connection(self._target))
        except OSError:
            client.abort()
            return
        way = Way(self._weather, client, server)
        self._ways.add(way)
        try:
            await way.carry()
        finally:
            self._ways.discard(way)

    async def _obey(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for line in reader:
            self._do(json.loads(line))
            writer.write(json.dumps(self._weather.counts).encode() + b"\n")
            await writer.drain()

    def _do(self, order: dict[str, Any]) -> None:
        match order["do"]:
            case "set":
                self._weather.mode = order["mode"]
                self._weather.seconds = order.get("seconds", 0.0)
            case "cut":
                self._weather.word, self._weather.how = order["word"], order["how"]
                self._weather.times = order["times"]
            case "reset":
                self._weather.counts["resets"] += len(self._ways)
                for way in list(self._ways):
                    way.reset()
            case _:
                pass


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(struct.unpack("!I", head[1:])[0] - 4)


def main() -> None:
    target, host, port, control = sys.argv[1:5]
    with suppress(KeyboardInterrupt):
        asyncio.run(Proxy(target).serve(host, int(port), control))


if __name__ == "__main__":
    main()
