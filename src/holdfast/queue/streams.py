"""All streams of one queue: which job belongs to which, who feeds them, and who keeps their leases."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from time import monotonic
from typing import Final

from holdfast.errors import QueueClosed
from holdfast.queue.beats import Beat
from holdfast.queue.book import Leased
from holdfast.queue.feeder import Feeder
from holdfast.queue.feeding import ACTIVE_S, Feeding
from holdfast.queue.keeper import Keeper
from holdfast.queue.stream import OpenStream, Owners, Refused, Tell
from holdfast.queue.terms import Terms
from holdfast.store import Settlement

logger: Final = logging.getLogger("holdfast.queue")

CLOSE_S: Final = 5.0
"""How long closing waits for jobs to be handed back; a server that is gone does not hold it up longer."""


class Streams:
    """The streams of one open queue. Thread-safe; every method but `close` returns at once.

    Threads and connections for them are made with the first stream: a queue that only enqueues has none.
    """

    def __init__(
        self,
        dsn: str,
        schema: str,
        *,
        poll_s: float,
        active_s: float = ACTIVE_S,
        feeder: Callable[[str, str], Feeding] = Feeder.share,
        beat: Beat | None = None,
    ) -> None:
        self._beat = beat
        self._new_feeder = feeder
        self._dsn = dsn
        self._schema = schema
        self._poll_s = poll_s
        self._active_s = active_s
        self._lock = threading.Lock()
        self._feeder: Feeding | None = None
        self._keeper: Keeper | None = None
        self._forget_freed: Callable[[], None] = _nothing
        self._open: set[OpenStream] = set()
        self._owners = Owners()
        self._closed = False

    def open(
        self,
        terms: Terms,
        wake_reader: Callable[[], None],
        tell: Tell,
        refused: Refused | None = None,
        observe: Callable[[str, float], None] | None = None,
        kept_s: Callable[[], float] | None = None,
        adopted: Iterable[tuple[Leased, bool]] = (),
    ) -> OpenStream:
        """Open a stream; claiming for it begins before this returns. `refused` hears of reports in vain.

        For readers somewhere else: `kept_s` says for how long leases may be extended now, `adopted` are jobs
        that the reader has from an earlier stream, and whether somebody wants them stopped.
        """
        stream = OpenStream(terms, wake_reader, tell, self._owners, refused, observe, kept_s)
        with self._lock:
            if self._closed:
                raise QueueClosed("the queue is closed: no stream can be opened")
            if self._feeder is None or self._keeper is None:
                self._feeder = self._new_feeder(self._dsn, self._schema)
                self._keeper = Keeper(
                    self._dsn, self._schema, self.news, self._feeder.hears_signals, self._beat
                )
                self._forget_freed = self._feeder.on_freed(self._keeper.look)
            formers = {stream.adopt(job, cancelling=cancelling) for job, cancelling in adopted}
            self._open.add(stream)
            # Under the lock, so that a close meanwhile does not end it before it has begun.
            self._keeper.add(stream)
            self._feeder.add(stream, self._poll_s, self._active_s)
            self._feeder.room(former for former in formers if former is not None)
        return stream

    def end(self, stream: OpenStream) -> None:
        """End a stream: nothing more is delivered, and what was not is handed back (see `stream.ended`)."""
        stream.end()
        with self._lock:
            self._open.discard(stream)
            feeder = self._feeder
        if feeder is not None and not stream.ended.done():
            feeder.hand_back(stream)

    def report(self, stream: OpenStream, reports: list[Settlement]) -> None:
        """Have outcomes written down with the next call for the stream, many in one commit."""
        is_first = stream.report(reports)
        feeder = self._feeder
        if is_first and feeder is not None:
            feeder.reported(stream)

    def look(self, stream: OpenStream) -> Future[int]:
        """Look at the queues of a stream now; done when that is over, with how many jobs it brought."""
        looked = stream.looks.ask()
        feeder = self._feeder
        if feeder is None:
            stream.looks.answer(0)
        else:
            feeder.look(stream)
        return looked

    def drain(self, stream: OpenStream) -> None:
        """Claim nothing more for a stream and hand back what was not delivered; what was can be reported."""
        stream.drain()
        self.news(stream)

    def stream_of(self, job_id: str) -> OpenStream | None:
        """The stream of this queue that holds the job."""
        return self._owners.by_job.get(job_id)

    def owner_of(self, job_id: str) -> tuple[int, str] | None:
        """The stream of this queue that holds the job, to be named when it is settled, and the lease."""
        stream = self._owners.by_job.get(job_id)
        if stream is None:
            return None
        lease_id = stream.settling(job_id)
        return None if lease_id is None else (stream.terms.stream_id, lease_id)

    def settled(self, holds: Iterable[tuple[str, str]]) -> None:
        """Jobs that were ended or handed back through this queue: their slots are free."""
        self._leave(holds, OpenStream.settled)

    def forfeited(self, job_id: str, lease_id: str) -> None:
        """A job acknowledged as not executing: it is gone, and its slot with it."""
        self._leave([(job_id, lease_id)], OpenStream.forfeited)

    def unclear(self) -> None:
        """Something became of a job, and the database knows what: look."""
        keeper = self._keeper
        if keeper is not None:
            keeper.look()

    def cancelling(self, job_ids: Iterable[str]) -> None:
        """Jobs that were cancelled through this queue: those not delivered yet never will be."""
        for job_id in job_ids:
            stream = self._owners.by_job.get(job_id)
            if stream is not None and stream.cancelling(job_id):
                self.news(stream)

    def close(self, timeout_s: float = CLOSE_S) -> bool:
        """End every stream, hand back what was not delivered, stop the threads; in a few seconds at most.

        False if something could not be handed back or written down in that time.
        """
        until = monotonic() + timeout_s
        with self._lock:
            self._closed = True
            streams, self._open = self._open, set()
            feeder, keeper = self._feeder, self._keeper
            self._feeder = self._keeper = None
        if feeder is None or keeper is None:
            return True
        self._forget_freed()
        keeper.stop()
        for stream in streams:
            stream.end()
            feeder.hand_back(stream)
        _, late = wait([stream.ended for stream in streams], timeout=max(0.0, until - monotonic()))
        if late:
            logger.warning(
                "%d streams could not hand their jobs back within %.0f s; they come back as leases end",
                len(late),
                timeout_s,
            )
        feeder.release(max(0.1, until - monotonic()))
        keeper.join(max(0.1, until - monotonic()))
        return not late and all(stream.ended.result() for stream in streams)

    def _leave(self, holds: Iterable[tuple[str, str]], how: Callable[[OpenStream, str, str], bool]) -> None:
        freed: set[OpenStream] = set()
        unclear = False
        for job_id, lease_id in holds:
            stream = self._owners.by_job.get(job_id)
            if stream is None:
                continue
            if how(stream, job_id, lease_id):
                freed.add(stream)
            else:
                unclear = True
        feeder = self._feeder
        if freed and feeder is not None:
            feeder.room(freed)
        if unclear:
            self.unclear()

    def news(self, stream: OpenStream) -> None:
        """A stream has room again, or something to hand back."""
        feeder = self._feeder
        if feeder is not None:
            feeder.hand_back(stream)


def _nothing() -> None:
    pass
