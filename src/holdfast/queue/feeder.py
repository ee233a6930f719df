"""The one thread of a process that claims for all its streams on one database, and the only one that polls.

Streams that ask for the same queues and tags stand in one line. A line is looked at when somebody may
have put a job there (a signal), when the time comes that the last look found (a job's due time, the end
of a lease), when room appears while more is known to wait, when there are outcomes to write down, and by
the poll: after a tenth of a second while there is work, every `poll_s` when there is none. Each look is
one call: it settles and claims for one stream, and brings back when to look again.
"""

from __future__ import annotations

import heapq
import logging
import os
import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count
from math import inf
from time import monotonic
from typing import Final, TypeAlias

from holdfast.domain.job import ClaimedJob
from holdfast.domain.outcome import Undelivered
from holdfast.errors import DatabaseUnavailable
from holdfast.queue.book import Entry
from holdfast.queue.stream import OpenStream
from holdfast.store import SettledAndClaimed, Settlement, SyncStore
from holdfast.store.signals import Mode, Signals

logger: Final = logging.getLogger("holdfast.queue")

SWEEP_S: Final = 1.0
"""How often a busy line also looks for leases that have ended."""

ACTIVE_S: Final = 0.1
"""The shortest poll: after work was found."""

GATHER_S: Final = 0.005
"""How long room is gathered before more is claimed for a reader that still has something to do."""

SOONEST_S: Final = 0.02
"""The shortest wait for a moment the database named: it may be that of a job others are busy with."""

MOST: Final = 1000
"""The largest claim; more room is filled by several."""

CALL_S: Final = 5.0
HAND_BACK_S: Final = 3.0
LONGEST_PAUSE_S: Final = 5.0

DATABASE_LOST: Final = "database.lost"
DATABASE_BACK: Final = "database.back"
"""The events of log lines, once each however long it takes."""

Filter: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""Queues and tags."""


@dataclass(slots=True, eq=False)
class Line:
    """All streams that ask for the same jobs."""

    filter: Filter
    active_s: float
    poll_s: float
    streams: set[OpenStream] = field(default_factory=set[OpenStream])
    roomy: OrderedDict[OpenStream, None] = field(default_factory=OrderedDict[OpenStream, None])
    """Those that may need a look, in the order of their turns; those with outcomes to tell come first."""
    look_at: float = inf
    poll_at: float = -inf
    """When to claim though nothing is known to wait; a look before that only writes down outcomes."""
    swept_at: float = -inf
    idle_s: float = 0.0
    more: bool = True
    """Whether there may be jobs that nobody has looked for yet."""
    signals: int = 0

    def next_stream(self) -> OpenStream | None:
        """The stream whose turn it is, among those with room or something to report."""
        while self.roomy:
            stream = next(iter(self.roomy))
            if stream.needs_a_look:
                self.roomy.move_to_end(stream)
                return stream
            del self.roomy[stream]
        return None


class Feeder:
    """Shared by all queues of this process on one database and schema. Thread-safe."""

    _shared: Final[dict[tuple[str, str], Feeder]] = {}
    _sharing = threading.Lock()

    def __init__(self, dsn: str, schema: str) -> None:
        self._key = (dsn, schema)
        self._pid = os.getpid()
        self._users = 0
        self._schema = schema
        self._store = SyncStore(dsn, schema=schema, max_size=1)
        self._signals = Signals.share(dsn)
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._lines: dict[Filter, Line] = {}
        self._by_channel: dict[str, set[Line]] = {}
        self._agenda: list[tuple[float, int, Line]] = []
        self._turns = count()
        self._errands: OrderedDict[OpenStream, None] = OrderedDict()
        self._freed: list[Callable[[], None]] = []
        self._freed_signals = 0
        self._stopping = False
        self._failures = 0
        self._paused_until = -inf
        self._subscription = self._signals.subscribe((), self._on_signal)
        self._thread = threading.Thread(target=self._run, name="holdfast feeder", daemon=True)
        self._thread.start()

    @classmethod
    def share(cls, dsn: str, schema: str) -> Feeder:
        """The feeder of this process for a database and schema; give it back with `release`."""
        with cls._sharing:
            feeder = cls._shared.get((dsn, schema))
            if feeder is None or feeder._pid != os.getpid():
                feeder = cls._shared[dsn, schema] = cls(dsn, schema)
            feeder._users += 1
            return feeder

    def release(self, timeout_s: float = CALL_S) -> None:
        """The counterpart of `share`; the last one stops the thread."""
        with self._sharing:
            self._users -= 1
            if self._users:
                return
            if self._shared.get(self._key) is self:
                del self._shared[self._key]
        with self._lock:
            self._stopping = True
            self._wake.notify_all()
        self._thread.join(timeout_s)
        self._subscription.close()
        self._signals.release()
        self._store.close()

    def on_freed(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when somebody else ended a job of a stream; returns what takes this back."""
        with self._lock:
            self._freed.append(callback)
            self._listen()

        def forget() -> None:
            with self._lock:
                self._freed.remove(callback)

        return forget

    def hears_signals(self) -> bool:
        """Whether signals arrive, if any are sent."""
        return self._signals.mode is Mode.LISTENING

    def add(self, stream: OpenStream, poll_s: float, active_s: float = ACTIVE_S) -> None:
        """Begin to claim for a stream, at once."""
        asked: Filter = (stream.terms.queues, stream.terms.tags)
        with self._lock:
            line = self._lines.get(asked)
            if line is None:
                line = self._lines[asked] = Line(asked, active_s, poll_s)
                for queue in stream.terms.queues:
                    self._by_channel.setdefault(self._channel(queue), set()).add(line)
                self._listen()
            line.poll_s = min(line.poll_s, poll_s)
            line.active_s = min(line.active_s, active_s)
            line.streams.add(stream)
            line.roomy[stream] = None
            line.idle_s = line.active_s
            line.more = True
            self._plan(line, monotonic())

    def room(self, streams: Iterable[OpenStream]) -> None:
        """Slots of these streams are free."""
        with self._lock:
            now = monotonic()
            for stream in streams:
                line = self._lines.get((stream.terms.queues, stream.terms.tags))
                if line is None or stream not in line.streams:
                    continue
                line.roomy[stream] = None
                if line.more:
                    self._plan(line, now if stream.is_hungry else now + GATHER_S)
                elif line.look_at == inf:
                    self._plan(line, now + line.idle_s)

    def reported(self, stream: OpenStream) -> None:
        """A stream has outcomes to write down."""
        with self._lock:
            line = self._lines.get((stream.terms.queues, stream.terms.tags))
            if line is not None:
                line.roomy[stream] = None
                line.roomy.move_to_end(stream, last=False)
                self._plan(line, monotonic())

    def look(self, stream: OpenStream) -> None:
        """Somebody wants to know what the queues of a stream have for it."""
        with self._lock:
            line = self._lines.get((stream.terms.queues, stream.terms.tags))
            if line is None:
                stream.looked(0)
            else:
                line.more = True
        self.reported(stream)

    def hand_back(self, stream: OpenStream) -> None:
        """A stream has something to hand back, has room again, or has ended."""
        with self._lock:
            self._errands[stream] = None
            self._wake.notify()

    # Signals

    def _channel(self, queue: str) -> str:
        return f"{self._schema}.need.{queue}"

    def _listen(self) -> None:
        if self._stopping:
            return
        channels = set(self._by_channel)
        if self._freed:
            channels.add(f"{self._schema}.freed")
        self._subscription.set_channels(channels)

    def _on_signal(self, channels: frozenset[str]) -> None:
        freed = f"{self._schema}.freed"
        with self._lock:
            now = monotonic()
            for channel in channels:
                for line in self._by_channel.get(channel, ()):
                    line.signals += 1
                    line.more = True
                    self._plan(line, now)
            is_freed = freed in channels
            self._freed_signals += is_freed
        if is_freed:
            self._tell_of_freed()

    def _tell_of_freed(self) -> None:
        with self._lock:
            listeners = list(self._freed)
        for listener in listeners:
            listener()

    # The thread

    def _plan(self, line: Line, at: float) -> None:
        """Have a line looked at by then. Under the lock."""
        if at < line.look_at:
            line.look_at = at
            heapq.heappush(self._agenda, (at, next(self._turns), line))
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._lock:
                while not (self._stopping or self._errands) and self._next_at() > monotonic():
                    wait_s = self._next_at() - monotonic()
                    self._wake.wait(None if wait_s == inf else max(0.0, wait_s))
                if self._errands:
                    stream, line = self._errands.popitem(last=False)[0], None
                elif self._stopping:
                    return
                else:
                    stream, line = None, self._due_line()
            try:
                if stream is not None:
                    self._run_errand(stream)
                elif line is not None:
                    self._look(line)
            except Exception:
                # A bug of ours must not end all streams of the process.
                logger.exception("the feeder met something unexpected and goes on")
                self._pause("an unexpected error")
                if line is not None:
                    self._look_again(line)

    def _next_at(self) -> float:
        while self._agenda and self._agenda[0][0] != self._agenda[0][2].look_at:
            heapq.heappop(self._agenda)  # planned anew since
        return max(self._agenda[0][0], self._paused_until) if self._agenda else inf

    def _due_line(self) -> Line | None:
        if self._next_at() > monotonic():
            return None
        line = heapq.heappop(self._agenda)[2]
        line.look_at = inf
        return line

    def _look(self, line: Line) -> None:
        now = monotonic()
        with self._lock:
            stream = line.next_stream()
            signals, freed_signals = line.signals, self._freed_signals
            # Only this call, not one that began before it, answers somebody who asks for a look.
            looks = [] if stream is None else stream.take_looks()
            claims = line.more or now >= line.poll_at or bool(looks)
        if stream is None:
            return  # looked at again when there is room
        if stream.unsure and not self._make_sure(line, stream):
            stream.put_back_looks(looks)
            return
        reports = stream.take_reports(MOST)
        asked = stream.ask(MOST, freeing=len(reports)) if claims else 0
        if not (asked or reports):
            stream.looked(0, looks)
            self._plan_poll(line)
            return
        sweeps = not line.more or now - line.swept_at > SWEEP_S
        answer = self._call(line, stream, reports, asked, sweeps)
        if answer is None:
            stream.put_back_looks(looks)
            return
        stream.looked(len(answer.claimed), looks)
        with self._lock:
            now = monotonic()
            if sweeps and asked:
                line.swept_at = now
            if asked:
                line.more = len(answer.claimed) == asked or line.signals != signals
                line.idle_s = line.active_s if answer.claimed else min(line.idle_s * 2, line.poll_s)
                due_in_s = inf if answer.next_due_in_s is None else answer.next_due_in_s + 0.001
                line.poll_at = now + min(line.idle_s, max(SOONEST_S, due_in_s))
            was_freed = answer.claimed and self._freed_signals != freed_signals
        if was_freed:
            # Perhaps it was about a job of this claim, and the keepers looked before it was entered.
            self._tell_of_freed()
        self._plan_poll(line)

    def _call(
        self, line: Line, stream: OpenStream, reports: list[Settlement], asked: int, sweeps: bool
    ) -> SettledAndClaimed | None:
        """Write outcomes down and claim, in one call; None if nobody knows what came of it."""
        terms = stream.terms
        stream.unsure = True  # until the answer is entered: the room stays reserved
        began = monotonic()
        try:
            answer = self._store.settle_and_claim(
                reports,
                terms.assignee_id,
                terms.queues,
                asked,
                lease_s=terms.lease_s,
                tags=terms.tags,
                stream_id=terms.stream_id,
                sweep=sweeps,
                timeout_s=CALL_S,
            )
        except DatabaseUnavailable as error:
            stream.put_back(reports)
            self._pause(str(error))
            self._look_again(line)
            return None
        except Exception as error:
            stream.put_back(reports)
            self._fail(line, stream, error)
            return None
        stream.observe("claims.seconds", monotonic() - began)
        stream.reported(reports, answer.refused)
        self._enter(stream, answer.claimed)
        return answer

    def _plan_poll(self, line: Line) -> None:
        """Have a line looked at again: at once if there is more to do, else by the poll."""
        with self._lock:
            first = next(iter(line.roomy), None)
            at_once = line.more or (first is not None and first.has_reports)
            self._plan(line, monotonic() if at_once else line.poll_at)

    def _look_again(self, line: Line) -> None:
        with self._lock:
            self._plan(line, monotonic())

    def _make_sure(self, line: Line | None, stream: OpenStream) -> bool:
        """Find out what a claim whose answer was lost has brought, and enter it."""
        known = {lease_id for _, lease_id in stream.holdings()}
        reports = stream.take_reports(MOST)
        try:
            if reports:
                self._report(stream, reports, CALL_S)
                reports = []
            held = self._store.jobs_of_stream(stream.terms.stream_id, timeout_s=CALL_S)
        except DatabaseUnavailable as error:
            stream.put_back(reports)
            self._pause(str(error))
            if line is not None:
                self._look_again(line)
            return False
        except Exception as error:
            self._fail(line, stream, error)
            return False
        self._enter(stream, [job for job in held if job.lease_id not in known], is_news=False)
        return True

    def _enter(self, stream: OpenStream, claimed: Iterable[ClaimedJob], *, is_news: bool = True) -> None:
        formers = stream.assign(stream.read(claimed), is_news=is_news)
        stream.unsure = False
        self._recover()
        if formers:
            self.room(formers)
        if stream.is_ending or stream.is_draining:
            self.hand_back(stream)

    def _run_errand(self, stream: OpenStream) -> None:
        """Hand back what is not to be delivered; after that a stream that ends has ended."""
        is_settled = False
        try:
            if stream.is_ending and stream.unsure:
                self._make_sure(None, stream)
            is_told = self._report_last(stream) if stream.is_ending else True
            entries = stream.unwanted()
            is_returned = not entries or self._return(stream, entries)
            is_settled = is_told and is_returned and not stream.unsure
            # What a stream that goes on cannot hand back keeps slot and lease, until the keeper looks again.
            if is_returned or stream.is_ending:
                stream.returned(entries)
        finally:
            if stream.is_ending:
                self._remove(stream)
                stream.looked(0)
                if not stream.ended.done():
                    stream.ended.set_result(is_settled)
            else:
                self.room([stream])

    def _report(self, stream: OpenStream, reports: list[Settlement], timeout_s: float) -> None:
        """Write outcomes down by themselves; what a lost call wrote already is answered as it was."""
        verdicts = self._store.settle_jobs(reports, stream_id=stream.terms.stream_id, timeout_s=timeout_s)
        stream.reported(reports, [verdict for verdict in verdicts if not verdict.ok])

    def _report_last(self, stream: OpenStream) -> bool:
        """Write down what a stream that ends still has to say; False if some could not be."""
        is_told = True
        while reports := stream.take_reports(MOST):
            try:
                self._report(stream, reports, HAND_BACK_S)
            except Exception as error:
                is_told = False
                logger.warning(
                    "%d outcomes of %s could not be written down (%s); those jobs will run again",
                    len(reports),
                    stream.terms.assignee_id,
                    error,
                )
        return is_told

    def _return(self, stream: OpenStream, entries: list[Entry]) -> bool:
        """Hand back jobs that were not delivered; False if that did not work."""
        terms = stream.terms
        settlements: list[Settlement] = [
            (
                entry.job.id,
                entry.lease_id,
                Undelivered(_why(stream, entry), to_worker_stream=terms.for_worker),
            )
            for entry in entries
        ]
        try:
            for start in range(0, len(settlements), MOST):
                self._store.settle_jobs(
                    settlements[start : start + MOST], stream_id=terms.stream_id, timeout_s=HAND_BACK_S
                )
        except Exception as error:
            logger.warning(
                "%d jobs of %s could not be handed back (%s); %s",
                len(entries),
                terms.assignee_id,
                error,
                "they come back when their leases end" if stream.is_ending else "trying again",
            )
            return False
        return True

    def _remove(self, stream: OpenStream) -> None:
        with self._lock:
            line = self._lines.get((stream.terms.queues, stream.terms.tags))
            if line is None or stream not in line.streams:
                return
            line.streams.discard(stream)
            line.roomy.pop(stream, None)
            if line.streams:
                return
            line.look_at = inf
            del self._lines[line.filter]
            for queue in stream.terms.queues:
                lines = self._by_channel.get(self._channel(queue), set())
                lines.discard(line)
                if not lines:
                    self._by_channel.pop(self._channel(queue), None)
            self._listen()

    def _fail(self, line: Line | None, stream: OpenStream, error: Exception) -> None:
        """What the database refuses for good ends the stream, and is raised to its reader."""
        stream.unask()
        stream.unsure = False
        if line is not None:
            self._look_again(line)  # for the others in it
        if stream.end(error):
            logger.error("the stream of %s ends: %s", stream.terms.assignee_id, error)
        self.hand_back(stream)

    # Trouble

    def _pause(self, reason: str) -> None:
        self._failures += 1
        pause_s = min(LONGEST_PAUSE_S, ACTIVE_S * 2 ** min(self._failures, 10)) * random.uniform(0.5, 1.0)  # noqa: S311
        self._paused_until = monotonic() + pause_s
        if self._failures == 1:
            logger.warning(
                "streams cannot claim: %s; trying again until it works",
                reason,
                extra={"event": DATABASE_LOST},
            )

    def _recover(self) -> None:
        if self._failures:
            logger.info(
                "streams claim again, after %d failed attempts",
                self._failures,
                extra={"event": DATABASE_BACK},
            )
            self._failures = 0
            self._paused_until = -inf


def _why(stream: OpenStream, entry: Entry) -> str:
    """Why a job was not delivered, for whoever looks at it later."""
    assignee_id = stream.terms.assignee_id
    if stream.is_ending or stream.is_draining:
        return f"not delivered: the stream of {assignee_id} ended before it could hand the job over"
    what = "cancelled" if entry.cancelling else "its lease ended"
    return f"not delivered: {what} while it waited for the reader of {assignee_id}"
