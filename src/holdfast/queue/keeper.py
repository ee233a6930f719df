"""The thread of a queue that keeps the leases of its jobs alive, and hears what others did to them.

It has a connection of its own, so that no busy pool and no blocked event loop lets a lease lapse. One
call extends what is still held and tells about the rest: cancelled, taken over, ended by somebody else.
It is made three times within a lease, and at once when a signal says that somebody ended or cancelled a
job of some stream. Where there are no signals, because none gets through or because they are switched off,
it is made every 0.8 s for the jobs of workers, who promise to see a cancellation within a second.

Every ten seconds the keeper of a worker says that the worker is there (`beats`), and when it stops, that too;
and it does the upkeep of the installation, unless another worker has just done it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Final, TypeAlias

from holdfast.queue.beats import EVERY_S, LAST_S, Beat
from holdfast.queue.stream import OpenStream
from holdfast.store import SyncStore

logger: Final = logging.getLogger("holdfast.queue")

PER_LEASE: Final = 3
"""How often a lease is extended within its length: two attempts may fail."""

SPACING_S: Final = 0.2
"""The shortest time between two looks that signals ask for."""

UNTOLD_S: Final = 0.8
"""How often a worker's jobs are looked at when nobody would tell of a cancellation: within the second."""

MOST: Final = 1000
RETRY_S: Final = 0.5

Holding: TypeAlias = tuple[OpenStream, str, str]
"""A stream, a job and its lease."""


class Keeper:
    """Keeps the jobs of some streams, delivered or not, until they are settled. Thread-safe."""

    def __init__(
        self,
        dsn: str,
        schema: str,
        on_news: Callable[[OpenStream], None],
        hears_signals: Callable[[], bool] = lambda: True,
        beat: Beat | None = None,
    ) -> None:
        self._beat = beat
        self._beat_at = inf if beat is None else monotonic()
        self._upkeep_at = inf if beat is None else monotonic() + EVERY_S
        self._store = SyncStore(dsn, schema=schema, max_size=1)
        self._on_news = on_news
        self._hears_signals = hears_signals
        self._signals_are_sent = True
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._streams: set[OpenStream] = set()
        self._leases: Counter[float] = Counter()
        """How many streams there are for each length of a lease: few lengths, many streams."""
        self._workers = 0
        """How many of the streams are workers'."""
        self._asked_at = inf
        self._failing = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="holdfast keeper", daemon=True)
        self._thread.start()

    def add(self, stream: OpenStream) -> None:
        """Keep the jobs of a stream from now on, also after it has ended: its reader may still be at work."""
        with self._lock:
            self._streams.add(stream)
            self._leases[stream.terms.lease_s] += 1
            if stream.terms.for_worker:
                self._workers += 1
                self._asked_at = min(self._asked_at, monotonic())  # to learn whether signals are sent
            self._wake.notify()

    def look(self) -> None:
        """Somebody may have done something to a job: find out soon."""
        with self._lock:
            self._asked_at = min(self._asked_at, monotonic())
            self._wake.notify()

    def stop(self) -> None:
        """Let go of everything: what is not settled lapses. Returns without waiting for the database.

        A worker's last word is said when its jobs are handed back, by `join`.
        """
        with self._lock:
            self._stopping = True
            self._wake.notify()

    def join(self, timeout_s: float) -> None:
        """Wait until the thread is gone, and close its connection."""
        until = monotonic() + timeout_s
        self._thread.join(timeout_s)
        if self._beat is not None and not self._thread.is_alive():
            self._say_goodbye(self._beat, min(LAST_S, until - monotonic()))
        self._store.close()

    def _run(self) -> None:
        looked_at = monotonic()
        while (streams := self._wait(looked_at)) is not None:
            looked_at = monotonic()
            try:
                self._extend(streams)
                if self._workers:
                    self._signals_are_sent = self._store.is_notify_enabled(timeout_s=UNTOLD_S)
                if self._beat is not None and monotonic() >= self._beat_at:
                    self._store.run(self._beat.call(LAST_S))
                    self._beat_at = monotonic() + EVERY_S
            except Exception as error:
                if not self._failing:
                    self._failing = True
                    logger.warning("leases cannot be extended: %s; trying again until it works", error)
                self._beat_at = max(self._beat_at, monotonic() + RETRY_S)
                with self._lock:
                    self._asked_at = min(self._asked_at, monotonic() + RETRY_S)
            else:
                if self._failing:
                    self._failing = False
                    logger.info("leases are extended again")
            self._forget_those_over(streams)
            if monotonic() >= self._upkeep_at:
                self._keep_up()

    def _wait(self, looked_at: float) -> list[OpenStream] | None:
        """Wait until it is time to look again: the streams to look at, or None at the end."""
        with self._lock:
            while not self._stopping:
                asked_at = min(self._asked_at, self._beat_at, self._upkeep_at)
                due = min(looked_at + self._every_s(), max(asked_at, looked_at + SPACING_S))
                wait_s = due - monotonic()
                if wait_s <= 0:
                    self._asked_at = inf
                    return list(self._streams)
                # Signals may be lost meanwhile, and nobody would tell of that either.
                longest_s = UNTOLD_S if self._workers else inf
                self._wake.wait(None if wait_s == inf else min(wait_s, longest_s))
            return None

    def _every_s(self) -> float:
        """How often to look though nobody has asked for it."""
        every_s = min(self._leases, default=inf) / PER_LEASE
        untold = self._workers and not (self._signals_are_sent and self._hears_signals())
        return min(every_s, UNTOLD_S) if untold else every_s

    def _keep_up(self) -> None:
        """The upkeep takes a tenth of a second at a time, and must never take the time of a lease."""
        more = False
        try:
            more = self._store.upkeep(timeout_s=min(5.0, max(0.5, self._every_s() / 2)))
        except Exception as error:
            logger.info("the upkeep of the database failed: %s; trying again in %.0f s", error, EVERY_S)
        self._upkeep_at = monotonic() + (SPACING_S if more else EVERY_S)

    def _say_goodbye(self, beat: Beat, timeout_s: float) -> None:
        if timeout_s <= 0:
            return
        try:
            self._store.run(beat.call(timeout_s, stopped=True))
        except Exception as error:
            logger.info("nobody could be told that worker %s has stopped: %s", beat.worker_id, error)

    def _extend(self, streams: list[OpenStream]) -> None:
        by_time: defaultdict[float, list[Holding]] = defaultdict(list)
        for stream in streams:
            kept_s = stream.kept_s()
            if kept_s > 0:
                by_time[kept_s] += [(stream, *holding) for holding in stream.holdings()]
        for kept_s, holdings in by_time.items():
            for start in range(0, len(holdings), MOST):
                self._extend_some(holdings[start : start + MOST], kept_s)

    def _extend_some(self, holdings: list[Holding], kept_s: float) -> None:
        answers = self._store.extend_leases(
            [(job_id, lease_id) for _, job_id, lease_id in holdings],
            kept_s,
            timeout_s=max(0.5, kept_s / PER_LEASE),
        )
        news: set[OpenStream] = set()
        for (stream, _, lease_id), answer in zip(holdings, answers, strict=True):
            if stream.heard([(lease_id, answer)]):
                news.add(stream)
        for stream in news:
            self._on_news(stream)
        for stream in {stream for stream, _, _ in holdings if stream.has_doubts}:
            stream.has_doubts = False
            self.look()

    def _forget_those_over(self, streams: list[OpenStream]) -> None:
        over = [stream for stream in streams if stream.is_over]
        if over:
            with self._lock:
                self._streams -= set(over)
                self._leases -= Counter(stream.terms.lease_s for stream in over)
                self._workers -= sum(stream.terms.for_worker for stream in over)
