"""What the table of transitions expects of a call, given how the job stands and what the caller shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from holdfast.domain.lifecycle import Operation, Transition, When, find
from holdfast.domain.states import ARCHIVED, HELD, WAITING, JobState
from tests.engine.answers import Refusal, Row
from tests.engine.jobs_in_state import Condition, Stage

Steps: TypeAlias = tuple[Transition, ...]
"""What an accepted call does, one step after the other; none: nothing that a transition speaks about."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller shows to prove that the job is its own."""

    lease_id: str | None = None
    worker_id: str | None = None

    def fits(self, job: Row) -> bool:
        return self.lease_id in (None, job["lease_id"]) and self.worker_id in (None, job["assignee_id"])


@dataclass(frozen=True, slots=True)
class Case:
    """An operation asked of a job. `job` is its row, None if there is none."""

    operation: Operation | None
    when: When
    stage: Stage
    job: Row | None
    given: Given

    def step(self, state: JobState | None, when: When | None = None) -> Transition | None:
        return find(self.operation, state, when or self.when) if self.operation else None

    def judged_by_state(self, when: When | None = None) -> Steps | Refusal:
        step = self.step(self.stage.state, when)
        return (step,) if step else Refusal.WRONG_STATE


Judge: TypeAlias = Callable[[Case], "Steps | Refusal"]


def settling(case: Case) -> Steps | Refusal:
    """Guards are optional and checked when given; whether the lease has lapsed does not matter."""
    if case.job is None:
        return Refusal.NOT_FOUND
    if not case.given.fits(case.job):
        return Refusal.LEASE_LOST
    ends = {step.target for state in HELD if (step := case.step(state))}
    verdict = case.judged_by_state()
    if verdict is Refusal.WRONG_STATE and case.given.lease_id and case.stage.state in ends & ARCHIVED:
        return Refusal.ALREADY
    return verdict


def under_lease(case: Case) -> Steps | Refusal:
    """Seed 003: the lease is required, must be the job's and not lapsed; the worker is for the record."""
    if case.given.lease_id is None:
        return Refusal.LEASE_MISSING
    if case.job is None:
        return Refusal.NOT_FOUND
    if case.stage.state in ARCHIVED:
        return Refusal.WRONG_STATE
    if case.job["lease_id"] != case.given.lease_id:
        return Refusal.LEASE_LOST
    if case.stage.state not in HELD or case.stage.condition is Condition.LAPSED:
        return Refusal.LAPSED
    return case.judged_by_state()


def keeping(case: Case) -> Steps | Refusal:
    """A worker's keeper: as above, but told and not raised."""
    if case.job is None:
        return Refusal.NOT_FOUND
    if case.stage.state in ARCHIVED:
        leases = (case.given.lease_id, case.job["lease_id"])
        was_anothers = None not in leases and not case.given.fits(case.job)
        return Refusal.LEASE_LOST if was_anothers else Refusal.NOT_FOUND
    verdict = under_lease(case)
    return Refusal.LEASE_LOST if verdict is Refusal.LEASE_MISSING else verdict


def reporting(case: Case) -> Steps | Refusal:
    return Refusal.LEASE_MISSING if case.given.lease_id is None else settling(case)


def taking_resources(case: Case) -> Steps | Refusal:
    """While it runs; what a transition speaks about stays as it is."""
    if case.job is None or case.stage.state in ARCHIVED:
        return by_anybody(case)
    if case.given.lease_id not in (None, case.job["lease_id"]):
        return Refusal.LEASE_LOST
    if case.stage.state is not JobState.RUNNING:
        return Refusal.WRONG_STATE
    return () if case.given.fits(case.job) else Refusal.LEASE_LOST


def giving_resources_back(case: Case) -> Steps | Refusal:
    own = case.job is not None and case.given.fits(case.job)
    return () if own and case.stage.state in HELD else Refusal.NOTHING_TO_DO


def by_anybody(case: Case) -> Steps | Refusal:
    return case.judged_by_state() if case.job else Refusal.NOT_FOUND


def upon_all_that_fit(case: Case) -> Steps | Refusal:
    """That none fits is no error."""
    verdict = by_anybody(case)
    return Refusal.NOTHING_TO_DO if isinstance(verdict, Refusal) else verdict


def deleting(case: Case) -> Steps | Refusal:
    return case.judged_by_state() if case.job else Refusal.NOTHING_TO_DO


def sweeping(case: Case) -> Steps | Refusal:
    lapsed = case.stage.condition is Condition.LAPSED
    return upon_all_that_fit(case) if lapsed else Refusal.NOTHING_TO_DO


def claiming(case: Case) -> Steps | Refusal:
    fits = case.stage.condition in (Condition.PLAIN, Condition.LAST_ATTEMPT)
    return upon_all_that_fit(case) if fits else Refusal.NOTHING_TO_DO


def sweeping_and_claiming(case: Case) -> Steps | Refusal:
    """Overdue leases are swept first, and what was swept may be claimed at once."""
    if case.stage.condition is not Condition.LAPSED:
        return claiming(case)
    lapse = find(Operation.LAPSE, case.stage.state, When.LEASE_LAPSED)
    assert lapse is not None
    claim = case.step(lapse.target)
    return (lapse, claim) if claim else (lapse,)


def unheld(case: Case) -> Steps | Refusal:
    """Nothing keeps the job from running but a crash concern, its expiry or a busy key."""
    if case.stage.condition is Condition.LAPSED:
        return case.judged_by_state(When.LEASE_LAPSED)
    blocked = case.stage.condition in (Condition.FUTURE, Condition.BLOCKED, Condition.PAUSED)
    return Refusal.WRONG_STATE if blocked else by_anybody(case)


def clearing(case: Case) -> Steps | Refusal:
    if case.job is None or case.stage.state in ARCHIVED:
        return by_anybody(case)
    sidelined = case.stage.condition is Condition.SIDELINED
    return upon_all_that_fit(case) if sidelined else Refusal.NOTHING_TO_DO


def expiring(case: Case) -> Steps | Refusal:
    fits = case.stage.condition is Condition.EXPIRED and case.stage.state in WAITING
    return upon_all_that_fit(case) if fits else Refusal.NOTHING_TO_DO


def submitting(case: Case) -> Steps | Refusal:
    return Refusal.ID_TAKEN if case.job else case.judged_by_state()
