"""What an execution came to, as one type for each way it can end, and what became of writing it down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

from holdfast.domain.job import Content
from holdfast.domain.lifecycle import Operation
from holdfast.domain.states import JobState


@dataclass(frozen=True, slots=True)
class Completed:
    """Done."""

    result: Content = None


COMPLETED: Final = Completed()
"""Done, with nothing to show: what most executions come to, and made once for all of them."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt failed and counts. `delay_s` is exact; a permanent failure is not tried again."""

    message: str
    traceback: str | None = None
    delay_s: float = 0.0
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Requeued:
    """A transient trouble outside the handler: counts as an attempt. Without a message the last error stays.

    `available_at` is a moment a person means, `delay_s` counts from the database's own clock: give one.
    """

    delay_s: float = 0.0
    message: str = "requeued"
    available_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Rescheduled:
    """Handed back unharmed: costs no attempt. What is None stays as it is; `available_at` as in Requeued."""

    delay_s: float = 0.0
    reason: str = "reschedule"
    queue: str | None = None
    wait_for: Sequence[str] | None = None
    payload: Content = None
    available_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """Given up without a word about the execution: somebody else may run it."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """Ended on demand."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class StoppedWithRetry:
    """Failed while it was being cancelled: counts as an attempt, and is over."""

    message: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class UnknownStopped:
    """Over, and nobody can say what the worker did."""

    message: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The worker's answer to a cancellation. Only a job that was executing gives its slot back."""

    was_executing: bool


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A stream ended before it could hand the job over: costs no attempt."""

    message: str
    to_worker_stream: bool = False


Outcome: TypeAlias = (
    Completed
    | Failed
    | Requeued
    | Rescheduled
    | Released
    | Stopped
    | StoppedWithRetry
    | UnknownStopped
    | Acknowledged
    | Undelivered
)
"""Every way an execution can end. Take it apart with `match`, close with `assert_never`."""


def operation_of(outcome: Outcome) -> Operation:
    """The operation of the lifecycle that writes this outcome down."""
    match outcome:
        case Completed():
            return Operation.COMPLETE
        case Failed():
            return Operation.FAIL
        case Requeued():
            return Operation.REQUEUE
        case Rescheduled():
            return Operation.RESCHEDULE
        case Released():
            return Operation.RELEASE
        case Stopped():
            return Operation.STOP
        case StoppedWithRetry():
            return Operation.STOP_WITH_RETRY
        case UnknownStopped():
            return Operation.MARK_UNKNOWN_STOPPED
        case Acknowledged():
            return Operation.ACKNOWLEDGE_CANCELLATION
        case Undelivered():
            return Operation.UNDELIVERED
        case _:
            assert_never(outcome)


class Reason(StrEnum):
    """Why a verdict is what it is."""

    SETTLED = "settled"
    ALREADY = "already"
    LEASE_LOST = "lease_lost"
    WRONG_STATE = "wrong_state"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the engine said to one outcome. `status` is the job's state afterwards, None without a job."""

    job_id: str
    ok: bool
    status: JobState | None
    reason: str
