"""Putting jobs in line, one or many."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from holdfast import Job, JobStatus, SyncQueue
from holdfast.errors import InvalidArgument, JobExists, JobNotFound, PayloadError
from tests.clock import Clock
from tests.queue.hand import DISTANT, bring, enqueue, hold, status

EARLIER = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)

FULL: dict[str, Any] = {
    "job_type": "mail.send",
    "job_definition": {"to": ["you", 1, None]},
    "tags": ["b", "a"],
    "queue": "mail",
    "priority": -3,
    "available_at": DISTANT,
    "created_at": EARLIER,
    "expires_at": DISTANT + timedelta(days=1),
    "max_attempts": 4,
    "resource_keys": ["printer", "fax"],
    "singleton_key": "one",
    "if_parent_fails": "run",
}


def test_enqueueing_answers_the_id_and_stores_the_job_as_initial_pending(queue: SyncQueue) -> None:
    assert queue.enqueue_job(Job("mine", "mail.send", {"to": "you"}, ["a"])) == "mine"

    found = queue.get_job("mine")
    assert (found.status, found.job_type, found.job_definition) == (
        JobStatus.INITIAL_PENDING,
        "mail.send",
        {"to": "you"},
    )
    assert found.tags == ("a",)


def test_every_field_of_a_job_is_stored_and_read_back(queue: SyncQueue) -> None:
    queue.enqueue_job(Job("parent"))
    queue.enqueue_job(Job("full", **FULL, wait_for=["parent"]))

    found = queue.get_job("full")

    for name, given in {**FULL, "wait_for": ["parent"]}.items():
        expected = tuple(given) if isinstance(given, list) else given
        assert getattr(found, name) == expected, name


def test_a_new_job_has_nothing_to_say_yet_of_what_became_of_it(queue: SyncQueue, clock: Clock) -> None:
    now = clock.freeze()
    queue.enqueue_job(Job("job"))

    found = queue.get_job("job")

    assert (found.created_at, found.available_at) == (now, now)
    assert (found.started_at, found.finalized_at, found.error_message, found.result) == (None,) * 4
    assert (found.retry_count, found.last_retry_at, found.assignee_id, found.assigned_at) == (
        0,
        None,
        None,
        None,
    )
    assert (found.worker_id, found.lease_id, found.lease_expires_at) == (None, None, None)
    assert (found.job_type, found.job_definition, found.tags, found.queue) == ("", None, (), "default")


def test_a_given_moment_of_creation_is_stored_and_the_job_is_due_since_then(queue: SyncQueue) -> None:
    queue.enqueue_job(Job("job", created_at=EARLIER))

    found = queue.get_job("job")
    assert (found.created_at, found.available_at) == (EARLIER, EARLIER)


def test_moments_come_back_in_utc_whatever_zone_they_were_given_in(queue: SyncQueue) -> None:
    elsewhere = datetime(2030, 1, 1, 12, tzinfo=timezone(timedelta(hours=5)))
    queue.enqueue_job(Job("job", available_at=elsewhere))

    found = queue.get_job("job").available_at

    assert found == elsewhere
    assert found is not None
    assert found.tzinfo is UTC


@pytest.mark.parametrize("content", [None, "text", b"\x00\x01", {"a": 1}, [], 0, False, 1.5])
def test_text_is_a_json_string_bytes_are_bytes_and_none_is_absent(queue: SyncQueue, content: Any) -> None:
    queue.enqueue_job(Job("job", "", content))

    found = queue.get_job("job").job_definition
    assert found == content
    assert type(found) is type(content)


def test_a_job_becomes_available_to_claims_with_its_tags(queue: SyncQueue) -> None:
    queue.enqueue_job(Job("job", tags=["a", "b"]))

    assert queue.claim_jobs("w", tags=["c"]) == []
    assert [job.id for job in queue.claim_jobs("w", tags=["b"])] == ["job"]


def test_tags_named_twice_count_once_and_keep_their_order(queue: SyncQueue) -> None:
    queue.enqueue_job(Job("job", tags=["b", "a", "b"]))

    assert queue.get_job("job").tags == ("b", "a")


@pytest.mark.parametrize("field", ["tags", "resource_keys", "wait_for"])
def test_one_text_where_a_list_belongs_is_refused(queue: SyncQueue, field: str) -> None:
    fields: dict[str, Any] = {field: "ab"}

    with pytest.raises(InvalidArgument, match=rf"job\.{field} must be a list of texts"):
        queue.enqueue_job(Job("job", **fields))


@pytest.mark.parametrize("state", [state for state in JobStatus if state is not JobStatus.INITIAL_PENDING])
def test_any_status_but_initial_pending_is_refused(queue: SyncQueue, state: JobStatus) -> None:
    with pytest.raises(InvalidArgument, match=f"job.status is {state}"):
        queue.enqueue_job(Job("job", status=state))
    with pytest.raises(JobNotFound):
        queue.get_job("job")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("started_at", EARLIER),
        ("finalized_at", EARLIER),
        ("error_message", "boom"),
        ("error_message", ""),
        ("result", 0),
        ("retry_count", 1),
        ("last_retry_at", EARLIER),
        ("assignee_id", "w"),
        ("assigned_at", EARLIER),
        ("worker_id", "w"),
        ("lease_id", "x"),
        ("lease_expires_at", EARLIER),
    ],
)
def test_what_only_the_queue_can_say_is_refused_by_name(queue: SyncQueue, field: str, value: Any) -> None:
    if field == "result":
        value = {"a": 1}
    with pytest.raises(InvalidArgument, match=rf"jobs\[1\]\.{field} is for the queue to say"):
        queue.enqueue_jobs([Job("first"), Job("second", **{field: value})])
    with pytest.raises(JobNotFound):
        queue.get_job("first")


@pytest.mark.parametrize("job_id", ["", None, 7])
def test_a_job_without_an_id_is_refused(queue: SyncQueue, job_id: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"job\.id"):
        queue.enqueue_job(Job(job_id))


@pytest.mark.parametrize("job", [None, "job", {"id": "job"}])
def test_what_is_not_a_job_is_refused(queue: SyncQueue, job: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"job must be a holdfast\.Job"):
        queue.enqueue_job(job)
    with pytest.raises(InvalidArgument, match=r"jobs\[0\] must be a holdfast\.Job"):
        queue.enqueue_jobs([job])


@pytest.mark.parametrize("jobs", [None, Job("job"), 7])
def test_what_is_not_a_list_of_jobs_is_refused(queue: SyncQueue, jobs: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"jobs must be a list of holdfast\.Job"):
        queue.enqueue_jobs(jobs)


@pytest.mark.parametrize(
    "fields",
    [
        {"available_at": datetime(2030, 1, 1)},
        {"created_at": datetime(2030, 1, 1)},
        {"expires_at": datetime(2030, 1, 1)},
        {"available_at": "tomorrow"},
        {"priority": "high"},
        {"max_attempts": 0},
        {"queue": ""},
        {"queue": "x" * 41},
        {"job_type": 7},
        {"singleton_key": ""},
        {"if_parent_fails": "panic"},
        {"tags": [""]},
        {"tags": [None]},
        {"tags": 7},
        {"wait_for": ["nobody"]},
    ],
    ids=repr,
)
def test_what_no_job_can_have_is_refused_and_nothing_is_stored(
    queue: SyncQueue, fields: dict[str, Any]
) -> None:
    with pytest.raises((InvalidArgument, JobNotFound)):
        queue.enqueue_job(Job("job", **fields))
    assert queue.get_job_stats().total_jobs == 0


@pytest.mark.parametrize("content", [object(), {1: 2}, "a\0b", float("nan"), b"x" * (1024**2 + 1), {1, 2}])
def test_a_definition_that_cannot_be_stored_is_refused(queue: SyncQueue, content: Any) -> None:
    with pytest.raises(PayloadError, match="payload"):
        queue.enqueue_job(Job("job", "", content))
    assert queue.get_job_stats().total_jobs == 0


def test_an_id_that_is_taken_is_an_error_whether_by_a_live_or_a_finished_job(queue: SyncQueue) -> None:
    enqueue(queue, "live")
    bring(queue, JobStatus.COMPLETED, "done")

    with pytest.raises(JobExists, match='"live"'):
        queue.enqueue_job(Job("live"))
    with pytest.raises(JobExists, match='"done"'):
        queue.enqueue_job(Job("done"))
    assert status(queue, "live") is JobStatus.INITIAL_PENDING


def test_an_id_of_the_generated_form_is_not_the_callers_to_choose(queue: SyncQueue) -> None:
    with pytest.raises(InvalidArgument, match="j7"):
        queue.enqueue_job(Job("j7"))


def test_many_jobs_are_answered_in_the_order_given(queue: SyncQueue) -> None:
    ids = [f"job-{number}" for number in (3, 1, 2)]

    assert queue.enqueue_jobs(Job(job_id) for job_id in ids) == ids
    assert [status(queue, job_id) for job_id in ids] == [JobStatus.INITIAL_PENDING] * 3


def test_no_jobs_are_no_error(queue: SyncQueue) -> None:
    assert queue.enqueue_jobs([]) == []


@pytest.mark.parametrize("bad", [Job("taken"), Job("free"), Job("x", "", object()), Job("")])  # type: ignore[arg-type]
def test_many_jobs_are_stored_all_or_none(queue: SyncQueue, bad: Job) -> None:
    enqueue(queue, "taken")

    with pytest.raises((JobExists, InvalidArgument)):
        queue.enqueue_jobs([Job("free"), bad])

    assert queue.get_job_stats().total_jobs == 1


def test_jobs_of_one_call_may_wait_for_each_other(queue: SyncQueue) -> None:
    queue.enqueue_jobs([Job("child", wait_for=["parent"]), Job("parent")])

    assert queue.get_job("child").wait_for == ("parent",)


def test_many_jobs_are_one_statement(queue: SyncQueue, conn: psycopg.Connection[Any]) -> None:
    queue.enqueue_jobs([Job(f"job-{number}") for number in range(20)])

    row = conn.execute("select count(distinct xmin::text) from holdfast.jobs").fetchone()
    assert row == (1,)


def test_many_threads_may_enqueue_at_once(database: str) -> None:
    with SyncQueue(database) as queue:
        errors: list[BaseException] = []

        def enqueue_some(thread: int) -> None:
            try:
                for number in range(10):
                    queue.enqueue_job(Job(f"{thread}-{number}"))
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=enqueue_some, args=[number]) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert errors == []
        assert queue.get_job_stats().pending_jobs == 120


def test_a_job_that_left_initial_pending_never_returns_to_it(queue: SyncQueue) -> None:
    hold(queue)
    leaves: list[Callable[[], object]] = [
        lambda: queue.fail_job("job", "boom"),
        lambda: queue.release("job"),
        lambda: queue.retry_later("job", EARLIER),
        lambda: queue.requeue_job("job", EARLIER),
    ]
    for leave in leaves:
        leave()
        assert status(queue, "job") is not JobStatus.INITIAL_PENDING
        (job,) = queue.claim_jobs("w", queues=["job"])
        assert job.status is JobStatus.RUNNING
