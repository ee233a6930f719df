"""What the engine answers where the domain has no word for it. Frozen, like everything that travels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, TypeAlias, overload

from holdfast.domain.job import ClaimedJob, Content, Job
from holdfast.domain.outcome import Outcome, Verdict
from holdfast.domain.states import JobState

Settlement: TypeAlias = tuple[str, str | None, Outcome]
"""A job, the lease it is held under (None: unguarded), and what its execution came to."""


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A job just put in line. `wait_for` names those it really waits for: completed ones dropped out."""

    job_id: str
    queue: str
    wait_for: tuple[str, ...]
    payload: Content
    available_at: datetime


@dataclass(frozen=True, slots=True)
class RescheduledJob:
    """A job put back in line, as it stands there now."""

    job_id: str
    queue: str
    wait_for: tuple[str, ...]
    available_at: datetime


@dataclass(frozen=True, slots=True)
class LightJob:
    """A job as lists show it: without the history of its errors and without large content.

    `left_out` names what it really has.
    """

    job: Job
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeasedJob:
    """A job as `get_work` hands it out."""

    job_id: str
    lease_id: str
    queue: str
    singleton_key: str | None
    wait_for: tuple[str, ...]
    payload: Content
    available_at: datetime
    lease_expires_at: datetime


class ClaimedLater(Sequence[ClaimedJob]):
    """Claimed jobs, so many, that are read from the database's answer when somebody looks at one."""

    __slots__ = ("_count", "_jobs", "_read")

    def __init__(self, count: int, read: Callable[[], Sequence[ClaimedJob]]) -> None:
        self._count = count
        self._read = read
        self._jobs: Sequence[ClaimedJob] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> ClaimedJob: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[ClaimedJob]: ...
    def __getitem__(self, place: int | slice) -> ClaimedJob | Sequence[ClaimedJob]:
        return self.jobs[place]

    def __iter__(self) -> Iterator[ClaimedJob]:
        return iter(self.jobs)

    @property
    def jobs(self) -> Sequence[ClaimedJob]:
        """All of them, read by now."""
        if self._jobs is None:
            self._jobs = self._read()
        return self._jobs


@dataclass(frozen=True, slots=True)
class SettledAndClaimed:
    """The answer to a heartbeat: what was not taken, what there is to do, and when to look again.

    `next_due` is None when nothing is known to become due, or when there was something to claim;
    `next_due_in_s` is the same as seconds from now, by the database's own clock.
    """

    refused: list[Verdict]
    claimed: Sequence[ClaimedJob]
    next_due: datetime | None
    next_due_in_s: float | None


class Hold(StrEnum):
    """How a worker stands to a job it tried to keep."""

    EXTENDED = "extended"
    CANCELLING = "cancelling"
    """Extended too, but somebody wants it stopped: end the handler."""
    LAPSED = "lapsed"
    """Too late, but nobody has claimed it since: carry on, a late result is welcome."""
    TAKEN = "taken"
    """Claimed by another or handed back: stop, nothing written counts."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Extension:
    """The answer for one job of `extend_leases`."""

    job_id: str
    hold: Hold
    state: JobState | None
    lease_expires_at: datetime | None
    slot_forfeited: bool


@dataclass(frozen=True, slots=True)
class JobStats:
    """Counts of jobs by what has become of them."""

    total_jobs: int
    pending_jobs: int
    running_jobs: int
    completed_jobs: int
    stopped_jobs: int
    failed_jobs: int
    total_retries: int


@dataclass(frozen=True, slots=True)
class QueueStats:
    """How a queue stands. Numbers are counted up to a limit and no further, due and delayed ones as one."""

    queue: str
    paused_at: datetime | None
    due_jobs: int
    delayed_jobs: int
    blocked_jobs: int
    held_jobs: int
    dead_jobs: int
    oldest_due_at: datetime | None
    max_running: int | None = None
    """The most that may be held at once; None: no limit."""


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """What ended in a step of time, how long it took (jobs by bucket, see `domain.history`), and the line."""

    at: datetime
    """Its beginning."""
    completed: int
    dead: int
    cancelled: int
    expired: int
    waits: tuple[int, ...]
    runs: tuple[int, ...]
    depth: int | None
    """The most jobs that were due when somebody looked; None: nobody did."""
    oldest_s: float | None


class Attendance(NamedTuple):
    """What a listener has written down with a look at its queues, for as many seconds; None: as it was."""

    listener: int
    waits_s: float | None
    """That it waits for a signal, if nothing was found."""
    present_s: float | None
    """That it is busy, if something was."""


class CancelledJobs(NamedTuple):
    """Ids that were cancelled, and ids that were named but are unknown or finished."""

    cancelled: list[str]
    unknown: list[str]
