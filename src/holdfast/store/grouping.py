"""Single submissions that meet in one process go together, in one call and one commit (decision 16).

Whoever is alone goes at once. Whoever comes while a call is under way waits for its end; then all who wait go
in one call. Here it is decided; `Group` acts on it for tasks and `SyncGroup` for threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from time import monotonic
from typing import Final, Generic, TypeAlias, TypeVar

from holdfast.errors import DatabaseUnavailable, HoldfastError
from holdfast.store.calls.together import together
from holdfast.store.trial import UNKNOWN, Trial, changed_nothing

MOST_JOBS: Final = 300
MOST_CHARACTERS: Final = 1024 * 1024
"""How much goes in one call, unless it is one job."""

PATIENCE_S: Final = 0.1
"""How long to wait for a call under way: it may wait for a transaction that waits for us."""

GRACE_S: Final = 5.0
"""How much longer than its deadline a call may be under way, with a cancel request and on a busy machine."""

Submission: TypeAlias = Trial[list[str]]


class Ticket:
    """One submission in line, and what it is told: an answer, an error, or neither: go by yourself."""

    __slots__ = ("_error", "_ids", "leads", "size", "submission", "wake")

    def __init__(self, submission: Submission, wake: Callable[[], object]) -> None:
        self.submission = submission
        self.size = sum(len(each) for each in submission.call.parameters if each is not None)
        self.wake = wake
        self.leads = False
        self._ids: list[str] | None = None
        self._error: Exception | None = None

    def patience_s(self) -> float:
        """How long to wait in line."""
        return max(0.0, min(PATIENCE_S, self.submission.deadline - monotonic()))

    def longest_s(self) -> float:
        """How long an answer may take that is under way: its caller may be interrupted and tell nobody."""
        return max(0.0, self.submission.deadline - monotonic()) + GRACE_S

    def refuse_if_late(self) -> None:
        """Raise DatabaseUnavailable if its time is over; nothing was sent then."""
        self.submission.go_on_unsent(monotonic())

    def tell(self, ids: list[str] | None = None, error: Exception | None = None) -> None:
        self._ids, self._error = ids, error
        self.wake()

    def told(self) -> list[str] | None:
        """The answer; None: go by yourself."""
        if self._error is not None:
            raise self._error
        return self._ids


T = TypeVar("T", bound=Ticket)


class Line(Generic[T]):
    """Who goes at once, who waits, and what goes together."""

    def __init__(self) -> None:
        self._under_way = 0
        self._waiting: dict[T, None] = {}

    def may_go(self) -> bool:
        """Whether nobody is under way; whoever asked is then, until `leave`."""
        if self._under_way:
            return False
        self._under_way = 1
        return True

    def go_too(self) -> None:
        """One more is under way, because those who are take long."""
        self._under_way += 1

    def leave(self) -> None:
        self._under_way -= 1

    def wait(self, ticket: T) -> None:
        self._waiting[ticket] = None

    def forget(self, ticket: T) -> bool:
        """Take it out of the line; whether it was there."""
        return self._waiting.pop(ticket, self) is None

    def first(self) -> T | None:
        return next(iter(self._waiting), None)

    def batch(self, *before: T) -> list[T]:
        """Take out of the line what goes along, in order, as many as fit into one call."""
        batch = [*before]
        size = sum(ticket.size for ticket in before)
        for ticket in self._waiting:
            size += ticket.size
            if batch and (len(batch) >= MOST_JOBS or size > MOST_CHARACTERS):
                break
            batch.append(ticket)
        for ticket in batch[len(before) :]:
            del self._waiting[ticket]
        return batch


def as_one(batch: Sequence[Ticket]) -> Submission:
    """One submission for all. Its deadline is that of the first: they differ by our patience at most."""
    submission = copy(batch[0].submission)
    if len(batch) > 1:
        submission.call = together([ticket.submission.call for ticket in batch])
    return submission


def share(batch: Sequence[Ticket], ids: list[str]) -> None:
    """Tell everybody the id of their own job."""
    for ticket, job_id in zip(batch, ids, strict=True):
        ticket.tell([job_id])


def share_error(batch: Sequence[Ticket], error: BaseException) -> None:
    """What changed nothing is about one of them: each finds out by itself. What leaves doubt is for all."""
    if isinstance(error, HoldfastError) and changed_nothing(error):
        for ticket in batch:
            ticket.tell()
        return
    shared = error if isinstance(error, Exception) else interrupted()
    for ticket in batch:
        own = copy(shared)  # whoever raises it adds a traceback
        own.__cause__ = error.__cause__
        ticket.tell(error=own)


def interrupted() -> DatabaseUnavailable:
    """What is said when whoever was to answer has been stopped."""
    return DatabaseUnavailable(f"submit_jobs was interrupted. {UNKNOWN}")
