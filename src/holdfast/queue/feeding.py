"""When to claim for which stream, and what to make of the answer: all that a feeder decides.

Streams that ask for the same queues and tags stand in one line. A line is looked at when somebody may
have put a job there (a signal), when the time comes that the last look found (a job's due time, the end
of a lease), when room appears while more is known to wait, when there are outcomes to write down, and by
the poll: after a tenth of a second while there is work, every `poll_s` when there is none. Each look is
one call: it settles and claims for one stream, and brings back when to look again.

What is decided here is carried out in two places: by a thread (`feeder`) and on a worker's own event loop
(`loop_feeder`). Both take turns through their steps, one at a time.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from time import monotonic
from typing import Final

from holdfast.domain.job import ClaimedJob
from holdfast.errors import DatabaseUnavailable
from holdfast.queue import returns
from holdfast.queue.arrived import Arrived
from holdfast.queue.lines import GATHER_S, Line, Lines
from holdfast.queue.returns import MOST
from holdfast.queue.setbacks import Setbacks
from holdfast.queue.stream import OpenStream
from holdfast.store import SettledAndClaimed, Settlement
from holdfast.store.call import Call
from holdfast.store.calls.claiming import Floor, jobs_of_stream
from holdfast.store.calls.settling import settle_and_claim
from holdfast.store.signals import Mode, Signals
from holdfast.store.steps import Steps, ask

logger: Final = logging.getLogger("holdfast.queue")

ACTIVE_S: Final = 0.1
"""The shortest poll: after work was found."""

CALL_S: Final = 5.0


class Feeding(ABC):
    """The streams somebody claims for, and what to do for them next. Thread-safe, but for its turns."""

    def __init__(self, dsn: str, schema: str, loop: AbstractEventLoop | None = None) -> None:
        self._need = f"{schema}.need."
        self._freed_channel = f"{schema}.freed"
        self._signals = Signals.share(dsn, loop)
        self._lock = threading.Lock()
        self._lines = Lines()
        self._errands: OrderedDict[OpenStream, None] = OrderedDict()
        self._freed: list[Callable[[], None]] = []
        self._freed_signals = 0
        self._stopping = False
        self._setbacks = Setbacks()
        self._subscription = self._signals.subscribe((), self._on_signal)

    @abstractmethod
    def release(self, timeout_s: float = CALL_S) -> None:
        """Somebody needs it no more; the last one stops it, within this time."""

    @abstractmethod
    def _ring(self) -> None:
        """There may be something to do sooner than it was known. Under the lock, from any thread."""

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
        with self._lock:
            line = self._lines.add(stream, active_s, poll_s)
            self._listen()
            self._plan(line, monotonic())

    def room(self, streams: Iterable[OpenStream]) -> None:
        """Slots of these streams are free."""
        with self._lock:
            now = monotonic()
            for stream in streams:
                line = self._lines.of(stream)
                if line is None:
                    continue
                line.roomy[stream] = None
                if line.more:
                    self._plan(line, now if stream.is_hungry else now + GATHER_S)
                elif line.look_at == inf:
                    self._plan(line, now + line.idle_s)

    def reported(self, stream: OpenStream) -> None:
        """A stream has outcomes to write down."""
        with self._lock:
            line = self._lines.of(stream)
            if line is not None:
                line.roomy[stream] = None
                line.roomy.move_to_end(stream, last=False)
                self._plan(line, monotonic())

    def look(self, stream: OpenStream) -> None:
        """Somebody wants to know what the queues of a stream have for it."""
        with self._lock:
            line = self._lines.of(stream)
            if line is None:
                stream.looks.answer(0)
            else:
                line.more = True
        self.reported(stream)

    def hand_back(self, stream: OpenStream) -> None:
        """A stream has something to hand back, has room again, or has ended."""
        with self._lock:
            self._errands[stream] = None
            self._ring()

    # Signals

    def _listen(self) -> None:
        if self._stopping:
            return
        channels = {self._need + queue for queue in self._lines.queues}
        if self._freed:
            channels.add(self._freed_channel)
        self._subscription.set_channels(channels)

    def _on_signal(self, channels: Mapping[str, str]) -> None:
        with self._lock:
            now = monotonic()
            for channel, said in channels.items():
                for line in self._lines.of_queue(channel.removeprefix(self._need)):
                    line.said_to_wait = None if line.more else said or None
                    line.signals += 1
                    line.more = True
                    self._plan(line, now)
            is_freed = self._freed_channel in channels
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
        if self._lines.plan(line, at):
            self._ring()

    def _next_turn(self) -> Steps[None] | None:
        """What is to be done now, None if nothing is. Under the lock."""
        if self._errands:
            return self._turn(self._errands.popitem(last=False)[0], None)
        if self._stopping or self._next_at() > monotonic():
            return None
        return self._turn(None, self._lines.take_next())

    @property
    def _is_over(self) -> bool:
        return self._stopping and not self._errands

    def _idle_s(self) -> float:
        """How long there is nothing to do, as far as is known. Under the lock."""
        return max(0.0, self._next_at() - monotonic())

    def _stop(self) -> None:
        """Do what is to be handed back, and nothing more."""
        with self._lock:
            self._stopping = True
            self._ring()

    def _stop_listening(self) -> None:
        """Blocks for a moment if nobody else listens."""
        self._subscription.close()
        self._signals.release()

    def _turn(self, stream: OpenStream | None, line: Line | None) -> Steps[None]:
        try:
            if stream is not None:
                yield from self._run_errand(stream)
            elif line is not None:
                yield from self._look(line)
        except Exception:
            # A bug of ours must not end all streams of the process.
            logger.exception("the feeder met something unexpected and goes on")
            self._setbacks.pause("an unexpected error")
            if line is not None:
                self._look_again(line)

    def _most(self, stream: OpenStream) -> int:
        """The most jobs that one call claims for a stream, and the most outcomes it writes down."""
        return MOST

    def _next_at(self) -> float:
        return max(self._lines.next_at(), self._setbacks.paused_until)

    def _look(self, line: Line) -> Steps[None]:
        """Look at a line, and again as long as the next call can be sent before the last is entered."""
        arrived = yield from self._look_once(line, None)
        while arrived is not None:
            arrived = yield from self._look_once(line, arrived)

    def _look_once(self, line: Line, arrived: Arrived | None) -> Steps[Arrived | None]:
        """One call, during which is entered what has arrived; what it brought, if that can wait as well."""
        now = monotonic()
        with self._lock:
            stream = line.next_stream() if arrived is None else arrived.stream
            signals, freed_signals = line.signals, self._freed_signals
            # Only this call, not one that began before it, answers somebody who asks for a look.
            looks = [] if stream is None else stream.looks.take()
            waiting, line.said_to_wait = line.said_to_wait, None
            claims = line.more or not line.due_known or now >= line.poll_at or bool(looks)
        if stream is None:
            return None  # looked at again when there is room
        if arrived is None and stream.unsure and not (yield from self._make_sure(line, stream)):
            stream.looks.put_back(looks)
            return None
        most = self._most(stream)
        reports = stream.take_reports(most)
        asked = self._ask(stream, most, reports, arrived) if claims else 0
        if not (asked or reports):
            stream.looks.answer(0, looks)
            self._plan_poll(line)
            return None
        look = line.look(
            now,
            asked,
            signals=signals,
            # Whoever was called to one job wants that and nothing else. If it is gone, the next look asks
            # what becomes due.
            waiting=None if reports or looks else waiting,
            # Whoever asks for a look wants to know of everything there is.
            from_the_beginning=bool(looks),
            hears_signals=self.hears_signals(),
        )
        call = settle_and_claim(
            reports,
            stream.terms.claiming,
            asked,
            sweep=look.sweeps,
            floor=look.floor,
            waiting=look.waiting,
            attendance=look.attendance,
            take_resources=stream.terms.for_worker,
            meanwhile=arrived.enter if arrived else None,
            timeout_s=CALL_S,
        )
        answer = yield from self._call(line, stream, reports, call, arrived)
        if answer is None:
            line.attending.lost()
            stream.looks.put_back(looks)
            return None
        # What is refused may be held all the same, and is not claimed for.
        is_full = asked > 0 and len(answer.claimed) >= asked - len(answer.refused)

        def enter() -> None:
            if reports:
                stream.reported(reports, answer.refused)
            self._enter(stream, answer.claimed, asked=asked)
            if is_full and look.waiting is None:
                line.floor = _beginning_of(answer.claimed)
            if answer.claimed and self._freed_signals != freed_signals:
                # Perhaps it was about a job of this claim, and the keepers looked before it was entered.
                self._tell_of_freed()

        brought = Arrived(enter, stream, reports, asked)
        was_lost = arrived is not None and arrived.is_lost
        goes_on = is_full and not (looks or was_lost or answer.refused) and self._may_go_on(line, stream)
        if not goes_on:
            brought.enter()
            stream.unsure = was_lost or brought.is_lost
        stream.looks.answer(len(answer.claimed), looks)
        with self._lock:
            line.found(look, len(answer.claimed), is_full, answer.next_due_in_s, monotonic())
        if goes_on:
            return brought
        if stream.has_reports:
            self.reported(stream)
        self._plan_poll(line)
        return None

    def _ask(self, stream: OpenStream, most: int, reports: list[Settlement], arrived: Arrived | None) -> int:
        """Reserve room for the next call, which writes these outcomes down."""
        if arrived is None:
            return stream.ask(most, reports)
        return stream.ask(most, [*arrived.settled, *reports], arrived.asked)

    def _may_go_on(self, line: Line, stream: OpenStream) -> bool:
        """Whether the next call can only be for the same stream, and has something to say already."""
        if not stream.has_reports or stream.looks:
            return False
        with self._lock:
            is_alone = len(line.streams) == 1 and not self._lines.is_another_due(line, monotonic())
            return is_alone and not (self._errands or self._stopping)

    def _call(
        self,
        line: Line,
        stream: OpenStream,
        reports: list[Settlement],
        call: Call[SettledAndClaimed],
        arrived: Arrived | None,
    ) -> Steps[SettledAndClaimed | None]:
        """Write outcomes down and claim, in one call; None if nobody knows what came of it."""
        stream.unsure = True  # until the answer is entered: the room stays reserved
        began = monotonic()
        try:
            try:
                answer = yield from ask(call)
            finally:
                if arrived is not None:
                    arrived.enter()  # if the call was never sent
        except DatabaseUnavailable as error:
            stream.put_back(reports)
            self._setbacks.pause(str(error))
            self._look_again(line)
            return None
        except Exception as error:
            stream.put_back(reports)
            self._fail(line, stream, error)
            return None
        stream.observe("claims.seconds", monotonic() - began)
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

    def _make_sure(self, line: Line | None, stream: OpenStream) -> Steps[bool]:
        """Find out what a claim whose answer was lost has brought, and enter it."""
        known = {lease_id for _, lease_id in stream.holdings()}
        reports = stream.take_reports(MOST)
        try:
            if reports:
                yield from returns.report(stream, reports, CALL_S)
                reports = []
            held = yield from ask(jobs_of_stream(stream.terms.stream_id, timeout_s=CALL_S))
        except DatabaseUnavailable as error:
            stream.put_back(reports)
            self._setbacks.pause(str(error))
            if line is not None:
                self._look_again(line)
            return False
        except Exception as error:
            stream.put_back(reports)
            self._fail(line, stream, error)
            return False
        self._enter(stream, [job for job in held if job.lease_id not in known], is_news=False)
        stream.unsure = False
        return True

    def _enter(
        self,
        stream: OpenStream,
        claimed: Iterable[ClaimedJob],
        *,
        is_news: bool = True,
        asked: int | None = None,
    ) -> None:
        formers = stream.assign(stream.read(claimed), is_news=is_news, asked=asked)
        self._setbacks.recover()
        if formers:
            self.room(formers)
        if stream.is_ending or stream.is_draining:
            self.hand_back(stream)

    def _run_errand(self, stream: OpenStream) -> Steps[None]:
        """Hand back what is not to be delivered; after that a stream that ends has ended."""
        is_settled = False
        try:
            if stream.is_ending and stream.unsure and not (yield from self._make_sure(None, stream)):
                logger.warning(
                    "what the last claim of %s brought could not be found out; it comes back as leases end",
                    stream.terms.assignee_id,
                )
            is_told = (yield from returns.report_last(stream)) if stream.is_ending else True
            entries = stream.unwanted()
            gone = (yield from returns.hand_back(stream, entries)) if entries else []
            is_settled = is_told and gone is not None and not stream.unsure
            # What a stream that goes on cannot hand back keeps slot and lease, until the keeper looks again.
            stream.returned(entries if stream.is_ending else gone or [])
            if gone is not None and len(gone) < len(entries):
                self._tell_of_freed()
        finally:
            if stream.is_ending:
                self._remove(stream)
                stream.looks.answer(0)
                if not stream.ended.done():
                    stream.ended.set_result(is_settled)
            else:
                self.room([stream])

    def _remove(self, stream: OpenStream) -> None:
        with self._lock:
            self._lines.remove(stream)
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


def _beginning_of(claimed: Sequence[ClaimedJob]) -> Floor | None:
    """The first place of these jobs among those of the priority that the next claim goes on with."""
    if not claimed:
        return None
    priority = claimed[-1].priority
    first = min([(job.available_at, job.number) for job in claimed if job.priority == priority])
    return Floor(priority, *first)
