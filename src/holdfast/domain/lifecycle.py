"""The lifecycle of a job as data: every operation, from which state, to which, and what it may change.

`TRANSITIONS` is the whole truth about states: what is not in it is refused, and then nothing changes. How the
caller learns of it is the function's own manner: an error, `false`, or a verdict. Two things are not here:

- guards that have nothing to do with the state: whoever names a lease must name the job's own, a lapsed lease
  cannot be extended, and `complete_job` and `reschedule_job` refuse it;
- what an operation does to other jobs: a completion shortens the `wait_for` of its dependents, a cancellation
  cancels them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

from holdfast.domain.states import FINISHED, HELD, WAITING, JobState
from holdfast.errors import InvalidArgument


class Operation(StrEnum):
    """What can be done to a job."""

    SUBMIT = "submit"
    CLAIM = "claim"
    EXTEND = "extend"
    REPORT_PROGRESS = "report_progress"
    COMPLETE = "complete"
    COMPLETE_UNHELD = "complete_unheld"
    FAIL = "fail"
    REQUEUE = "requeue"
    RESCHEDULE = "reschedule"
    RESCHEDULE_UNHELD = "reschedule_unheld"
    UNDELIVERED = "undelivered"
    RELEASE = "release"
    LAPSE = "lapse"
    MARK_WORKER_UNRESPONSIVE = "mark_worker_unresponsive"
    RESET_RUNNING_JOBS = "reset_running_jobs"
    CLEAR_CRASH_CONCERN = "clear_crash_concern"
    CANCEL = "cancel"
    STOP = "stop"
    STOP_WITH_RETRY = "stop_with_retry"
    MARK_UNKNOWN_STOPPED = "mark_unknown_stopped"
    ACKNOWLEDGE_CANCELLATION = "acknowledge_cancellation"
    REVIVE = "revive"
    DELETE = "delete"
    CLEANUP = "cleanup"


class When(StrEnum):
    """The condition, beyond the source state, under which a transition applies; it names the variant."""

    ALWAYS = "always"
    READY = "READY"
    LEASE_NOT_LAPSED = "lease not lapsed"
    BY_KEEPER = "lease not lapsed, extended by the worker's keeper"
    UNHELD = "READY, CRASH_CONCERN or EXPIRED"
    LEASE_LAPSED = "lease lapsed"
    ATTEMPTS_LEFT = "attempts left"
    LAST_OR_PERMANENT = "last attempt or permanent"
    LAST_ATTEMPT = "last attempt"
    REWRITTEN = "rewritten by reschedule_job"
    HANDED_BACK = "retry_later, snooze, resource busy or shutdown"
    QUEUE_STREAM = "queue stream"
    WORKER_STREAM = "worker stream"
    SIDELINED = "sidelined"
    WAS_EXECUTING = "was executing"
    WAS_NOT_EXECUTING = "was not executing"
    OLDER_THAN_TTL = "older than the ttl"


COLUMNS: Final = (
    "state",
    "attempts",
    "last_error",
    "errors",
    "last_retry_at",
    "available_at",
    "finalized_at",
    "lease_id",
    "lease_expires_at",
    "assignee_id",
    "assigned_at",
    "started_at",
    "lease_expiration_count",
    "consecutive_expirations",
    "result",
    "progress",
    "next_need",
    "wait_for",
    "payload",
)
"""The columns of a job that transitions speak about, as the views name them."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One step. No source: the job comes into being. No target: it is gone.

    `touches` are the columns it may change, everything else stays as it was. A step that makes or removes the
    whole row touches every column.
    """

    operation: Operation
    source: JobState | None
    target: JobState | None
    when: When
    touches: frozenset[str]


# Short names, so that a row of the table below is a line.
_O: Final = Operation
_S: Final = JobState
_UNKNOWN: Final = frozenset({_S.UNKNOWN_RETRY, _S.UNKNOWN_STOPPED})

_ROW: Final = frozenset(COLUMNS)
_LEASE: Final = frozenset({"lease_id", "lease_expires_at"})
_CLAIMED: Final = _LEASE | {"state", "assignee_id", "assigned_at", "started_at"}
# A lease that ends keeps its id: a late result is recognised by it, and the archive shows it.
_LEASE_ENDS: Final = frozenset({"state", "lease_expires_at"})
_LAPSED: Final = _LEASE_ENDS | {"lease_expiration_count", "consecutive_expirations"}
# Progress belongs to live jobs: the archive has no such column.
_ARCHIVED: Final = _LEASE_ENDS | {"finalized_at", "progress"}
_COMPLETED: Final = _ARCHIVED | {"consecutive_expirations"}
_STOPPED: Final = _ARCHIVED | {"last_error"}
# A voluntary hand-back clears the lease and the streak of lapses, never their total.
_HANDED_BACK: Final = _LEASE | {"state", "available_at", "consecutive_expirations"}
_UNDELIVERED: Final = _HANDED_BACK | {"last_error"}
_COUNTED: Final = frozenset({"attempts", "last_error", "errors", "last_retry_at"})
_FAILED: Final = _HANDED_BACK | _COUNTED
_DEAD: Final = _FAILED | {"finalized_at"}
_REVIVED: Final = frozenset({"state", "attempts", "available_at", "finalized_at"})
_REWRITTEN: Final = frozenset({"available_at", "next_need", "wait_for", "payload"})

_Row = tuple[Operation, Iterable[JobState | None], JobState | Literal["same"] | None, Iterable[str], When]

_ROWS: Final[tuple[_Row, ...]] = (
    (_O.SUBMIT, [None], _S.INITIAL_PENDING, _ROW, When.ALWAYS),
    (_O.CLAIM, WAITING, _S.RUNNING, _CLAIMED, When.READY),
    (_O.EXTEND, [_S.RUNNING], "same", ["lease_expires_at"], When.LEASE_NOT_LAPSED),
    (_O.EXTEND, HELD, "same", ["lease_expires_at"], When.BY_KEEPER),
    (_O.REPORT_PROGRESS, HELD, "same", ["progress"], When.ALWAYS),
    # Done. A result that comes late is still taken, as long as nobody claimed the job since.
    (_O.COMPLETE, HELD | _UNKNOWN, _S.COMPLETED, _COMPLETED | {"result"}, When.ALWAYS),
    (_O.COMPLETE_UNHELD, WAITING, _S.COMPLETED, _COMPLETED, When.UNHELD),
    (_O.COMPLETE_UNHELD, [_S.RUNNING], _S.COMPLETED, _COMPLETED | _LAPSED, When.LEASE_LAPSED),
    # Failed: an attempt is counted.
    (_O.FAIL, [_S.RUNNING, _S.UNKNOWN_RETRY], _S.FAILED_RETRY, _FAILED, When.ATTEMPTS_LEFT),
    (_O.FAIL, [_S.RUNNING, _S.UNKNOWN_RETRY], _S.DEAD, _DEAD, When.LAST_OR_PERMANENT),
    (_O.REQUEUE, [_S.RUNNING], _S.FAILED_RETRY, _FAILED, When.ATTEMPTS_LEFT),
    (_O.REQUEUE, [_S.RUNNING], _S.DEAD, _DEAD, When.LAST_ATTEMPT),
    # Handed back unharmed.
    (_O.RESCHEDULE, [_S.RUNNING], _S.RESCHEDULED, _HANDED_BACK | _REWRITTEN, When.REWRITTEN),
    (_O.RESCHEDULE, [_S.RUNNING], _S.RESCHEDULED, _HANDED_BACK, When.HANDED_BACK),
    (_O.RESCHEDULE_UNHELD, WAITING, "same", _REWRITTEN | _LEASE, When.UNHELD),
    (_O.RESCHEDULE_UNHELD, [_S.RUNNING], _S.UNKNOWN_RETRY, _REWRITTEN | _LEASE | _LAPSED, When.LEASE_LAPSED),
    (_O.UNDELIVERED, [_S.RUNNING], _S.FAILED_RETRY, _UNDELIVERED, When.QUEUE_STREAM),
    (_O.UNDELIVERED, [_S.RUNNING], _S.RESCHEDULED, _UNDELIVERED, When.WORKER_STREAM),
    (_O.UNDELIVERED, [_S.CANCELLING], _S.STOPPED, _STOPPED, When.QUEUE_STREAM),
    (_O.UNDELIVERED, [_S.CANCELLING], _S.STOPPED, _STOPPED, When.WORKER_STREAM),
    # The worker is given up. Only a lapse counts towards a crash concern.
    (_O.RELEASE, [_S.RUNNING], _S.UNKNOWN_RETRY, _LEASE_ENDS, When.ALWAYS),
    (_O.RELEASE, [_S.CANCELLING], _S.UNKNOWN_STOPPED, _ARCHIVED, When.ALWAYS),
    (_O.LAPSE, [_S.RUNNING], _S.UNKNOWN_RETRY, _LAPSED, When.LEASE_LAPSED),
    (_O.LAPSE, [_S.CANCELLING], _S.UNKNOWN_STOPPED, _ARCHIVED | _LAPSED, When.LEASE_LAPSED),
    (_O.MARK_WORKER_UNRESPONSIVE, [_S.RUNNING], _S.UNKNOWN_RETRY, _LEASE_ENDS, When.ALWAYS),
    (_O.MARK_WORKER_UNRESPONSIVE, [_S.CANCELLING], _S.UNKNOWN_STOPPED, _ARCHIVED, When.ALWAYS),
    (_O.RESET_RUNNING_JOBS, [_S.RUNNING], _S.UNKNOWN_RETRY, _LEASE_ENDS, When.ALWAYS),
    (_O.RESET_RUNNING_JOBS, [_S.CANCELLING], _S.UNKNOWN_STOPPED, _ARCHIVED, When.ALWAYS),
    # A streak of lapses is found where a lease lapsed, and while the job is tried again; a hand-back ends it.
    (_O.CLEAR_CRASH_CONCERN, HELD | {_S.UNKNOWN_RETRY}, "same", ["consecutive_expirations"], When.SIDELINED),
    # Cancelled; a reason, where one is given, becomes the last error.
    (_O.CANCEL, [_S.INITIAL_PENDING], _S.UNSCHEDULED, _STOPPED, When.ALWAYS),
    (_O.CANCEL, WAITING - {_S.INITIAL_PENDING} | {_S.DEAD}, _S.STOPPED, _STOPPED, When.ALWAYS),
    (_O.CANCEL, [_S.RUNNING], _S.CANCELLING, ["state"], When.ALWAYS),
    (_O.CANCEL, [_S.CANCELLING], "same", [], When.ALWAYS),
    (_O.STOP, HELD | {_S.UNKNOWN_RETRY}, _S.STOPPED, _STOPPED, When.ALWAYS),
    (_O.STOP_WITH_RETRY, [_S.CANCELLING], _S.STOPPED, _ARCHIVED | _COUNTED, When.ALWAYS),
    (_O.MARK_UNKNOWN_STOPPED, HELD | {_S.UNKNOWN_RETRY}, _S.UNKNOWN_STOPPED, _STOPPED, When.ALWAYS),
    (_O.ACKNOWLEDGE_CANCELLATION, [_S.CANCELLING], _S.STOPPED, _ARCHIVED, When.WAS_EXECUTING),
    (_O.ACKNOWLEDGE_CANCELLATION, [_S.CANCELLING], _S.UNKNOWN_STOPPED, _ARCHIVED, When.WAS_NOT_EXECUTING),
    # After the end.
    (_O.REVIVE, [_S.DEAD], _S.RESCHEDULED, _REVIVED, When.ALWAYS),
    (_O.DELETE, FINISHED, None, _ROW, When.ALWAYS),
    (_O.CLEANUP, [_S.COMPLETED], None, _ROW, When.OLDER_THAN_TTL),
)


def _expand(rows: Iterable[_Row]) -> Iterator[Transition]:
    """One transition for each source of each row, the states in the order of their declaration."""
    for operation, sources_, target_, touches, when in rows:
        wanted = set(sources_)
        for source in (None, *JobState):
            if source in wanted:
                goal = source if target_ == "same" else target_
                yield Transition(operation, source, goal, when, frozenset(touches))


TRANSITIONS: Final[tuple[Transition, ...]] = tuple(_expand(_ROWS))
"""Every step a job can take. (operation, source, when) is unique."""


def find(operation: Operation, source: JobState | None, when: str | None = None) -> Transition | None:
    """The step this operation takes from this state, or None: then it is refused.

    `when` may be left out where the state alone decides; elsewhere InvalidArgument names the choices.
    """
    steps = [step for step in TRANSITIONS if step.operation == operation and step.source == source]
    if when is not None:
        steps = [step for step in steps if step.when == when]
    if len(steps) > 1:
        choices = ", ".join(f'"{step.when}"' for step in steps)
        raise InvalidArgument(f"{operation} from {source} has several variants; name one of: {choices}")
    return steps[0] if steps else None


def target(operation: Operation, state: JobState | None, variant: str | None = None) -> JobState | None:
    """The state a job comes to; None if the operation is refused, or if the job is gone (delete, cleanup)."""
    step = find(operation, state, variant)
    return step.target if step else None


def sources(operation: Operation) -> frozenset[JobState | None]:
    """The states an operation starts from; {None} for submit."""
    return frozenset(step.source for step in TRANSITIONS if step.operation == operation)


def variants(operation: Operation) -> tuple[When, ...]:
    """The conditions an operation tells apart, in the order of the table."""
    return tuple(dict.fromkeys(step.when for step in TRANSITIONS if step.operation == operation))
