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
from typing import TypeAlias

from holdfast.queue.attendance import Attending
from holdfast.queue.stream import OpenStream
from holdfast.store.calls.claiming import Floor

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

    def take_next(self) -> Line:
        """The line that is to be looked at next; it is not planned any more."""
        self.next_at()
        line = heapq.heappop(self._agenda)[2]
        line.look_at = inf
        return line


def _filter(stream: OpenStream) -> Filter:
    return stream.terms.queues, stream.terms.tags
