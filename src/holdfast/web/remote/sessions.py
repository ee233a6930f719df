"""All streams of a server: as many as may be open, each found by its id, all ended with the server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.domain.outcome import Verdict
from holdfast.queue.base import POLL_S, new_streams
from holdfast.queue.settling import settle_all
from holdfast.queue.streams import Streams
from holdfast.queue.terms import Terms
from holdfast.store import Extension, Settlement, Store
from holdfast.store.calls.leasing import extend_leases
from holdfast.store.steps import ask, run_awaiting
from holdfast.web.problems import Problem
from holdfast.web.remote.session import Hold, Session

MOST_STREAMS: Final = 500
END_S: Final = 3.0


class Sessions:
    """The streams of one server on one database. Threads for them are made with the first one."""

    def __init__(self, dsn: str, schema: str, store: Store) -> None:
        self._streams: Streams = new_streams(dsn, schema, POLL_S)
        self._store = store
        self._open: dict[str, Session] = {}
        self._stopping: str | None = None

    async def open(
        self, terms: Terms, *, acknowledges: bool, holding: Sequence[Hold] = (), replaces: str | None = None
    ) -> Session:
        """Open a stream; claiming for it begins at once.

        What the client holds from an earlier stream takes slots of this one and is kept with the rest. The
        stream it replaces is ended, should it be open here because nobody noticed that its client left.
        """
        if (former := self._open.get(replaces or "")) is not None:
            former.close("replaced by another stream")
        answers = await self.extend(holding, terms.lease_s) if holding else []
        if self._stopping is not None:
            raise Problem(503, "Not ready", self._stopping, headers={"Retry-After": "5"})
        if len(self._open) >= MOST_STREAMS:
            raise Problem(
                429,
                "Too many streams",
                f"{MOST_STREAMS} streams are open, and that is the most; close one, or come again later.",
                headers={"Retry-After": "5"},
            )
        held = list(zip(holding, answers, strict=True))
        session = Session(self._streams, self._store, terms, acknowledges=acknowledges, holding=held)
        self._open[session.stream_id] = session
        session.closing.add_done_callback(lambda _: self._open.pop(session.stream_id, None))
        return session

    def find(self, stream_id: str) -> Session:
        """The open stream of this id, whose client has just shown that it lives."""
        session = self._open.get(stream_id)
        if session is None:
            raise Problem(
                404,
                "No such stream",
                f'No stream "{stream_id}" is open here (any more): open another. What you hold can be '
                "settled and extended by its leases, with /api/jobs/settle and /api/jobs/extend.",
            )
        session.beat()
        return session

    async def settle(self, settlements: Sequence[Settlement]) -> list[Verdict]:
        """Settle jobs by their leases, whoever holds them; what is settled has arrived."""
        concerned: set[Session] = set()
        for job_id, lease_id, _ in settlements:
            stream = self._streams.stream_of(job_id)
            session = None if stream is None else self._open.get(str(stream.terms.stream_id))
            if session is not None and lease_id is not None:
                session.acknowledge([(job_id, lease_id)])
                concerned.add(session)
        verdicts = await run_awaiting(self._store, settle_all(self._streams, settlements))
        for session in concerned:
            session.settled()
        return verdicts

    async def extend(self, holds: Iterable[Hold], lease_s: float) -> list[Extension]:
        """Extend leases, whoever holds them; an answer for each."""
        return await run_awaiting(self._store, ask(extend_leases(holds, lease_s)))

    def stop(self, reason: str) -> None:
        """Tell every client that it is over, and open nothing more."""
        self._stopping = reason
        for session in list(self._open.values()):
            session.close(reason)

    async def close(self) -> None:
        """End what is still open, hand back what did not arrive, stop the threads."""
        open_ones = list(self._open.values())
        self.stop("the server stops")
        for session in open_ones:
            session.finish()
        await asyncio.to_thread(self._streams.close, END_S)
