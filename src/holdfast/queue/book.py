"""What one stream holds, and how much room is left: pure bookkeeping, without clock, thread or database.

A slot is taken when a claim is asked for (as many as it may bring), kept by each job it brought, and given
back when the job leaves: settled by anyone, taken over, or never brought. Only a forfeit keeps a slot without
a job, and what is not to be delivered keeps its slot until the database has it back. So the book never counts
fewer jobs than the database does, and capacity is never exceeded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, Protocol

from holdfast.domain.outcome import Reason, Verdict
from holdfast.domain.states import HELD, JobState
from holdfast.store.values import Settlement

SETTLING_S: Final = 20.0
"""No call that settles a job takes longer: what becomes of it within this time is the settler's own doing."""


KEPT: Final = frozenset({*HELD, JobState.UNKNOWN_STOPPED})
"""States in which a job that cannot be settled as we say may still have its slot."""


class Leased(Protocol):
    """A job as a stream delivers it: to people as a `Job`, to a worker as it was claimed."""

    @property
    def id(self) -> str: ...

    @property
    def lease_id(self) -> str | None: ...


@dataclass(slots=True)
class Entry:
    """One job that a stream holds under a lease."""

    job: Leased
    lease_id: str
    seen_at: float
    """When the database last said that the job is the stream's and nobody wants it stopped (monotonic)."""
    delivered: bool = False
    cancelling: bool = False
    settling_at: float = -inf
    """When somebody last set out to settle it through this queue (monotonic)."""

    is_doubted: bool = False
    """Whether it was said once that somebody has claimed it anew, who may be its own stream."""

    def is_settling(self, now: float) -> bool:
        return now - self.settling_at < SETTLING_S


@dataclass(slots=True)
class Book:
    """The holdings of one stream. Whoever uses it holds the stream's lock."""

    capacity: int
    lapses_after_s: float = inf
    """How long a job may be unheard of before its reader, a worker, has lost its lease; see `has_lapsed`."""
    asked: int = 0
    forfeits: int = 0
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    waiting: dict[str, Entry] = field(default_factory=dict[str, Entry])
    """Those not delivered yet, in the order they came."""
    unwanted: dict[str, Entry] = field(default_factory=dict[str, Entry])
    """Those that never will be, and are to be handed back."""
    lapsed: dict[str, Entry] = field(default_factory=dict[str, Entry])
    """Delivered, and taken from us for want of a sign of life. No slot, but who has them may not know yet."""
    leaving: list[Entry] = field(default_factory=list[Entry])
    """Settled and let go. To take them apart takes longer than that, and the server waits for its next call:
    so it is done with the next claim, which is entered while the server works."""
    is_regular: bool = True
    """Whether all that left were told of first: as long as that is so, every outcome told frees a slot."""

    @property
    def room(self) -> int:
        return self.capacity - self.asked - self.forfeits - len(self.entries)

    def ask(self, most: int, freeing: int = 0, arrived: int = 0) -> int:
        """Reserve room for a claim: as much as there is and as the same call frees first, at most so much.

        One claim at a time; but what another has asked for may have `arrived` and not be entered yet.
        """
        if self.asked != arrived:
            return 0
        asked = max(0, min(self.room + freeing, most))
        self.asked += asked
        return asked

    def slots_of(self, settlements: Sequence[Settlement]) -> int:
        """How many of their leases have a slot here: one that was lost has given it back already."""
        if self.is_regular:  # the server waits for this answer
            return len(settlements)
        slots = 0
        find = self.entries.get
        for job_id, lease_id, _ in settlements:
            entry = find(job_id)
            if entry is not None and entry.lease_id == lease_id:
                slots += 1
        return slots

    def unask(self) -> None:
        """The claim brought nothing, or is known to have failed."""
        self.asked = 0

    def assign(
        self, jobs: Iterable[Leased], now: float, *, is_news: bool = True, asked: int | None = None
    ) -> list[Entry]:
        """Enter what a claim brought; return the entries of jobs held under an older lease until now.

        A job that is settled here was not taken from anybody, so it is not among them. What is no news was
        claimed a while ago: it is looked at before it is delivered. `asked` is what that claim had reserved;
        without it no claim has anything reserved from now on.
        """
        self.asked = 0 if asked is None else self.asked - asked
        self.leaving.clear()
        superseded: list[Entry] = []
        for job in jobs:
            job_id, lease_id = job.id, job.lease_id or ""
            old = self.entries.get(job_id) or self.lapsed.get(job_id)
            if old is not None and old.lease_id == lease_id:
                continue
            if old is not None:
                self.free(job_id)
                if old.delivered and not old.is_settling(now):
                    superseded.append(old)
            entry = Entry(job, lease_id, now if is_news else -inf)
            self.entries[job_id] = entry
            self.waiting[job_id] = entry
        return superseded

    def has_lapsed(self, entry: Entry, now: float) -> bool:
        """Whether nobody could keep a worker's job: its process slept, or the database was away."""
        return now - entry.seen_at >= self.lapses_after_s

    def doubt(self, job_id: str, lease_id: str, now: float) -> bool:
        """Whether to ask a second time if somebody has claimed a job.

        For a moment after a worker whose leases have lapsed woke up it may be the worker itself, whose own
        claim is not entered yet.
        """
        entry = self.find(job_id)
        if entry is None or entry.lease_id != lease_id or entry.is_doubted:
            return False
        entry.is_doubted = self.has_lapsed(entry, now)
        return entry.is_doubted

    def resume(self, job_id: str) -> str:
        """Deliver a job no more, because its reader has it already; its lease."""
        self.waiting.pop(job_id, None)
        entry = self.entries[job_id]
        entry.delivered = True
        return entry.lease_id

    def adopt(self, job: Leased, now: float, *, cancelling: bool) -> None:
        """Enter a job that its reader has already, from an earlier stream."""
        entry = Entry(job, job.lease_id or "", now, delivered=True, cancelling=cancelling)
        self.entries[job.id] = entry

    def deliver(self, seen_since: float = -inf) -> list[Any]:
        """Take what waits for the reader, but nothing of which was not heard for so long."""
        ready: list[Any] = []
        late: dict[str, Entry] = {}
        for job_id, entry in self.waiting.items():
            if entry.seen_at >= seen_since:
                entry.delivered = True
                ready.append(entry.job)
            else:
                late[job_id] = entry
        self.waiting = late
        return ready

    def unseen_since(self, moment: float) -> list[Entry]:
        """Those that wait for the reader and of which nothing was heard for so long."""
        return [entry for entry in self.waiting.values() if entry.seen_at < moment]

    def find(self, job_id: str) -> Entry | None:
        return self.entries.get(job_id) or self.lapsed.get(job_id)

    def free(self, job_id: str, lease_id: str | None = None) -> Entry | None:
        """Let a job go, its slot is free; with a lease, only if it is held under this one."""
        entry = self.entries.get(job_id) or self.lapsed.get(job_id)
        if entry is None or (lease_id is not None and entry.lease_id != lease_id):
            return None
        self.entries.pop(job_id, None)
        self.is_regular = False
        if not entry.delivered:
            self.waiting.pop(job_id, None)
            self.unwanted.pop(job_id, None)
        if self.lapsed:
            self.lapsed.pop(job_id, None)
        return entry

    def free_settled(self, settlements: Iterable[Settlement], kept: Collection[str] = ()) -> list[str]:
        """Let all go that are held under the leases named, but for those that are kept; which ones."""
        entries, is_plain = self.entries, not (self.lapsed or kept)
        freed: list[str] = []
        for job_id, lease_id, _ in settlements:
            entry = entries.get(job_id)
            if is_plain and entry is not None and entry.delivered and entry.lease_id == lease_id:
                del entries[job_id]  # what most come to, without a call for each
                self.leaving.append(entry)
                freed.append(job_id)
            elif job_id not in kept and self.free(job_id, lease_id) is not None:
                freed.append(job_id)
        return freed

    def forfeit(self, job_id: str, lease_id: str | None = None) -> Entry | None:
        """Let a job go; its slot is never given back."""
        entry = self.free(job_id, lease_id)
        if entry is not None:
            self.forfeits += 1
        return entry

    def lapse(self, job_id: str, lease_id: str) -> bool:
        """Give the slot of a delivered job back, and remember that somebody has the job."""
        entry = self.entries.get(job_id)
        if entry is None or entry.lease_id != lease_id:
            return False
        self.lapsed[job_id] = self.entries.pop(job_id)
        self.is_regular = False
        return True

    def withdraw(self, job_id: str) -> bool:
        """Do not deliver a job; its slot is free when it is handed back. False: it is delivered already."""
        entry = self.waiting.pop(job_id, None)
        if entry is not None:
            self.unwanted[job_id] = entry
        return job_id in self.unwanted

    def take_back(self, job_id: str, lease_id: str) -> bool:
        """A job that was taken never reached its reader: it is to be handed back after all."""
        entry = self.entries.get(job_id)
        if entry is None or entry.lease_id != lease_id or not entry.delivered:
            return False
        entry.delivered = False
        self.unwanted[job_id] = entry
        return True

    def withdraw_all(self) -> None:
        """Deliver nothing more, because the stream ends."""
        self.unwanted |= self.waiting
        self.waiting.clear()


def keeps_slot(refusal: Verdict) -> bool:
    """Whether a job of which a settle was refused keeps its slot for now.

    It is held all the same; or somebody has called it stopped, perhaps because nobody executes it, which
    forfeits the slot: the keeper hears whether it was that.
    """
    return refusal.reason == Reason.WRONG_STATE and refusal.status in KEPT
