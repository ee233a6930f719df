"""The job as its users see it: a frozen value, the same however it was come by."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Job, JobStats, JobStatus, Verdict
from holdfast.domain.job import ClaimedJob
from holdfast.domain.states import JobState
from holdfast.queue.values import job_from_claim

NOW = datetime(2030, 1, 1, tzinfo=UTC)

CLAIMED = ClaimedJob(
    job_id="job",
    lease_id="lease",
    queue="mail",
    task="mail.send",
    payload={"a": 1},
    priority=2,
    tags=("t",),
    attempts=3,
    max_attempts=4,
    resource_keys=("db",),
    singleton_key="one",
    available_at=NOW,
    lease_expires_at=NOW + timedelta(seconds=90),
    timeout_s=None,
    retry=None,
    created_at=NOW - timedelta(days=1),
    number=7,
    started_at=NOW - timedelta(hours=1),
    last_retry_at=NOW - timedelta(minutes=1),
    expires_at=NOW + timedelta(days=1),
    error_message="boom",
    if_parent_fails="run",
)


def test_a_job_is_frozen() -> None:
    job = Job("job")

    with pytest.raises(FrozenInstanceError):
        job.status = JobStatus.RUNNING  # type: ignore[misc]


def test_four_fields_go_by_position_and_the_rest_by_name() -> None:
    job = Job("job", "mail.send", {"a": 1}, ["t"])

    assert (job.id, job.job_type, job.job_definition, job.tags) == ("job", "mail.send", {"a": 1}, ["t"])
    with pytest.raises(TypeError):
        Job("job", "", None, (), JobStatus.INITIAL_PENDING)  # type: ignore[call-arg]


def test_a_job_has_the_defaults_of_the_contract() -> None:
    job = Job("job")

    assert (job.job_type, job.job_definition, job.tags, job.status) == ("", None, (), "INITIAL_PENDING")
    assert (job.queue, job.priority, job.max_attempts, job.singleton_key) == ("default", 0, None, None)
    assert (job.available_at, job.created_at, job.expires_at) == (None, None, None)
    assert (job.resource_keys, job.wait_for, job.if_parent_fails) == ((), (), None)


def test_a_claimed_job_is_running_and_held_and_has_every_field_it_was_claimed_with() -> None:
    assert job_from_claim(CLAIMED, "w", 90) == Job(
        "job",
        "mail.send",
        {"a": 1},
        ("t",),
        status=JobStatus.RUNNING,
        queue="mail",
        priority=2,
        available_at=NOW,
        created_at=NOW - timedelta(days=1),
        expires_at=NOW + timedelta(days=1),
        max_attempts=4,
        resource_keys=("db",),
        singleton_key="one",
        if_parent_fails="run",
        started_at=NOW - timedelta(hours=1),
        error_message="boom",
        retry_count=3,
        last_retry_at=NOW - timedelta(minutes=1),
        assignee_id="w",
        assigned_at=NOW,
        worker_id="w",
        lease_id="lease",
        lease_expires_at=NOW + timedelta(seconds=90),
    )


def test_a_claimed_job_without_a_task_has_an_empty_type() -> None:
    assert job_from_claim(replace(CLAIMED, task=None), "w", 1).job_type == ""


def test_a_claimed_job_is_a_value_like_any_other() -> None:
    job = job_from_claim(CLAIMED, "w", 90)

    assert pickle.loads(pickle.dumps(job)) == job  # noqa: S301
    assert replace(job, queue="other").queue == "other"
    assert repr(job).startswith("Job(id='job', job_type='mail.send'")
    with pytest.raises(FrozenInstanceError):
        job.queue = "other"  # type: ignore[misc]


def test_every_field_of_the_specification_is_there_by_its_name() -> None:
    names = {each.name for each in fields(Job)}

    assert names >= {
        *("id", "status", "job_type", "job_definition", "tags", "created_at", "started_at", "finalized_at"),
        *("error_message", "result", "retry_count", "last_retry_at", "assignee_id", "assigned_at"),
        *("lease_id", "lease_expires_at", "worker_id"),
    }
    assert {each.name for each in fields(JobStats)} == {
        *("tags", "total_jobs", "pending_jobs", "running_jobs", "completed_jobs", "stopped_jobs"),
        *("failed_jobs", "total_retries"),
    }
    assert [each.name for each in fields(Verdict)] == ["job_id", "ok", "status", "reason"]


def test_the_status_of_a_job_is_the_state_of_the_model() -> None:
    assert JobStatus is JobState
    nine: list[Any] = [
        *("INITIAL_PENDING", "RUNNING", "COMPLETED", "FAILED_RETRY", "STOPPED", "UNSCHEDULED"),
        *("UNKNOWN_RETRY", "CANCELLING", "UNKNOWN_STOPPED"),
    ]
    assert {*nine, "RESCHEDULED", "DEAD"} == {state.value for state in JobStatus}
