"""One open stream, as the threads behind it see it. How people read from it is in `faces`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from math import inf
from time import monotonic
from typing import Any, Final

from holdfast.domain.job import ClaimedJob
from holdfast.domain.outcome import Reason, Verdict
from holdfast.domain.states import HELD
from holdfast.queue.book import Book, Entry, Leased, keeps_slot
from holdfast.queue.looks import Looks
from holdfast.queue.terms import Terms
from holdfast.queue.values import JobStatus, job_from_claim
from holdfast.store import Extension, Settlement
from holdfast.store.values import Hold

logger: Final = logging.getLogger("holdfast.queue")

TRUSTED_S: Final = 0.05
"""A job that has waited longer for its reader is looked at once more: it may have been cancelled."""

Tell = Callable[[Callable[[str], object], str], None]
"""Calls a user's callback where the user expects it: on the event loop, or right here."""


Refused = Callable[[Settlement, Verdict], None]
"""Hears of a report that was in vain. If the job is held all the same, it is to be reported otherwise."""


class Ended(Exception):
    """There is nothing more to read. Raised to the faces only."""


class Owners:
    """Which stream of a queue has which job.

    One lock for all of them, because a job passes from one to another. Reentrant: a signal handler may close
    a stream whose reader it has interrupted.
    """

    def __init__(self) -> None:
        self.lock: Final = threading.RLock()
        self.by_job: Final[dict[str, OpenStream]] = {}


class OpenStream:
    """The state that reader, feeder and keeper share. Thread-safe; no method waits but for the lock."""

    def __init__(
        self,
        terms: Terms,
        wake_reader: Callable[[], None],
        tell: Tell,
        owners: Owners,
        refused: Refused | None = None,
        observe: Callable[[str, float], None] | None = None,
        kept_s: Callable[[], float] | None = None,
    ) -> None:
        self.terms: Final = terms
        self.kept_s: Final = kept_s or (lambda: terms.lease_s)
        """For how long from now its jobs are kept: a whole lease, unless its reader is somewhere else."""
        self.ended: Final[Future[bool]] = Future()
        """Done when everything that was not delivered is handed back, or given up: whether it all worked."""
        self.unsure = False
        """Whether a call for it was lost on the way, so that nobody knows what it did. The feeder's own."""
        self.has_doubts = False
        """Whether the keeper is to ask again about a job, soon. The keeper's own."""
        self.resumed: set[str] = set()
        """Jobs delivered anew that a worker may not have let go of; see `take_resumed`."""
        self._owners = owners.by_job
        self._lock = owners.lock
        self._book = Book(terms.capacity, terms.lease_s if terms.for_worker else inf)
        self._wake_reader = wake_reader
        self._tell = tell
        self._refused = refused or _ignore
        self.looks: Final = Looks(owners.lock)
        self.observe: Final = observe or _overlook
        """Takes durations by name, for metrics."""
        self._ending = False
        self._draining = False
        self._error: BaseException | None = None
        self._reports: list[Settlement] = []
        self._on_cancel: list[Callable[[str], object]] = []
        self._on_lost: list[Callable[[str], object]] = []

    # What the reader does

    def take(self) -> list[Any] | None:
        """Everything that waits, None if nothing does; Ended when there will be no more.

        What the database has not confirmed for the length of a lease may be somebody else's by now. It waits
        until it is heard of.
        """
        with self._lock:
            if self._ending:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                raise Ended
            if self._draining:
                return None
            return self._book.deliver(monotonic() - self.terms.lease_s) or None

    def take_back(self, holds: Iterable[tuple[str, str]]) -> None:
        """What was taken and never reached the reader is handed back with the rest, when the stream ends."""
        with self._lock:
            for job_id, lease_id in holds:
                self._book.take_back(job_id, lease_id)

    def adopt(self, job: Leased, *, cancelling: bool) -> OpenStream | None:
        """Hold a job that the reader has from an earlier stream, under the same lease; answer that stream.

        Before anything is claimed for it: what is adopted takes a slot.
        """
        with self._lock:
            former = self._owners.get(job.id)
            if former is not None:
                former._book.free(job.id)
            self._book.adopt(job, monotonic(), cancelling=cancelling)
            self._owners[job.id] = self
        return former

    def let_go(self) -> None:
        """Keep and watch nothing more of what was delivered: it is its reader's until the leases lapse.

        Only after the end: until then what is forgotten would be found again, and handed back.
        """
        with self._lock:
            for job_id, lease_id in self.holdings():
                self._disown(self._book.free(job_id, lease_id))

    def holds(self, job_id: str, lease_id: str) -> bool:
        """Whether it has this job under this lease, as far as is known here."""
        with self._lock:
            entry = self._book.entries.get(job_id)
            return entry is not None and entry.lease_id == lease_id

    def doubtful(self) -> list[Entry]:
        """Jobs that have waited so long for the reader that they should be looked at first."""
        with self._lock:
            return self._book.unseen_since(monotonic() - TRUSTED_S)

    def on_cancel(self, callback: Callable[[str], object]) -> None:
        with self._lock:
            self._on_cancel.append(callback)

    def on_lost(self, callback: Callable[[str], object]) -> None:
        with self._lock:
            self._on_lost.append(callback)

    def report(self, reports: list[Settlement]) -> bool:
        """Have outcomes written down with the next call, many in one commit; then their slots are free.

        True: the feeder must be told. It knows when there were some before.
        """
        with self._lock:
            knows = bool(self._reports)
            self._reports += reports
            return not knows

    @property
    def is_ending(self) -> bool:
        return self._ending

    @property
    def is_draining(self) -> bool:
        return self._draining

    @property
    def held(self) -> int:
        """How many jobs it holds, delivered or not."""
        return len(self._book.entries)

    @property
    def is_over(self) -> bool:
        """Whether it has ended and nobody has a job of it any more."""
        return self.ended.done() and not (self._book.entries or self._book.lapsed)

    # What the feeder does

    def read(self, claimed: Iterable[ClaimedJob]) -> list[Leased]:
        """Jobs as this stream delivers them."""
        if self.terms.for_worker:
            return list(claimed)
        return [job_from_claim(job, self.terms.assignee_id, self.terms.lease_s) for job in claimed]

    @property
    def has_room(self) -> bool:
        return not (self._ending or self._draining) and self._book.room > 0

    @property
    def has_reports(self) -> bool:
        return bool(self._reports)

    @property
    def needs_a_look(self) -> bool:
        """Whether there is anything the feeder can do for it."""
        return self.has_room or self.has_reports or self.unsure or bool(self.looks)

    @property
    def is_hungry(self) -> bool:
        """Whether the reader has nothing left to take."""
        return not self._book.waiting

    def ask(self, most: int, reports: Sequence[Settlement] = (), arrived: int = 0) -> int:
        """Reserve room for a claim that writes these outcomes down before, which frees their slots.

        `arrived`: what the claim before it had reserved, if that is not entered yet.
        """
        with self._lock:
            if self._ending or self._draining:
                return 0
            return self._book.ask(most, self._book.slots_of(reports), arrived)

    def take_reports(self, most: int) -> list[Settlement]:
        """Outcomes to be written down now."""
        with self._lock:
            taken, self._reports = self._reports[:most], self._reports[most:]
        return taken

    def put_back(self, reports: list[Settlement]) -> None:
        """Outcomes of which nobody knows whether they were written down: to be told again."""
        with self._lock:
            self._reports = reports + self._reports

    def reported(self, reports: list[Settlement], refused: Iterable[Verdict] = ()) -> None:
        """Outcomes were written down, or refused. What is refused may keep its slot, see `keeps_slot`."""
        refusals = {verdict.job_id: verdict for verdict in refused if verdict.reason is not Reason.ALREADY}
        kept = {job_id for job_id, verdict in refusals.items() if keeps_slot(verdict)}
        with self._lock:
            for job_id in self._book.free_settled(reports, kept):
                if self._owners.get(job_id) is self:
                    del self._owners[job_id]
        if refusals:
            for report in reports:
                if report[0] in refusals:
                    self._refused(report, refusals[report[0]])

    def unask(self) -> None:
        with self._lock:
            self._book.unask()

    def assign(
        self, jobs: Sequence[Leased], *, is_news: bool = True, asked: int | None = None
    ) -> set[OpenStream]:
        """Enter what was claimed; return the streams that had some of it until now, and have room instead.

        If the stream has ended meanwhile, the jobs go back with the rest.
        """
        formers: set[OpenStream] = set()
        lost: list[tuple[OpenStream, str]] = []
        now = monotonic()
        with self._lock:
            for job in jobs:
                former = self._owners.get(job.id, self)
                if former is not self:
                    formers.add(former)
                    entry = former._book.free(job.id)
                    if entry is not None and entry.delivered and not entry.is_settling(now):
                        lost.append((former, job.id))
            superseded = self._book.assign(jobs, now, is_news=is_news, asked=asked)
            lost += [(self, old.job.id) for old in superseded if not self._resumes(old, now)]
            self._owners.update(dict.fromkeys([job.id for job in jobs], self))
        for stream, job_id in lost:
            stream._call(stream._on_lost, job_id)
        if jobs:
            self._wake_reader()
        return formers

    def _resumes(self, old: Entry, now: float) -> bool:
        """Whether a job that was claimed anew is one that this worker has not let go of.

        Its lease had lapsed and nobody else has claimed it since: what is being done, or is done already,
        counts under the new lease. If somebody took it away from a worker whose leases are kept, it is to be
        done anew.
        """
        if not self._book.has_lapsed(old, now):
            return False
        job_id = old.job.id
        done = [report[:2] == (job_id, old.lease_id) for report in self._reports]
        if any(done):
            lease_id = self._book.resume(job_id)
            self._reports = [
                (job_id, lease_id, report[2]) if is_done else report
                for report, is_done in zip(self._reports, done, strict=True)
            ]
        else:
            self.resumed.add(job_id)
        return True

    def take_resumed(self) -> set[str]:
        """Jobs claimed anew of which this worker may not have let go: see `_resumes`."""
        with self._lock:
            resumed, self.resumed = self.resumed, set()
        return resumed

    def unwanted(self) -> list[Entry]:
        """What must be handed back now: what was withdrawn in time; at the end, all that waits."""
        with self._lock:
            if self._ending or self._draining:
                self._book.withdraw_all()
            return list(self._book.unwanted.values())

    def returned(self, entries: Iterable[Entry]) -> None:
        """These are handed back, or given up: the leases nobody extends any more lapse."""
        with self._lock:
            for entry in entries:
                self._disown(self._book.free(entry.job.id, entry.lease_id))

    # What ends it

    def drain(self) -> None:
        """Let nothing more be claimed or delivered; what was delivered can still be reported."""
        with self._lock:
            self._draining = True

    def end(self, error: BaseException | None = None) -> bool:
        """Let nothing more be claimed or delivered; True for whoever was first."""
        with self._lock:
            if self._ending:
                return False
            self._ending = True
            self._error = error
        self._wake_reader()
        return True

    # What is heard of its jobs

    def holdings(self) -> list[tuple[str, str]]:
        """Jobs and leases to be kept alive, or at least watched."""
        with self._lock:
            return [
                (job_id, entry.lease_id)
                for place in (self._book.entries, self._book.lapsed)
                for job_id, entry in place.items()
            ]

    def settling(self, job_id: str) -> str | None:
        """Somebody sets out to settle a job through this queue; the lease it is held under."""
        with self._lock:
            if (entry := self._book.find(job_id)) is not None:
                entry.settling_at = monotonic()
                return entry.lease_id
            return None

    def settled(self, job_id: str, lease_id: str) -> bool:
        """A job was ended or handed back through this queue.

        False: not the hold that is known here, it seems. A job that fails may be claimed again, by this
        stream or another, before whoever failed it has come to say so.
        """
        with self._lock:
            return self._disown(self._book.free(job_id, lease_id))

    def forfeited(self, job_id: str, lease_id: str) -> bool:
        """A job was acknowledged as not executing."""
        with self._lock:
            return self._disown(self._book.forfeit(job_id, lease_id))

    def cancelling(self, job_id: str) -> bool:
        """Somebody wants a job stopped. True: it was not delivered, and must be handed back instead."""
        with self._lock:
            entry = self._book.entries.get(job_id)
            if entry is None:
                return False
            was_known, entry.cancelling = entry.cancelling, True
            if not entry.delivered:
                return self._book.withdraw(job_id)
        if not was_known:
            self._call(self._on_cancel, job_id)
        return False

    def heard(self, extensions: Iterable[tuple[str, Extension]]) -> bool:
        """Take in how leases stand. True: there is room, or something to hand back, that was not before."""
        news = False
        for lease_id, extension in extensions:
            news |= self._hear(extension.job_id, lease_id, extension)
        return news

    def _hear(self, job_id: str, lease_id: str, extension: Extension) -> bool:
        match extension.hold:
            case Hold.EXTENDED:
                self._hear_extended(job_id, lease_id)
                return False
            case Hold.CANCELLING:
                return self.cancelling(job_id)
            case Hold.LAPSED:
                return self._hear_lapsed(job_id, lease_id, is_swept=extension.state not in HELD)
            case Hold.TAKEN if self._doubts_it(job_id, lease_id):
                return False
            case Hold.TAKEN | Hold.ENDED:
                with self._lock:
                    leave = self._book.forfeit if extension.slot_forfeited else self._book.free
                    entry = leave(job_id, lease_id)
                    self._disown(entry)
                if entry is None:
                    return False
                # What somebody completed under this lease is done; under another, it is done twice.
                is_done = extension.hold is Hold.ENDED and extension.state is JobStatus.COMPLETED
                if entry.delivered and not (is_done or entry.is_settling(monotonic())):
                    self._call(self._on_lost, job_id)
                return True

    def _doubts_it(self, job_id: str, lease_id: str) -> bool:
        with self._lock:
            is_doubted = self._book.doubt(job_id, lease_id, monotonic())
            self.has_doubts |= is_doubted
        return is_doubted

    def _hear_extended(self, job_id: str, lease_id: str) -> None:
        with self._lock:
            entry = self._book.entries.get(job_id)
            if entry is None or entry.lease_id != lease_id:
                return
            was_held_back = not entry.delivered and entry.seen_at < monotonic() - self.terms.lease_s
            entry.seen_at = monotonic()
        if was_held_back:
            self._wake_reader()

    def _hear_lapsed(self, job_id: str, lease_id: str, *, is_swept: bool) -> bool:
        """Nobody has claimed it since: a reader that has it may still complete it, another must not begin."""
        with self._lock:
            entry = self._book.entries.get(job_id)
            if entry is None or entry.lease_id != lease_id:
                return False
            if entry.delivered:
                # Swept, the database counts it no more and its slot is free. It is watched all the same.
                return is_swept and self._book.lapse(job_id, lease_id)
            return self._disown(self._book.free(job_id)) if is_swept else self._book.withdraw(job_id)

    def _disown(self, entry: Entry | None) -> bool:
        """Forget whose job it was; False if it was nobody's."""
        if entry is None:
            return False
        if self._owners.get(entry.job.id) is self:
            del self._owners[entry.job.id]
        return True

    def _call(self, callbacks: list[Callable[[str], object]], job_id: str) -> None:
        for callback in list(callbacks):
            self._tell(callback, job_id)


def _overlook(name: str, seconds: float) -> None:
    """Nobody measures."""


def _ignore(settlement: Settlement, verdict: Verdict) -> None:
    """A reader that settles by itself has its verdicts already."""
