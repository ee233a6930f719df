"""The endings for many jobs at once: each does what it can, and has a verdict in the order given."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import JobStatus, SyncQueue, Verdict
from holdfast.errors import InvalidArgument, PayloadError
from tests.queue.hand import bring_all, cancelling, hold, status

S = JobStatus

PLURALS: dict[str, tuple[Any, dict[JobStatus, JobStatus]]] = {
    "complete_jobs": (
        {"done": True},
        {
            S.RUNNING: S.COMPLETED,
            S.CANCELLING: S.COMPLETED,
            S.UNKNOWN_RETRY: S.COMPLETED,
            S.UNKNOWN_STOPPED: S.COMPLETED,
        },
    ),
    "fail_jobs": ("boom", {S.RUNNING: S.FAILED_RETRY, S.UNKNOWN_RETRY: S.FAILED_RETRY}),
    "stop_jobs": ("", {S.RUNNING: S.STOPPED, S.CANCELLING: S.STOPPED, S.UNKNOWN_RETRY: S.STOPPED}),
    "stop_jobs_with_retry": ("", {S.CANCELLING: S.STOPPED}),
    "mark_jobs_unknown_stopped": (
        "",
        {
            S.RUNNING: S.UNKNOWN_STOPPED,
            S.CANCELLING: S.UNKNOWN_STOPPED,
            S.UNKNOWN_RETRY: S.UNKNOWN_STOPPED,
        },
    ),
    "acknowledge_cancellations": (False, {S.CANCELLING: S.UNKNOWN_STOPPED}),
}


def plural(queue: SyncQueue, name: str, jobs: Any, **more: Any) -> list[Verdict]:
    verdicts: list[Verdict] = getattr(queue, name)(jobs, **more)
    return verdicts


@pytest.mark.parametrize("name", PLURALS)
def test_each_job_does_what_it_can_and_the_verdicts_are_in_the_order_given(
    queue: SyncQueue, name: str
) -> None:
    content, transitions = PLURALS[name]
    ids = [*reversed(bring_all(queue)), "nobody"]

    verdicts = plural(queue, name, [(job_id, content) for job_id in ids])

    expected = [
        Verdict(job_id, True, transitions[S(job_id)], "settled")
        if S(job_id) in transitions
        else Verdict(job_id, False, S(job_id), "wrong_state")
        for job_id in ids[:-1]
    ]
    assert verdicts == [*expected, Verdict("nobody", False, None, "not_found")]
    for verdict in verdicts[:-1]:
        assert status(queue, verdict.job_id) is verdict.status


@pytest.mark.parametrize("name", PLURALS)
def test_no_jobs_are_no_verdicts(queue: SyncQueue, name: str) -> None:
    assert plural(queue, name, []) == []


def test_the_content_goes_to_its_own_job(queue: SyncQueue) -> None:
    for job_id in ("a", "b", "c", "d"):
        hold(queue, job_id)

    queue.complete_jobs([("a", 1), ("b", b"two")])
    queue.fail_jobs([("d", "fourth"), ("c", "third")])

    assert [queue.get_job(job_id).result for job_id in ("a", "b")] == [1, b"two"]
    assert [queue.get_job(job_id).error_message for job_id in ("c", "d")] == ["third", "fourth"]


def test_acknowledgements_say_for_each_job_whether_it_was_executing(queue: SyncQueue) -> None:
    for job_id in ("a", "b"):
        cancelling(queue, job_id)

    verdicts = queue.acknowledge_cancellations([("a", True), ("b", False)])

    assert [verdict.status for verdict in verdicts] == [S.STOPPED, S.UNKNOWN_STOPPED]


@pytest.mark.parametrize("name", PLURALS)
def test_a_third_element_guards_the_one_job_by_its_lease(queue: SyncQueue, name: str) -> None:
    content, _ = PLURALS[name]
    leases = {job_id: cancelling(queue, job_id).lease_id for job_id in ("mine", "lost", "free")}
    if name == "fail_jobs":
        leases = {job_id: hold(queue, f"{job_id}-2").lease_id for job_id in leases}
    ids = {job_id: f"{job_id}-2" if name == "fail_jobs" else job_id for job_id in leases}

    verdicts = plural(
        queue,
        name,
        [
            (ids["mine"], content, leases["mine"]),
            (ids["lost"], content, leases["mine"]),
            (ids["free"], content, None),
        ],
    )

    assert [(verdict.ok, verdict.reason) for verdict in verdicts] == [
        (True, "settled"),
        (False, "lease_lost"),
        (True, "settled"),
    ]


def test_a_worker_guards_all_of_them(queue: SyncQueue) -> None:
    hold(queue, "mine", "me")
    hold(queue, "theirs", "them")

    verdicts = queue.complete_jobs([("theirs", None), ("mine", None)], worker_id="me")

    assert [(verdict.job_id, verdict.ok, verdict.reason) for verdict in verdicts] == [
        ("theirs", False, "lease_lost"),
        ("mine", True, "settled"),
    ]


def test_a_job_named_twice_is_settled_once_and_has_two_verdicts(queue: SyncQueue) -> None:
    hold(queue, "job")

    verdicts = queue.complete_jobs([("job", 1), ("job", 2)])

    assert [verdict.ok for verdict in verdicts] == [True, False]
    assert queue.get_job("job").result == 1


def test_a_guarded_batch_that_is_repeated_says_already_and_that_is_ok(queue: SyncQueue) -> None:
    lease_id = hold(queue, "job").lease_id

    queue.complete_jobs([("job", 1, lease_id)])
    again = queue.complete_jobs([("job", 1, lease_id)])

    assert again == [Verdict("job", True, S.COMPLETED, "already")]


@pytest.mark.parametrize(
    "element",
    ["ab", "job", ("job",), ("job", 1, None, 2), None, 7, {"job": 1}, ("", 1), (7, 1), ("job", 1, "")],
)
def test_what_is_not_a_pair_is_refused_by_its_place_and_nothing_is_settled(
    queue: SyncQueue, element: Any
) -> None:
    hold(queue, "good")

    with pytest.raises(InvalidArgument, match=r"jobs\[1\]"):
        queue.complete_jobs([("good", None), element])
    assert status(queue, "good") is S.RUNNING


@pytest.mark.parametrize("name", PLURALS)
def test_what_is_no_list_of_jobs_is_refused_and_named(queue: SyncQueue, name: str) -> None:
    for given in (None, 5, True):
        with pytest.raises(InvalidArgument, match=f"jobs must be a list of pairs.*, not {given}"):
            plural(queue, name, given)


def test_a_result_that_cannot_be_encoded_keeps_the_whole_batch_held(queue: SyncQueue) -> None:
    hold(queue, "good")
    hold(queue, "bad")

    with pytest.raises(PayloadError, match=r"jobs\[1\]: result"):
        queue.complete_jobs([("good", 1), ("bad", object())])  # type: ignore[list-item]
    assert [status(queue, job_id) for job_id in ("good", "bad")] == [S.RUNNING, S.RUNNING]


def test_an_empty_error_in_a_batch_of_failures_is_refused(queue: SyncQueue) -> None:
    hold(queue, "job")

    with pytest.raises(InvalidArgument, match=r"jobs\[0\]: error is empty"):
        queue.fail_jobs([("job", "")])
