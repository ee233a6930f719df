"""The table of transitions keeps the promises the rest of the engine is built on."""

from __future__ import annotations

import pytest

from holdfast.domain.lifecycle import (
    COLUMNS,
    TRANSITIONS,
    Operation,
    Transition,
    When,
    find,
    sources,
    target,
    variants,
)
from holdfast.domain.states import ARCHIVED, FINISHED, HELD, WAITING, JobState
from holdfast.errors import InvalidArgument

# The specification once more, in its own words, so that the table cannot change by accident.
# Operation: the states it starts from, and all the states it can lead to.
WAIT = "INITIAL_PENDING RESCHEDULED FAILED_RETRY UNKNOWN_RETRY"
SPECIFIED = {
    "submit": ("-", "INITIAL_PENDING"),
    "claim": (WAIT, "RUNNING"),
    "extend": ("RUNNING CANCELLING", "RUNNING CANCELLING"),
    "report_progress": ("RUNNING CANCELLING", "RUNNING CANCELLING"),
    "complete": ("RUNNING CANCELLING UNKNOWN_RETRY UNKNOWN_STOPPED", "COMPLETED"),
    "complete_unheld": (f"{WAIT} RUNNING", "COMPLETED"),
    "fail": ("RUNNING UNKNOWN_RETRY", "FAILED_RETRY DEAD"),
    "requeue": ("RUNNING", "FAILED_RETRY DEAD"),
    "reschedule": ("RUNNING", "RESCHEDULED"),
    "reschedule_unheld": (f"{WAIT} RUNNING", WAIT),
    "undelivered": ("RUNNING CANCELLING", "FAILED_RETRY RESCHEDULED STOPPED"),
    "release": ("RUNNING CANCELLING", "UNKNOWN_RETRY UNKNOWN_STOPPED"),
    "lapse": ("RUNNING CANCELLING", "UNKNOWN_RETRY UNKNOWN_STOPPED"),
    "mark_worker_unresponsive": ("RUNNING CANCELLING", "UNKNOWN_RETRY UNKNOWN_STOPPED"),
    "reset_running_jobs": ("RUNNING CANCELLING", "UNKNOWN_RETRY UNKNOWN_STOPPED"),
    "clear_crash_concern": ("UNKNOWN_RETRY RUNNING CANCELLING", "UNKNOWN_RETRY RUNNING CANCELLING"),
    "cancel": (f"{WAIT} DEAD RUNNING CANCELLING", "UNSCHEDULED STOPPED CANCELLING"),
    "stop": ("RUNNING CANCELLING UNKNOWN_RETRY", "STOPPED"),
    "stop_with_retry": ("CANCELLING", "STOPPED"),
    "mark_unknown_stopped": ("RUNNING CANCELLING UNKNOWN_RETRY", "UNKNOWN_STOPPED"),
    "acknowledge_cancellation": ("CANCELLING", "STOPPED UNKNOWN_STOPPED"),
    "revive": ("DEAD", "RESCHEDULED"),
    "delete": ("COMPLETED STOPPED UNSCHEDULED UNKNOWN_STOPPED DEAD", "-"),
    "cleanup": ("COMPLETED", "-"),
}


def operations_touching(column: str) -> set[Operation]:
    whole_row = {Operation.SUBMIT, Operation.DELETE, Operation.CLEANUP}
    return {step.operation for step in TRANSITIONS if column in step.touches} - whole_row


def steps_of(operation: Operation) -> list[Transition]:
    return [step for step in TRANSITIONS if step.operation is operation]


@pytest.mark.parametrize("operation", Operation)
def test_an_operation_starts_and_ends_where_the_specification_says(operation: Operation) -> None:
    starts, ends = ({word for word in words.split() if word != "-"} for words in SPECIFIED[operation])

    assert {step.source for step in steps_of(operation)} - {None} == starts
    assert {step.target for step in steps_of(operation)} - {None} == ends


def test_a_step_is_named_by_operation_source_and_variant() -> None:
    names = [(step.operation, step.source, step.when) for step in TRANSITIONS]

    assert len(names) == len(set(names))


def test_steps_touch_known_columns_only() -> None:
    assert {column for step in TRANSITIONS for column in step.touches} == set(COLUMNS)


def test_a_step_that_changes_the_state_says_that_it_touches_it() -> None:
    assert all(("state" in step.touches) == (step.source != step.target) for step in TRANSITIONS)


def test_a_job_that_left_initial_pending_never_returns_to_it() -> None:
    returns = [
        step
        for step in TRANSITIONS
        if step.target is JobState.INITIAL_PENDING and step.source not in (None, JobState.INITIAL_PENDING)
    ]

    assert returns == []


def test_an_archived_job_changes_only_when_a_late_result_comes_from_the_unknown() -> None:
    changes = {
        (step.operation, step.source)
        for step in TRANSITIONS
        if step.source in ARCHIVED and step.target is not None
    }

    assert changes == {(Operation.COMPLETE, JobState.UNKNOWN_STOPPED)}


def test_a_dead_job_can_be_revived_cancelled_or_deleted_and_nothing_else() -> None:
    out = {step.operation for step in TRANSITIONS if step.source is JobState.DEAD}

    assert out == {Operation.REVIVE, Operation.CANCEL, Operation.DELETE}


def test_every_state_is_reached() -> None:
    assert {step.target for step in TRANSITIONS} == {None, *JobState}


def test_every_finish_writes_the_moment_of_the_end() -> None:
    finishes = [step for step in TRANSITIONS if step.target in FINISHED]

    assert all("finalized_at" in step.touches for step in finishes)


def test_a_job_that_is_not_finished_gets_no_moment_of_the_end() -> None:
    lively = [step for step in TRANSITIONS if step.target in WAITING | HELD and step.source is not None]

    assert {step.operation for step in lively if "finalized_at" in step.touches} == {Operation.REVIVE}


def test_attempts_change_only_when_a_failure_is_reported_or_a_job_revived() -> None:
    counting = {Operation.FAIL, Operation.REQUEUE, Operation.STOP_WITH_RETRY}

    assert operations_touching("attempts") == counting | {Operation.REVIVE}
    assert operations_touching("errors") == counting
    assert operations_touching("last_retry_at") == counting


def test_a_hand_back_leaves_the_error_and_the_attempts_alone() -> None:
    kept = {"attempts", "last_error", "errors", "last_retry_at"}

    assert all(not kept & step.touches for step in steps_of(Operation.RESCHEDULE))


def test_only_a_lapse_adds_to_the_count_of_lapses() -> None:
    counting = [
        step
        for step in TRANSITIONS
        if "lease_expiration_count" in step.touches and step.source and step.target
    ]

    assert {step.when for step in counting} == {When.LEASE_LAPSED}


def test_the_streak_of_lapses_is_touched_by_lapses_completions_hand_backs_and_people() -> None:
    assert operations_touching("consecutive_expirations") == {
        Operation.LAPSE,
        Operation.COMPLETE,
        Operation.COMPLETE_UNHELD,
        Operation.FAIL,
        Operation.REQUEUE,
        Operation.RESCHEDULE,
        Operation.RESCHEDULE_UNHELD,
        Operation.UNDELIVERED,
        Operation.CLEAR_CRASH_CONCERN,
    }


def test_who_ran_a_job_and_when_is_written_by_a_claim_alone() -> None:
    for column in ("assignee_id", "assigned_at", "started_at"):
        assert operations_touching(column) == {Operation.CLAIM}


def test_a_lease_id_outlives_the_end_of_the_job_and_the_loss_of_its_worker() -> None:
    lost = {
        Operation.RELEASE,
        Operation.LAPSE,
        Operation.MARK_WORKER_UNRESPONSIVE,
        Operation.RESET_RUNNING_JOBS,
    }

    assert not lost & operations_touching("lease_id")
    assert all(
        "lease_id" not in step.touches for step in TRANSITIONS if step.source and step.target in ARCHIVED
    )


def test_cancelling_twice_changes_nothing() -> None:
    step = find(Operation.CANCEL, JobState.CANCELLING)

    assert step is not None
    assert (step.target, step.touches) == (JobState.CANCELLING, frozenset())


def test_a_job_is_rewritten_by_reschedules_alone() -> None:
    for column in ("next_need", "wait_for", "payload"):
        assert operations_touching(column) == {Operation.RESCHEDULE, Operation.RESCHEDULE_UNHELD}


def test_the_target_of_a_refused_operation_is_none() -> None:
    assert target(Operation.FAIL, JobState.CANCELLING, "attempts left") is None
    assert target(Operation.SUBMIT, JobState.COMPLETED) is None


def test_the_variant_decides_where_the_state_does_not() -> None:
    assert target(Operation.FAIL, JobState.RUNNING, "attempts left") is JobState.FAILED_RETRY
    assert target(Operation.FAIL, JobState.RUNNING, "last attempt or permanent") is JobState.DEAD


def test_leaving_the_variant_out_is_an_error_where_it_decides() -> None:
    with pytest.raises(InvalidArgument, match='"was executing", "was not executing"'):
        target(Operation.ACKNOWLEDGE_CANCELLATION, JobState.CANCELLING)


def test_sources_and_variants_of_an_operation_can_be_listed() -> None:
    assert sources(Operation.SUBMIT) == {None}
    assert sources(Operation.CLAIM) == WAITING
    assert variants(Operation.UNDELIVERED) == (When.QUEUE_STREAM, When.WORKER_STREAM)
