"""One stream of a client somewhere else: what it has got, whether it lives, what it is to be told next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import floor
from time import monotonic
from typing import Final, TypeAlias

from holdfast.errors import HoldfastError
from holdfast.queue.stream import Ended, OpenStream
from holdfast.queue.streams import Streams
from holdfast.queue.terms import Terms
from holdfast.queue.values import Job
from holdfast.store import Extension, Store
from holdfast.store.values import Hold as Standing
from holdfast.web.remote.lines import Line, job_line

PINGS_PER_LEASE: Final = 4
LONGEST_PING_S: Final = 5.0
"""A client that answers every ping may miss one of them and keeps its leases."""

SHARES: Final = 8
"""Leases are extended to whole eighths, rounded down, so that many streams share a call."""

LOOK_S: Final = 2.0
"""How long to wait for word about jobs that waited for their turn, before they are sent as they are."""

Hold: TypeAlias = tuple[str, str]
"""A job and its lease."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A job that a client has from an earlier stream, as far as a stream must know it."""

    id: str
    lease_id: str


class Session:
    """A stream and its client. Belongs to the event loop; ends once, for one reason.

    A job is *on its way* from the moment it is taken to be sent until it has arrived: until it is written to
    the connection, or, if the client has asked for that, until the client has acknowledged it. What is on its
    way at the end is handed back with what was never taken; what has arrived is the client's until its lease
    lapses.
    """

    def __init__(
        self,
        streams: Streams,
        store: Store,
        terms: Terms,
        *,
        acknowledges: bool,
        holding: Iterable[tuple[Hold, Extension]] = (),
    ) -> None:
        self.stream_id: Final = str(terms.stream_id)
        self.terms: Final = terms
        self.acknowledges: Final = acknowledges
        self.ping_s: Final = min(LONGEST_PING_S, terms.lease_s / PINGS_PER_LEASE)
        self.closing: Final[asyncio.Future[str]] = asyncio.get_running_loop().create_future()
        """Done when it is to end, with the reason for the client."""
        self._loop = asyncio.get_running_loop()
        self._streams = streams
        self._store = store
        self._arrived = asyncio.Event()
        self._notes: deque[Line] = deque()
        self._on_the_way: dict[str, str] = {}
        self._lives_at = monotonic()
        self._ping_at = monotonic() + self.ping_s
        self._is_written = False
        self._is_finished = False
        self._draining = False
        self._stream: OpenStream = streams.open(
            terms, self._wake, self._tell, kept_s=self.kept_s, adopted=self._adopt(holding)
        )
        self._stream.on_cancel(self._note("cancel"))
        self._stream.on_lost(self._note("lost"))
        self._silence = self._loop.call_later(terms.lease_s, self._check_life)

    # What the client does

    def beat(self) -> None:
        """The client lives. Only what it says itself counts: its system takes bytes for one that hangs."""
        self._lives_at = monotonic()

    def acknowledge(self, holds: Iterable[Hold]) -> list[bool]:
        """These have arrived; for each, whether it still is the client's to run."""
        return [self._acknowledge(*hold) for hold in holds]

    def drain(self) -> None:
        """Claim nothing more; end when the client has settled what it has."""
        self._draining = True
        self._streams.drain(self._stream)
        self._arrived.set()

    def settled(self) -> None:
        """Something of it was settled: perhaps that was the last."""
        if self._draining:
            self._arrived.set()

    def kept_s(self) -> float:
        """For how long leases may be extended now: to one lease after the last sign of life."""
        share = self.terms.lease_s / SHARES
        return floor((self._lives_at + self.terms.lease_s - monotonic()) / share) * share

    @property
    def held(self) -> int:
        """How many jobs it holds, on their way or arrived."""
        return self._stream.held

    # What is sent

    def first(self) -> Line:
        """The line it begins with."""
        return {
            "type": "open",
            "stream": self.stream_id,
            "lease_s": self.terms.lease_s,
            "ping_s": self.ping_s,
            "capacity": self.terms.capacity,
            "ack": self.acknowledges,
        }

    async def following(self) -> list[Line]:
        """What there is to say next, waiting for it; nothing when it is to end.

        Jobs among it are on their way from now on: tell `sent` when they are written.
        """
        while not self.closing.done():
            self._arrived.clear()
            if lines := await self._next():
                return lines
            if monotonic() >= self._ping_at:
                self._ping_at = monotonic() + self.ping_s
                return [{"type": "ping"}]
            try:
                async with asyncio.timeout(self._ping_at - monotonic()):
                    await self._arrived.wait()
            except TimeoutError:
                continue
        return []

    def sent(self, lines: Iterable[Line]) -> None:
        """These are written. Without acknowledgement, jobs among them have arrived."""
        if self.acknowledges:
            return
        for line in lines:
            if line["type"] == "job":
                self._on_the_way.pop(line["job"]["job_id"], None)

    async def _next(self) -> list[Line]:
        if doubtful := [(entry.job.id, entry.lease_id) for entry in self._stream.doubtful()]:
            await self._look_at(doubtful)
        # Nothing is awaited from here on, so what is taken is known to be on its way.
        lines = list(self._notes)
        self._notes.clear()
        try:
            jobs: list[Job] = self._stream.take() or []
        except Ended:
            self.close("the stream has ended")
        except HoldfastError as error:
            self.close(f"the stream has failed: {error}")
        else:
            self._on_the_way.update((job.id, job.lease_id or "") for job in jobs)
            lines += map(job_line, jobs)
        if self._draining and not lines and not self._stream.held:
            self.close("drained")
        return lines

    async def _look_at(self, doubtful: list[Hold]) -> None:
        """Ask once more about jobs that waited: somebody may have cancelled them."""
        kept_s = self.kept_s()
        if kept_s <= 0:
            return
        try:
            answers = await self._store.extend_leases(doubtful, kept_s, timeout_s=LOOK_S)
        except HoldfastError:
            return  # what its lease still covers is sent as it is
        leases = [lease_id for _, lease_id in doubtful]
        if self._stream.heard(list(zip(leases, answers, strict=True))):
            self._streams.news(self._stream)

    # How it ends

    def attach(self) -> None:
        """Somebody writes it, and calls `finish` when that is over: only then is known what was written."""
        self._is_written = True

    def close(self, reason: str) -> None:
        """End it; only the first reason counts."""
        if self.closing.done():
            return
        self.closing.set_result(reason)
        self._arrived.set()
        if not self._is_written:
            self.finish()

    def finish(self) -> None:
        """Hand back what is on its way and what was never taken; keep nothing else. Returns at once."""
        self.close("the connection is gone")
        if self._is_finished:
            return
        self._is_finished = True
        self._silence.cancel()
        self._stream.take_back(self._on_the_way.items())
        self._on_the_way.clear()
        self._streams.end(self._stream)
        self._stream.ended.add_done_callback(lambda _: self._stream.let_go())

    async def ended(self, within_s: float) -> bool:
        """Wait until everything is handed back; False if that did not work in time."""
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.wrap_future(self._stream.ended)
        except TimeoutError:
            return False

    def _check_life(self) -> None:
        silent_s = monotonic() - self._lives_at
        if silent_s >= self.terms.lease_s:
            self.close(f"no sign of life for {silent_s:.1f} s")
        else:
            self._silence = self._loop.call_later(self.terms.lease_s - silent_s, self._check_life)

    # What is heard

    def _adopt(self, holding: Iterable[tuple[Hold, Extension]]) -> list[tuple[Kept, bool]]:
        """What the client still holds; it is told of the rest, and of what is to be stopped."""
        adopted: list[tuple[Kept, bool]] = []
        for (job_id, lease_id), answer in holding:
            if answer.hold is Standing.EXTENDED:
                adopted.append((Kept(job_id, lease_id), False))
            elif answer.hold is Standing.CANCELLING:
                adopted.append((Kept(job_id, lease_id), True))
                self._notes.append({"type": "cancel", "job_id": job_id})
            else:
                self._notes.append({"type": "lost", "job_id": job_id})
        return adopted

    def _acknowledge(self, job_id: str, lease_id: str) -> bool:
        if self._on_the_way.get(job_id) == lease_id:
            del self._on_the_way[job_id]
        return self._stream.holds(job_id, lease_id)

    def _note(self, kind: str) -> Callable[[str], None]:
        return lambda job_id: self._take_note({"type": kind, "job_id": job_id})

    def _take_note(self, line: Line) -> None:
        self._notes.append(line)
        self._arrived.set()

    def _wake(self) -> None:
        self._on_loop(self._arrived.set)

    def _tell(self, callback: Callable[[str], object], job_id: str) -> None:
        self._on_loop(callback, job_id)

    def _on_loop(self, function: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # the loop is closed: nobody reads any more
            self._streams.end(self._stream)
