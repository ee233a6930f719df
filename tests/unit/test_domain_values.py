"""What travels between the rooms is frozen, and says what it is."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import get_args

import pytest

from holdfast.domain.job import Job, NewJob
from holdfast.domain.lifecycle import Operation, sources
from holdfast.domain.outcome import (
    Acknowledged,
    Completed,
    Failed,
    Outcome,
    Reason,
    Released,
    Requeued,
    Rescheduled,
    Stopped,
    StoppedWithRetry,
    Undelivered,
    UnknownStopped,
    Verdict,
    operation_of,
)
from holdfast.domain.states import HELD, JobState

NOW = datetime(2026, 1, 1, tzinfo=UTC)

ONE_OF_EACH: list[Outcome] = [
    Completed({"n": 1}),
    Failed("no"),
    Requeued(),
    Rescheduled(),
    Released(),
    Stopped(),
    StoppedWithRetry("no"),
    UnknownStopped(),
    Acknowledged(was_executing=True),
    Undelivered("the stream ended"),
]


def job(state: JobState) -> Job:
    return Job(job_id="j1", state=state, queue="mail", created_at=NOW, available_at=NOW, assignee_id="w1")


def test_a_job_needs_nothing_but_to_be_asked_for() -> None:
    assert (NewJob().queue, NewJob().payload, NewJob().max_attempts) == ("default", None, None)


def test_a_new_job_cannot_be_changed_on_its_way() -> None:
    wanted = NewJob(task="mail.send")

    with pytest.raises(FrozenInstanceError):
        wanted.task = "mail.drop"  # type: ignore[misc]


@pytest.mark.parametrize("state", JobState)
def test_a_job_has_a_holder_only_while_it_is_held(state: JobState) -> None:
    assert job(state).holder_id == ("w1" if state in HELD else None)


def test_a_dead_job_is_finished() -> None:
    assert job(JobState.DEAD).is_finished
    assert not job(JobState.FAILED_RETRY).is_finished


def test_there_is_an_example_of_every_outcome() -> None:
    assert {type(outcome) for outcome in ONE_OF_EACH} == set(get_args(Outcome))


def test_every_outcome_is_written_by_an_operation_of_its_own() -> None:
    operations = [operation_of(outcome) for outcome in ONE_OF_EACH]

    assert len(set(operations)) == len(ONE_OF_EACH)


@pytest.mark.parametrize("outcome", ONE_OF_EACH, ids=lambda outcome: type(outcome).__name__)
def test_an_outcome_can_be_written_while_the_job_is_held(outcome: Outcome) -> None:
    assert HELD & sources(operation_of(outcome))


def test_a_permanent_failure_is_an_outcome_of_its_own_kind() -> None:
    assert Failed("no", permanent=True) != Failed("no")
    assert operation_of(Failed("no", permanent=True)) is Operation.FAIL


def test_a_verdict_reads_as_plain_words() -> None:
    verdict = Verdict("j1", False, JobState.RUNNING, Reason.LEASE_LOST)

    assert (verdict.job_id, verdict.ok, verdict.status, verdict.reason) == (
        "j1",
        False,
        "RUNNING",
        "lease_lost",
    )
