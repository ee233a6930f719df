"""How an execution ended, and what is to be written down for it. Pure: the decision table of the worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

from holdfast.domain.control import PermanentError
from holdfast.domain.job import Content
from holdfast.domain.judging import message_of
from holdfast.domain.outcome import COMPLETED, Completed, Outcome, Rescheduled, Stopped, StoppedWithRetry
from holdfast.errors import JobCancelled

SHUTDOWN = "shutdown"
"""The reason in the trace of a job that was handed back because its worker stopped."""


class Stop(StrEnum):
    """Why a handler was asked to stop before it was done."""

    CANCELLED = "cancelled"
    TIMED_OUT = "timed out"
    SHUTDOWN = "shutdown"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler came to its end; the result is encoded already."""

    result: Content


RETURNED_NOTHING: Final = Returned(None)
"""What most handlers come to. Values that never change need not be made for every job."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised."""

    error: BaseException
    traceback: str


@dataclass(frozen=True, slots=True)
class Died:
    """The process that ran the handler is gone."""

    description: str


Ended: TypeAlias = Returned | Raised | Died

Judge: TypeAlias = Callable[[BaseException, str | None], Outcome]
"""What a failure comes to under the job's retry policy: error and traceback."""


class ChildDied(Exception):
    """The process that ran the handler died, and with it nothing but this execution."""


class TimedOut(TimeoutError):
    """The handler took longer than the job allows."""


class UnstorableResult(PermanentError):
    """The handler returned what cannot be stored: running it again would not help."""


def outcome_of(ended: Ended, stop: Stop | None, timeout_s: float | None, judge: Judge) -> Outcome | None:
    """What to write down; None: nothing, because the job is somebody else's now."""
    if stop is None:
        return _undisturbed(ended, judge)
    match stop:
        case Stop.LOST:
            return None
        case Stop.TIMED_OUT:
            # Whatever came afterwards came too late, a result included.
            traceback = ended.traceback if isinstance(ended, Raised) else None
            return judge(_timed_out(timeout_s), traceback)
        case Stop.CANCELLED:
            return _cancelled(ended)
        case Stop.SHUTDOWN:
            if isinstance(ended, Died) or (isinstance(ended, Raised) and _gave_way(ended.error)):
                return handed_back()
            return _undisturbed(ended, judge)
        case _:
            assert_never(stop)


def given_up(stop: Stop | None, timeout_s: float | None, judge: Judge) -> Outcome | None:
    """What to write down for a handler that does not end though its worker does; None: let it lapse."""
    match stop:
        case None | Stop.SHUTDOWN:
            return handed_back()
        case Stop.TIMED_OUT:
            return judge(_timed_out(timeout_s), None)
        case Stop.CANCELLED | Stop.LOST:
            return None  # nobody knows what it did; or it is somebody else's
        case _:
            assert_never(stop)


def handed_back() -> Rescheduled:
    """A job that could not be finished before its worker stopped: it costs no attempt."""
    return Rescheduled(reason=SHUTDOWN)


def cancelled_instead(outcome: Outcome) -> Outcome:
    """What to write down for a job that was being cancelled when this outcome was refused for it."""
    match outcome:
        case Completed() | Stopped() | StoppedWithRetry():
            return outcome
        case Rescheduled():
            return Stopped("stopped by a cancellation")
        case _:
            message = getattr(outcome, "message", "")
            return StoppedWithRetry(message, getattr(outcome, "traceback", None))


def _timed_out(timeout_s: float | None) -> TimedOut:
    return TimedOut(f"timed out after {timeout_s:g} s")


def _undisturbed(ended: Ended, judge: Judge) -> Outcome:
    match ended:
        case Returned(result):
            return COMPLETED if result is None else Completed(result)
        case Raised(error, traceback):
            return judge(error, traceback)
        case Died(description):
            return judge(ChildDied(description), None)
        case _:
            assert_never(ended)


def _cancelled(ended: Ended) -> Outcome:
    match ended:
        case Returned(result):
            return Completed(result)
        case Raised(error, traceback):
            if _gave_way(error):
                return Stopped("stopped by a cancellation")
            return StoppedWithRetry(message_of(error), traceback)
        case Died(description):
            return Stopped(f"stopped by a cancellation: {description}")
        case _:
            assert_never(ended)


def _gave_way(error: BaseException) -> bool:
    """Whether a handler that was asked to stop did so."""
    return isinstance(error, asyncio.CancelledError | JobCancelled)
