"""The two words that say how a job stands: its stored state, and its status, which is never stored."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from holdfast.errors import InvalidArgument

CRASH_CONCERN_THRESHOLD: Final = 5
"""So many lapsed leases in a row set a job aside, unless the installation says otherwise."""


class JobState(StrEnum):
    """Where a job stands. Written by the SQL engine alone."""

    INITIAL_PENDING = "INITIAL_PENDING"
    RESCHEDULED = "RESCHEDULED"
    FAILED_RETRY = "FAILED_RETRY"
    UNKNOWN_RETRY = "UNKNOWN_RETRY"
    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    COMPLETED = "COMPLETED"
    STOPPED = "STOPPED"
    UNSCHEDULED = "UNSCHEDULED"
    UNKNOWN_STOPPED = "UNKNOWN_STOPPED"
    DEAD = "DEAD"


WAITING: Final = frozenset(
    {JobState.INITIAL_PENDING, JobState.RESCHEDULED, JobState.FAILED_RETRY, JobState.UNKNOWN_RETRY}
)
"""May be claimed, as far as the state is concerned."""

HELD: Final = frozenset({JobState.RUNNING, JobState.CANCELLING})
"""Leased to exactly one worker."""

ARCHIVED: Final = frozenset(
    {JobState.COMPLETED, JobState.STOPPED, JobState.UNSCHEDULED, JobState.UNKNOWN_STOPPED}
)
"""Left `jobs` for the archive in the statement that finished them."""

FINISHED: Final = ARCHIVED | {JobState.DEAD}
"""Ended. DEAD stays in `jobs`: it can be revived, and its dependents keep waiting."""

MEANING: Final = {
    JobState.INITIAL_PENDING: "never claimed yet; a job that left this state never returns to it",
    JobState.RESCHEDULED: "handed back unharmed, or revived; no attempt was counted",
    JobState.FAILED_RETRY: "an execution failed; eligible again when it is due",
    JobState.UNKNOWN_RETRY: "its worker vanished or its lease lapsed; eligible again",
    JobState.RUNNING: "leased to exactly one worker",
    JobState.CANCELLING: "cancellation was asked for while it ran; waits for the worker's word",
    JobState.COMPLETED: "done, result kept",
    JobState.STOPPED: "cancelled after it had been claimed at least once",
    JobState.UNSCHEDULED: "cancelled before it was ever claimed",
    JobState.UNKNOWN_STOPPED: "cancelled, and nobody can say what the worker did",
    JobState.DEAD: "retries exhausted, or a permanent error; parked until revived or deleted",
}
"""One line for each state, for people."""


class Status(StrEnum):
    """Whether a job can run now. Derived from columns and clock, in the order of these words."""

    ACTIVE = "ACTIVE"
    CANCELLED = "CANCELLED"
    DEAD = "DEAD"
    AWAITING_FUTURE = "AWAITING_FUTURE"
    PENDING_JOBS = "PENDING_JOBS"
    CRASH_CONCERN = "CRASH_CONCERN"
    EXPIRED = "EXPIRED"
    PAUSED = "PAUSED"
    READY = "READY"


def status_of(
    state: JobState,
    *,
    now: datetime,
    available_at: datetime,
    lease_expires_at: datetime | None = None,
    waits: bool = False,
    consecutive_expirations: int = 0,
    threshold: int = CRASH_CONCERN_THRESHOLD,
    expires_at: datetime | None = None,
    paused: bool = False,
) -> Status:
    """Derive the status of a live job; the first match wins.

    A held job whose lease has lapsed, and which nobody has swept yet, is judged like a waiting one.
    Archived jobs have no status: asking for it raises InvalidArgument.
    """
    if state in ARCHIVED:
        raise InvalidArgument(f"a job that is {state} has left the line and has no status; read its state")
    if state in HELD and is_leased(lease_expires_at, now):
        return Status.ACTIVE
    if state is JobState.CANCELLING:
        return Status.CANCELLED
    if state is JobState.DEAD:
        return Status.DEAD
    if available_at > now:
        return Status.AWAITING_FUTURE
    if waits:
        return Status.PENDING_JOBS
    if consecutive_expirations >= threshold:
        return Status.CRASH_CONCERN
    if expires_at is not None and expires_at <= now:
        return Status.EXPIRED
    return Status.PAUSED if paused else Status.READY


def is_leased(lease_expires_at: datetime | None, now: datetime) -> bool:
    """Whether a lease is in force; it lapses at the very moment it names."""
    return lease_expires_at is not None and lease_expires_at > now
