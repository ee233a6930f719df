"""What a run leaves behind, as plain values: what was asked and answered, and what the database did."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

HELD = frozenset({"RUNNING", "CANCELLING"})
ARCHIVED = frozenset({"COMPLETED", "STOPPED", "UNSCHEDULED", "UNKNOWN_STOPPED"})
FINISHED = ARCHIVED | {"DEAD"}
CANCELLED = frozenset({"STOPPED", "UNSCHEDULED", "UNKNOWN_STOPPED"})

OK, NO, UNKNOWN = "ok", "no", "unknown"


class Change(NamedTuple):
    """A job as it was after something happened to it, written down by the database in the same transaction.

    Per job the numbers are in the order of what happened, because whoever changes a row has it locked.
    """

    seq: int
    at: float
    job: str
    state: str
    """GONE: it was deleted."""
    lease: str | None = None
    stream: int | None = None
    assignee: str | None = None
    attempts: int = 0
    lapses: int = 0
    waiting_on: int = 0
    due: float = 0.0
    lease_ends: float | None = None
    key: str | None = None
    max_attempts: int | None = None
    queue: str = "default"
    began: float = 0.0
    """When its transaction began: whatever was committed before, it has seen."""


class Hold(NamedTuple):
    """A key that was taken or given back."""

    seq: int
    at: float
    kind: str
    key: str
    job: str
    lease: str
    taken: bool


class Call(NamedTuple):
    """Something asked about one job, and what was said; `ended` is infinite where no answer came."""

    who: str
    op: str
    job: str
    said: str
    begun: float
    ended: float
    lease: str | None = None
    spec: Mapping[str, Any] = {}


class Run(NamedTuple):
    """An execution as its handler tells it. `how` is None if the handler never came to its end."""

    who: str
    job: str
    attempt: int
    begun: float
    ended: float
    how: str | None


@dataclass(slots=True)
class Story:
    """All about one job."""

    job: str
    changes: list[Change] = field(default_factory=list[Change])
    calls: list[Call] = field(default_factory=list[Call])
    runs: list[Run] = field(default_factory=list[Run])

    def steps(self) -> Iterator[tuple[Change | None, Change]]:
        """Each change with the one before it."""
        before: Change | None = None
        for change in self.changes:
            yield before, change
            before = change

    def claims(self) -> Iterator[Change]:
        for before, change in self.steps():
            if change.state == "RUNNING" and (
                before is None or before.state not in HELD or before.lease != change.lease
            ):
                yield change

    @property
    def last(self) -> Change | None:
        return self.changes[-1] if self.changes else None


@dataclass(slots=True)
class History:
    """A whole run."""

    changes: Sequence[Change] = ()
    """In the order of their numbers."""
    holds: Sequence[Hold] = ()
    calls: Sequence[Call] = ()
    runs: Sequence[Run] = ()
    places: Mapping[str, int] = field(default_factory=dict[str, int])
    """By job: how many rows of it there are at the end, live and archived."""
    errors: Mapping[str, int] = field(default_factory=dict[str, int])
    """By job: how many failures are kept."""
    waits: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    """By job: what it still waits for at the end."""
    set_aside: frozenset[str] = frozenset()
    """Jobs with too many lapses in a row at the end: they wait for a person."""
    ledger: Mapping[str, int] = field(default_factory=dict[str, int])
    """By job: how often its effect was committed together with its end."""
    orders: frozenset[str] = frozenset()
    """What was committed together with an enqueue."""
    capacities: Mapping[str, int] = field(default_factory=dict[str, int])
    """By assignee and queue: how many jobs one stream may hold."""
    resources: Mapping[str, int] = field(default_factory=dict[str, int])
    """By key: the most holders there may be; 1 unless named."""
    limits: Mapping[str, int] = field(default_factory=dict[str, int])
    """By queue: how many of its jobs may be held at once."""
    held_at_end: Sequence[tuple[str, str]] = ()
    """Keys that are still held, and by which job."""
    untraced: Sequence[str] = ()
    """Jobs whose trace does not tell what the witness saw."""
    sessions: int = 0
    processes: Sequence[str] = ()
    deadlocks: int = 0
    unfinished_after_s: float | None = None
    """How long it took until everything had ended; None: it never did."""
    bound_s: float = 0.0

    def stories(self) -> dict[str, Story]:
        found: defaultdict[str, Story] = defaultdict(lambda: Story(""))
        for each in self.changes:
            found[each.job].changes.append(each)
        for call in self.calls:
            found[call.job].calls.append(call)
        for run in self.runs:
            found[run.job].runs.append(run)
        for job, story in found.items():
            story.job = job
        return dict(found)


class Violation(NamedTuple):
    """Something that must never be."""

    invariant: str
    job: str
    why: str

    def __str__(self) -> str:
        return f"{self.invariant}: {self.job}: {self.why}"


Found = Iterable[tuple[str, str]]
"""What an invariant answers: a job, and what is wrong with it."""
