"""What became of a job: complete, fail, stop, stop with retry, unknown, acknowledge; for one job each."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Job, JobStatus, SyncQueue
from holdfast.errors import InvalidArgument, JobNotFound, LeaseLost, PayloadError, WrongState
from tests.clock import Clock
from tests.queue.hand import bring, bring_all, cancelling, claim, enqueue, hold, soon, status

S = JobStatus

Verb = Callable[..., object]

VERBS: dict[str, tuple[tuple[Any, ...], dict[JobStatus, JobStatus]]] = {
    "complete_job": (
        (),
        {
            S.RUNNING: S.COMPLETED,
            S.CANCELLING: S.COMPLETED,
            S.UNKNOWN_RETRY: S.COMPLETED,
            S.UNKNOWN_STOPPED: S.COMPLETED,
        },
    ),
    "fail_job": (("boom",), {S.RUNNING: S.FAILED_RETRY, S.UNKNOWN_RETRY: S.FAILED_RETRY}),
    "stop_job": ((), {S.RUNNING: S.STOPPED, S.CANCELLING: S.STOPPED, S.UNKNOWN_RETRY: S.STOPPED}),
    "stop_job_with_retry": ((), {S.CANCELLING: S.STOPPED}),
    "mark_job_unknown_stopped": (
        (),
        {
            S.CANCELLING: S.UNKNOWN_STOPPED,
            S.UNKNOWN_RETRY: S.UNKNOWN_STOPPED,
            S.RUNNING: S.UNKNOWN_STOPPED,
        },
    ),
    "acknowledge_cancellation": ((True,), {S.CANCELLING: S.STOPPED}),
}
"""Each verb with arguments it takes, and its valid transitions in the words of the specification."""


def verb_of(queue: SyncQueue, name: str) -> Verb:
    verb: Verb = getattr(queue, name)
    return verb


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_makes_its_valid_transitions_and_refuses_every_other_state(
    queue: SyncQueue, name: str
) -> None:
    arguments, transitions = VERBS[name]
    for job_id in bring_all(queue):
        before = queue.get_job(job_id)
        target = transitions.get(before.status)
        if target is None:
            with pytest.raises(WrongState, match=f'job "{job_id}" is {before.status}, .* it starts from'):
                verb_of(queue, name)(job_id, *arguments)
            assert queue.get_job(job_id) == before
        else:
            verb_of(queue, name)(job_id, *arguments)
            assert status(queue, job_id) is target


@pytest.mark.parametrize("name", VERBS)
def test_a_job_that_does_not_exist_is_an_error_that_names_it(queue: SyncQueue, name: str) -> None:
    with pytest.raises(JobNotFound, match='job "nobody" does not exist, so it cannot be changed by'):
        verb_of(queue, name)("nobody", *VERBS[name][0])


@pytest.mark.parametrize("name", VERBS)
def test_an_empty_id_is_refused(queue: SyncQueue, name: str) -> None:
    with pytest.raises(InvalidArgument, match="job_id is empty"):
        verb_of(queue, name)("", *VERBS[name][0])


@pytest.mark.parametrize("name", VERBS)
def test_assignee_and_moment_of_assignment_are_kept(queue: SyncQueue, name: str) -> None:
    held = cancelling(queue) if S.RUNNING not in VERBS[name][1] else hold(queue)

    verb_of(queue, name)("job", *VERBS[name][0])

    found = queue.get_job("job")
    assert (found.assignee_id, found.assigned_at) == ("w", held.assigned_at)
    assert (found.worker_id, found.lease_id, found.lease_expires_at) == (None, None, None)


@pytest.mark.parametrize("name", VERBS)
def test_a_guard_that_does_not_match_is_lease_lost_and_changes_nothing(queue: SyncQueue, name: str) -> None:
    held = cancelling(queue) if S.RUNNING not in VERBS[name][1] else hold(queue)
    before = queue.get_job("job")

    for guard in ({"lease_id": "00000000-0000-0000-0000-000000000000"}, {"worker_id": "somebody else"}):
        with pytest.raises(LeaseLost, match='the caller does not hold job "job"'):
            verb_of(queue, name)("job", *VERBS[name][0], **guard)
    for guard in ({"lease_id": ""}, {"worker_id": ""}):
        with pytest.raises(InvalidArgument, match="is empty"):
            verb_of(queue, name)("job", *VERBS[name][0], **guard)
    assert queue.get_job("job") == before

    verb_of(queue, name)("job", *VERBS[name][0], lease_id=held.lease_id, worker_id="w")


@pytest.mark.parametrize("name", VERBS)
def test_without_a_guard_anybody_may_say_it(queue: SyncQueue, name: str) -> None:
    if S.RUNNING in VERBS[name][1]:
        hold(queue, worker_id="somebody")
    else:
        cancelling(queue)

    verb_of(queue, name)("job", *VERBS[name][0])


@pytest.mark.parametrize("name", ["complete_job", "stop_job", "mark_job_unknown_stopped"])
def test_a_guarded_verb_that_is_repeated_is_as_good_as_the_first(queue: SyncQueue, name: str) -> None:
    lease_id = hold(queue).lease_id

    verb_of(queue, name)("job", lease_id=lease_id)
    verb_of(queue, name)("job", lease_id=lease_id)

    with pytest.raises(WrongState):
        verb_of(queue, name)("job")


# Complete


@pytest.mark.parametrize(
    "result", [None, {"a": [1, 2.5, None]}, "text", b"\x00\xff", 10**40, [], True, {"ü": "☃"}]
)
def test_completing_keeps_the_result_as_it_was_given(queue: SyncQueue, result: Any) -> None:
    hold(queue)

    queue.complete_job("job", result)

    found = queue.get_job("job").result
    assert found == result
    assert type(found) is type(result)


def test_completing_sets_the_moment_of_the_end(queue: SyncQueue, clock: Clock) -> None:
    hold(queue)
    now = clock.freeze()

    queue.complete_job("job")

    assert queue.get_job("job").finalized_at == now


def test_a_completed_job_is_never_eligible_again(queue: SyncQueue) -> None:
    hold(queue)
    queue.complete_job("job")

    assert queue.claim_jobs("w", queues=["job"]) == []
    assert queue.reset_running_jobs() == 0


@pytest.mark.parametrize(
    "result", [object(), {1, 2}, {"deep": [object()]}, soon()], ids=["object", "set", "deep", "moment"]
)
def test_a_result_that_cannot_be_encoded_raises_before_any_call_and_the_job_stays_held(
    queue: SyncQueue, result: Any
) -> None:
    held = hold(queue)

    with pytest.raises(PayloadError, match=r"result.*cannot be stored as JSON"):
        queue.complete_job("job", result)

    found = queue.get_job("job")
    assert (found.status, found.lease_id) == (S.RUNNING, held.lease_id)
    queue.complete_job("job", "better", lease_id=held.lease_id)


@pytest.mark.parametrize("result", ["a\0b", {"n": float("nan")}, "\ud800"], ids=ascii)
def test_a_result_that_postgresql_cannot_hold_is_made_storable_and_says_so(
    queue: SyncQueue, result: Any
) -> None:
    hold(queue)

    queue.complete_job("job", result)

    assert status(queue, "job") is S.COMPLETED
    assert "holdfast" in str(queue.get_job("job").result)


def test_completing_keeps_the_error_message_of_an_earlier_failure(queue: SyncQueue) -> None:
    hold(queue)
    queue.fail_job("job", "boom")
    claim(queue, "job")

    queue.complete_job("job")

    found = queue.get_job("job")
    assert (found.error_message, found.retry_count) == ("boom", 1)


def test_children_of_a_cancelled_job_stay_cancelled_when_it_is_completed_after_all(queue: SyncQueue) -> None:
    bring(queue, S.RUNNING, "parent")
    enqueue(queue, "child", wait_for=["parent"])
    queue.cancel_jobs(job_ids=["parent"])
    queue.mark_job_unknown_stopped("parent")
    assert status(queue, "child") is S.UNSCHEDULED

    queue.complete_job("parent")

    assert (status(queue, "parent"), status(queue, "child")) == (S.COMPLETED, S.UNSCHEDULED)


# Fail


def test_failing_counts_a_retry_keeps_the_message_and_the_moment_and_has_not_ended(
    queue: SyncQueue, clock: Clock
) -> None:
    hold(queue)
    now = clock.freeze()

    assert queue.fail_job("job", "no route") is False

    found = queue.get_job("job")
    assert (found.status, found.error_message, found.retry_count) == (S.FAILED_RETRY, "no route", 1)
    assert (found.last_retry_at, found.available_at, found.finalized_at) == (now, now, None)


def test_a_failed_job_is_eligible_again_at_once_and_keeps_its_first_start(queue: SyncQueue) -> None:
    first = hold(queue)
    queue.fail_job("job", "boom")

    again = claim(queue, "job", "other")

    assert (again.retry_count, again.error_message, again.started_at) == (1, "boom", first.started_at)
    assert again.lease_id != first.lease_id


@pytest.mark.parametrize("delay", [60, 60.0, timedelta(minutes=1)])
def test_a_failed_job_waits_for_the_delay(queue: SyncQueue, clock: Clock, delay: timedelta | float) -> None:
    hold(queue)
    now = clock.freeze()

    queue.fail_job("job", "boom", delay=delay)

    assert queue.get_job("job").available_at == now + timedelta(minutes=1)
    assert queue.claim_jobs("w", queues=["job"]) == []


def test_without_max_attempts_a_job_may_fail_for_ever(queue: SyncQueue) -> None:
    enqueue(queue, "job")
    for _ in range(30):
        claim(queue, "job")
        assert queue.fail_job("job", "boom") is False

    assert queue.get_job("job").retry_count == 30


def test_the_last_attempt_is_the_end_and_fail_says_so(queue: SyncQueue, clock: Clock) -> None:
    now = clock.freeze()
    hold(queue, max_attempts=2)
    assert queue.fail_job("job", "first") is False
    claim(queue, "job")
    assert queue.fail_job("job", "second") is True

    found = queue.get_job("job")
    assert (found.status, found.finalized_at, found.retry_count) == (S.DEAD, now, 2)


def test_a_permanent_failure_is_the_end(queue: SyncQueue) -> None:
    hold(queue)

    assert queue.fail_job("job", "never", permanent=True) is True

    assert status(queue, "job") is S.DEAD


def test_a_failure_must_say_what_went_wrong(queue: SyncQueue) -> None:
    hold(queue)

    with pytest.raises(InvalidArgument, match="error is empty"):
        queue.fail_job("job", "")
    with pytest.raises(InvalidArgument, match="error must be text, not ValueError"):
        queue.fail_job("job", ValueError("x"))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="delay must be"):
        queue.fail_job("job", "x", delay=-1)
    with pytest.raises(InvalidArgument, match="permanent must be True or False"):
        queue.fail_job("job", "x", permanent=1)  # type: ignore[arg-type]
    assert status(queue, "job") is S.RUNNING


def test_an_error_text_that_cannot_be_stored_is_made_storable(queue: SyncQueue) -> None:
    hold(queue)

    queue.fail_job("job", "a\0b")

    assert "a\\x00b" in (queue.get_job("job").error_message or "")


# Stop, unknown, acknowledge


@pytest.mark.parametrize("name", ["stop_job", "mark_job_unknown_stopped", "stop_job_with_retry"])
@pytest.mark.parametrize("message", ["enough", ""])
def test_stopping_sets_the_message_even_an_empty_one_and_the_end(
    queue: SyncQueue, clock: Clock, name: str, message: str
) -> None:
    hold(queue)
    queue.fail_job("job", "earlier")
    claim(queue, "job")
    queue.cancel_jobs(job_ids=["job"])
    now = clock.freeze()

    verb_of(queue, name)("job", message)

    found = queue.get_job("job")
    assert (found.error_message, found.finalized_at) == (message, now)


@pytest.mark.parametrize("name", ["stop_job", "mark_job_unknown_stopped", "stop_job_with_retry"])
def test_what_was_stopped_is_not_eligible_any_more(queue: SyncQueue, name: str) -> None:
    cancelling(queue)

    verb_of(queue, name)("job")

    assert queue.claim_jobs("w", queues=["job"]) == []


def test_stopping_with_retry_counts_the_attempt_and_stopping_does_not(queue: SyncQueue, clock: Clock) -> None:
    cancelling(queue, "counted")
    cancelling(queue, "plain")
    now = clock.freeze()

    queue.stop_job_with_retry("counted", "failed while stopping")
    queue.stop_job("plain", "stopped")

    counted, plain = queue.get_job("counted"), queue.get_job("plain")
    assert (counted.retry_count, counted.last_retry_at) == (1, now)
    assert (plain.retry_count, plain.last_retry_at) == (0, None)


@pytest.mark.parametrize(("was_executing", "end"), [(True, S.STOPPED), (False, S.UNKNOWN_STOPPED)])
def test_acknowledging_says_whether_it_was_executing(
    queue: SyncQueue, clock: Clock, was_executing: bool, end: JobStatus
) -> None:
    cancelling(queue)
    now = clock.freeze()

    queue.acknowledge_cancellation("job", was_executing)

    found = queue.get_job("job")
    assert (found.status, found.finalized_at) == (end, now)


def test_acknowledging_takes_true_or_false_only(queue: SyncQueue) -> None:
    cancelling(queue)

    with pytest.raises(InvalidArgument, match="was_executing must be True or False"):
        queue.acknowledge_cancellation("job", None)  # type: ignore[arg-type]
    assert status(queue, "job") is S.CANCELLING


# Late results


@pytest.mark.parametrize("leave", ["release", "reset", "unresponsive", "lapse"])
def test_a_late_guarded_result_is_taken_until_the_next_claim(
    queue: SyncQueue, clock: Clock, leave: str
) -> None:
    held = {job_id: hold(queue, job_id, "gone") for job_id in ("in time", "too late")}
    match leave:
        case "release":
            for job_id in held:
                queue.release(job_id)
        case "reset":
            assert queue.reset_running_jobs() == 2
        case "unresponsive":
            assert queue.mark_worker_unresponsive("gone") == 2
        case _:
            clock.advance(31)
    taken: Job = claim(queue, "too late", "next")
    assert status(queue, "in time") is S.UNKNOWN_RETRY

    queue.complete_job("in time", 1, lease_id=held["in time"].lease_id)
    with pytest.raises(LeaseLost):
        queue.complete_job("too late", 1, lease_id=held["too late"].lease_id)

    assert status(queue, "in time") is S.COMPLETED
    assert queue.get_job("too late").lease_id == taken.lease_id
