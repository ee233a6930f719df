"""Who stands where: streams that ask for the same jobs in one line, and when each line is to be looked at.

Pure scheduling, without a clock: whoever uses it says what time it is, and holds the feeder's lock.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Set
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Final, TypeAlias

from holdfast.queue.attendance import Attending
from holdfast.queue.stream import OpenStream
from holdfast.store.calls.claiming import Floor
from holdfast.store.values import Attendance

SWEEP_S: Final = 1.0
"""How often a busy line also looks for leases that have ended."""

FLOOR_S: Final = 1.0
FLOOR_SHARE: Final = 20
FLOOR_MOST_S: Final = 5.0
"""How long a busy line claims from where the last claim began, before it looks from the beginning again. A
look from the beginning that took long, as when a long transaction keeps dead rows there, is paid for by
twenty times as long without one, but not for longer than the last: what comes back in line stands there, and
it may have been the way to the database that was slow."""

GATHER_S: Final = 0.005
"""How long room is gathered before more is claimed for a reader that still has something to do."""

SOONEST_S: Final = 0.02
"""The shortest wait for a moment the database named: it may be that of a job others are busy with."""

Filter: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""Queues and tags."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a line asks for, and how things stood when it began."""

    began: float
    asked: int
    signals: int
    waiting: str | None
    """The one job it is for."""
    floor: Floor | None
    sweeps: bool
    attendance: Attendance | None


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
    due_known: bool = True
    """Whether the last look said when something becomes due. One that brought jobs does not."""
    floor: Floor | None = None
    """Where the last full claim began: what stood before that is taken, or was passed over."""
    floor_until: float = -inf
    """When to look from the very beginning again."""
    swept_at: float = -inf
    idle_s: float = 0.0
    more: bool = True
    """Whether there may be jobs that nobody has looked for yet."""
    signals: int = 0
    said_to_wait: str | None = None
    """The only job there is, as far as the last look and one signal since tell."""
    attending: Attending = field(default_factory=Attending)

    def next_stream(self) -> OpenStream | None:
        """The stream whose turn it is, among those with room or something to report."""
        while self.roomy:
            stream = next(iter(self.roomy))
            if stream.needs_a_look:
                self.roomy.move_to_end(stream)
                return stream
            del self.roomy[stream]
        return None

    def look(
        self,
        now: float,
        asked: int,
        *,
        signals: int,
        waiting: str | None,
        from_the_beginning: bool,
        hears_signals: bool,
    ) -> Look:
        """What the next look is to ask for, beside so many jobs."""
        floor = self.floor if now < self.floor_until and not from_the_beginning else None
        # A sweep walks over dead rows as well: it is part of the look from the beginning, and of its price.
        sweeps = floor is None and waiting is None and (not self.more or now - self.swept_at > SWEEP_S)
        # Who is called to a job has its mark, and leaves it.
        attends = asked > 0 and waiting is None and hears_signals
        attendance = self.attending.ask(now, self.poll_s) if attends else None
        return Look(now, asked, signals, waiting, floor, sweeps, attendance)

    def found(self, look: Look, jobs: int, is_full: bool, next_due_in_s: float | None, now: float) -> None:
        """Learn from what a look has brought. Where a full one began is entered with its jobs."""
        if not look.asked:
            return
        if look.sweeps:
            self.swept_at = now
        once_more = self.attending.found(look.attendance, look.began, jobs=jobs, is_full=is_full)
        self.more = is_full or self.signals != look.signals or look.floor is not None or once_more
        self.due_known = look.waiting is None and not jobs
        if not is_full or look.waiting is not None:
            self.floor = None
        if look.floor is None:
            self.floor_until = now + floor_for_s(now - look.began)
        if jobs:
            # When something becomes due is asked when these have begun, with the first outcome.
            self.idle_s = self.active_s / 2
            self.poll_at = now + GATHER_S
        elif not self.due_known:
            self.poll_at = now
        else:
            # Whoever saw nobody wait and commits only now is found by one of the next short polls.
            self.idle_s = self.active_s / 4 if once_more else min(self.idle_s * 2, self.poll_s)
            due_in_s = inf if next_due_in_s is None else next_due_in_s + 0.001
            self.poll_at = now + min(self.idle_s, max(SOONEST_S, due_in_s))


def floor_for_s(look_s: float) -> float:
    """How long to go without a look from the beginning, after one that took so long."""
    return max(FLOOR_S, min(FLOOR_MOST_S, look_s * FLOOR_SHARE))


class Lines:
    """All lines of a feeder, by what they ask for and by the signals that concern them."""

    def __init__(self) -> None:
        self._lines: dict[Filter, Line] = {}
        self._by_queue: dict[str, set[Line]] = {}
        self._agenda: list[tuple[float, int, Line]] = []
        self._turns = count()

    @property
    def queues(self) -> Set[str]:
        """Every queue that somebody reads from."""
        return self._by_queue.keys()

    def of(self, stream: OpenStream) -> Line | None:
        """The line a stream stands in."""
        line = self._lines.get(_filter(stream))
        return line if line is not None and stream in line.streams else None

    def of_queue(self, queue: str) -> Set[Line]:
        """The lines that read from this queue, perhaps among others."""
        return self._by_queue.get(queue, set())

    def add(self, stream: OpenStream, active_s: float, poll_s: float) -> Line:
        """Put a stream in its line, as one that has room."""
        asked = _filter(stream)
        line = self._lines.get(asked)
        if line is None:
            line = self._lines[asked] = Line(asked, active_s, poll_s)
            for queue in stream.terms.queues:
                self._by_queue.setdefault(queue, set()).add(line)
        line.poll_s = min(line.poll_s, poll_s)
        line.active_s = min(line.active_s, active_s)
        line.streams.add(stream)
        line.roomy[stream] = None
        line.idle_s = line.active_s
        line.more = True
        return line

    def remove(self, stream: OpenStream) -> None:
        """Take a stream out of its line; an empty line is gone."""
        line = self.of(stream)
        if line is None:
            return
        line.streams.discard(stream)
        line.roomy.pop(stream, None)
        if line.streams:
            return
        line.look_at = inf
        del self._lines[line.filter]
        for queue in stream.terms.queues:
            self._by_queue[queue].discard(line)
            if not self._by_queue[queue]:
                del self._by_queue[queue]

    def plan(self, line: Line, at: float) -> bool:
        """Have a line looked at by then; False if it is planned for earlier."""
        if at >= line.look_at:
            return False
        line.look_at = at
        heapq.heappush(self._agenda, (at, next(self._turns), line))
        return True

    def next_at(self) -> float:
        """When the next line is to be looked at."""
        while self._agenda and self._agenda[0][0] != self._agenda[0][2].look_at:
            heapq.heappop(self._agenda)  # planned anew since
        return self._agenda[0][0] if self._agenda else inf

    def is_another_due(self, line: Line, now: float) -> bool:
        """Whether any line but this one is to be looked at by now."""
        return any(at <= now and at == other.look_at and other is not line for at, _, other in self._agenda)

    def take_next(self) -> Line:
        """The line that is to be looked at next; it is not planned any more."""
        self.next_at()
        line = heapq.heappop(self._agenda)[2]
        line.look_at = inf
        return line


def _filter(stream: OpenStream) -> Filter:
    return stream.terms.queues, stream.terms.tags
