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
from collections.abc import Callable, Iterable, Mapping
from math import inf
from time import monotonic
from typing import Final

from holdfast.domain.job import ClaimedJob
from holdfast.errors import DatabaseUnavailable
from holdfast.queue import returns
from holdfast.queue.lines import Line, Lines
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

SWEEP_S: Final = 1.0
"""How often a busy line also looks for leases that have ended."""

ACTIVE_S: Final = 0.1
"""The shortest poll: after work was found."""

FLOOR_S: Final = 1.0
FLOOR_SHARE: Final = 10
FLOOR_MOST_S: Final = 5.0
"""How long a busy line claims from where the last claim began, before it looks from the beginning again. A
look from the beginning that took long, as when a long transaction keeps dead rows there, is paid for by ten
times as long without one, but not for longer than the last: what comes back in line stands there, and it may
have been the way to the database that was slow."""

GATHER_S: Final = 0.005
"""How long room is gathered before more is claimed for a reader that still has something to do."""

SOONEST_S: Final = 0.02
"""The shortest wait for a moment the database named: it may be that of a job others are busy with."""

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
                stream.looked(0)
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
        now = monotonic()
        with self._lock:
            stream = line.next_stream()
            signals, freed_signals = line.signals, self._freed_signals
            # Only this call, not one that began before it, answers somebody who asks for a look.
            looks = [] if stream is None else stream.take_looks()
            waiting, line.said_to_wait = line.said_to_wait, None
            claims = line.more or not line.due_known or now >= line.poll_at or bool(looks)
        if stream is None:
            return  # looked at again when there is room
        if stream.unsure and not (yield from self._make_sure(line, stream)):
            stream.put_back_looks(looks)
            return
        most = self._most(stream)
        reports = stream.take_reports(most)
        asked = stream.ask(most, reports) if claims else 0
        if not (asked or reports):
            stream.looked(0, looks)
            self._plan_poll(line)
            return
        # Whoever asks for a look wants to know of everything there is.
        floor = line.floor if now < line.floor_until and not looks else None
        # Whoever was called to one job wants that and nothing else. If it is gone, the next look asks what
        # becomes due.
        if reports or looks:
            waiting = None
        # A sweep walks over dead rows as well: it is part of the look from the beginning, and of its price.
        sweeps = floor is None and waiting is None and (not line.more or now - line.swept_at > SWEEP_S)
        # Who is called to a job has its mark, and leaves it.
        attends = bool(asked) and waiting is None and self.hears_signals()
        attendance = line.attending.ask(now, line.poll_s) if attends else None
        terms = stream.terms
        call = settle_and_claim(
            reports,
            terms.assignee_id,
            terms.queues,
            asked,
            lease_s=terms.lease_s,
            tags=terms.tags,
            stream_id=terms.stream_id,
            sweep=sweeps,
            floor=floor,
            waiting=waiting,
            attendance=attendance,
            take_resources=terms.for_worker,
            timeout_s=CALL_S,
        )
        answer = yield from self._call(line, stream, reports, call)
        if answer is None:
            line.attending.lost()
            stream.put_back_looks(looks)
            return
        stream.looked(len(answer.claimed), looks)
        with self._lock:
            began, now = now, monotonic()
            if sweeps and asked:
                line.swept_at = now
            if asked:
                # What is refused may be held all the same, and is not claimed for.
                is_full = len(answer.claimed) >= asked - len(answer.refused)
                once_more = line.attending.found(attendance, began, jobs=len(answer.claimed), is_full=is_full)
                line.more = is_full or line.signals != signals or floor is not None or once_more
                line.due_known = waiting is None and not answer.claimed
                line.floor = _beginning_of(answer.claimed) if is_full and waiting is None else None
                if floor is None:
                    line.floor_until = now + floor_for_s(now - began)
                if answer.claimed:
                    # When something becomes due is asked when these have begun, with the first outcome.
                    line.idle_s = line.active_s / 2
                    line.poll_at = now + GATHER_S
                elif not line.due_known:
                    line.poll_at = now
                else:
                    # Whoever saw nobody wait and commits only now is found by one of the next short polls.
                    line.idle_s = line.active_s / 4 if once_more else min(line.idle_s * 2, line.poll_s)
                    due_in_s = inf if answer.next_due_in_s is None else answer.next_due_in_s + 0.001
                    line.poll_at = now + min(line.idle_s, max(SOONEST_S, due_in_s))
            was_freed = answer.claimed and self._freed_signals != freed_signals
        if stream.has_reports:
            self.reported(stream)
        if was_freed:
            # Perhaps it was about a job of this claim, and the keepers looked before it was entered.
            self._tell_of_freed()
        self._plan_poll(line)

    def _call(
        self, line: Line, stream: OpenStream, reports: list[Settlement], call: Call[SettledAndClaimed]
    ) -> Steps[SettledAndClaimed | None]:
        """Write outcomes down and claim, in one call; None if nobody knows what came of it."""
        stream.unsure = True  # until the answer is entered: the room stays reserved
        began = monotonic()
        try:
            answer = yield from ask(call)
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
        return True

    def _enter(self, stream: OpenStream, claimed: Iterable[ClaimedJob], *, is_news: bool = True) -> None:
        formers = stream.assign(stream.read(claimed), is_news=is_news)
        stream.unsure = False
        self._setbacks.recover()
        if formers:
            self.room(formers)
        if stream.is_ending or stream.is_draining:
            self.hand_back(stream)

    def _run_errand(self, stream: OpenStream) -> Steps[None]:
        """Hand back what is not to be delivered; after that a stream that ends has ended."""
        is_settled = False
        try:
            if stream.is_ending and stream.unsure:
                yield from self._make_sure(None, stream)
            is_told = (yield from returns.report_last(stream)) if stream.is_ending else True
            entries = stream.unwanted()
            is_returned = not entries or (yield from returns.hand_back(stream, entries))
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


def floor_for_s(look_s: float) -> float:
    """How long to go without a look from the beginning, after one that took so long."""
    return max(FLOOR_S, min(FLOOR_MOST_S, look_s * FLOOR_SHARE))


def _beginning_of(claimed: list[ClaimedJob]) -> Floor | None:
    """The place in line of the first of these jobs, by due time and number."""
    return min(((job.available_at, job.number) for job in claimed), default=None)
