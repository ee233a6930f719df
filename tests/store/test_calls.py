"""Each method does what its function of the engine does, and answers in our own values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import assert_type

import pytest

from holdfast.domain.job import ClaimedJob, Job, NewJob, Progress
from holdfast.domain.outcome import (
    Acknowledged,
    Completed,
    Failed,
    Outcome,
    Released,
    Requeued,
    Rescheduled,
    Stopped,
    StoppedWithRetry,
    Undelivered,
    UnknownStopped,
    Verdict,
)
from holdfast.domain.states import JobState, Status
from holdfast.errors import InvalidArgument, JobExists, JobNotFound, LeaseLost, WrongState
from holdfast.store import CancelledJobs, Hold, JobStats, Store, SyncStore, arrays
from holdfast.store.calls import settling, submitting
from holdfast.store.calls.claiming import Floor, claim_terms
from tests.clock import Clock

FULL = NewJob(
    job_id="full",
    queue="mail",
    task="mail.send",
    payload={"to": "you"},
    priority=-7,
    tags=["a", 'b"\\,{}', "ü"],
    expires_at=datetime(2999, 1, 1, tzinfo=UTC),
    created_at=datetime(2020, 1, 1, tzinfo=UTC),
    max_attempts=3,
    resource_keys=["printer", "fax"],
    singleton_key="one",
    if_parent_fails="run",
    timeout_s=2.5,
    retry={"base": 15},
)


def test_every_field_of_a_new_job_arrives(store: SyncStore) -> None:
    store.submit_jobs([FULL, NewJob(queue="mail", wait_for=["full"])])

    job = store.get_job("full")
    child = store.get_job("j2")

    assert job is not None
    assert child is not None
    assert (job.queue, job.task, job.payload, job.priority) == ("mail", "mail.send", {"to": "you"}, -7)
    assert (job.tags, job.resource_keys) == (tuple(FULL.tags), ("printer", "fax"))
    assert (job.expires_at, job.created_at, job.available_at) == (
        FULL.expires_at,
        FULL.created_at,
        FULL.created_at,
    )
    assert (job.max_attempts, job.singleton_key, job.if_parent_fails) == (3, "one", "run")
    assert (job.timeout_s, job.retry) == (2.5, {"base": 15})
    assert (job.state, job.status) == (JobState.INITIAL_PENDING, Status.READY)
    assert (child.wait_for, child.status) == (("full",), Status.PENDING_JOBS)


def test_every_field_of_a_new_job_arrives_in_the_hands_of_a_worker(store: SyncStore) -> None:
    store.submit_jobs([FULL])

    (job,) = store.claim_jobs("w", ["mail"], tags=["ü"])

    assert (job.job_id, job.queue, job.task, job.payload) == ("full", "mail", "mail.send", {"to": "you"})
    assert (job.priority, job.tags, job.resource_keys) == (-7, tuple(FULL.tags), ("printer", "fax"))
    assert (job.attempts, job.max_attempts, job.singleton_key) == (0, 3, "one")
    assert (job.timeout_s, job.retry, job.number) == (2.5, {"base": 15}, 1)
    assert (job.created_at, job.available_at) == (FULL.created_at, FULL.created_at)


def test_a_job_submitted_alone_says_what_it_waits_for(store: SyncStore) -> None:
    store.submit_jobs([NewJob(job_id="done"), NewJob(job_id="open")])
    store.complete_unheld_job("done", "me")

    submitted = store.submit_job(NewJob(job_id="child", queue="q", wait_for=["done", "open"]), "me")

    assert (submitted.job_id, submitted.queue, submitted.wait_for) == ("child", "q", ("open",))
    assert store.normalize_wait_for(["done", None, "open", "open"]) == ["open"]


def test_ids_come_in_the_order_of_the_jobs(store: SyncStore) -> None:
    assert store.submit_jobs([NewJob(), NewJob(job_id="mine"), NewJob()]) == ["j1", "mine", "j3"]
    assert store.submit_jobs([]) == []
    assert store.submit_jobs(NewJob() for _ in range(2)) == ["j4", "j5"]


def test_jobs_are_submitted_all_or_none(store: SyncStore) -> None:
    store.submit_jobs([NewJob(job_id="taken")])

    with pytest.raises(JobExists, match='job "taken" already exists'):
        store.submit_jobs([NewJob(job_id="free"), NewJob(job_id="taken")])

    assert store.get_job("free") is None
    with pytest.raises(InvalidArgument, match="needs job_id"):
        store.submit_job(NewJob(), "me")


def test_a_call_too_large_for_one_statement_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "LARGEST_STATEMENT", 1000)

    with pytest.raises(InvalidArgument, match=r"submit_jobs: .* too many for one statement"):
        submitting.submit_jobs([NewJob(payload="x" * 100) for _ in range(10)])
    with pytest.raises(InvalidArgument, match=r"settle_jobs: .* too many for one statement"):
        settling.settle_jobs([(f"j{number}", None, Completed("x" * 100)) for number in range(10)])


def test_a_delay_counts_from_the_databases_clock(store: SyncStore, clock: Clock) -> None:
    now = clock.freeze(datetime(2031, 5, 4, tzinfo=UTC))
    store.submit_jobs([NewJob(delay_s=60), NewJob(available_at=now + timedelta(hours=1))])

    assert store.claim_jobs("w", ["default"], 5) == []
    assert store.next_due(["default"]) == now + timedelta(seconds=60)
    clock.advance(60)
    assert [job.job_id for job in store.claim_jobs("w", ["default"], 5)] == ["j1"]


def test_a_claim_may_begin_at_a_floor(store: SyncStore) -> None:
    store.submit_jobs([NewJob() for _ in range(5)])
    first, second = store.claim_jobs("w", ["default"], 2, sweep=False, stream_id=7)
    store.release_job(first.job_id)

    later = store.claim_jobs(
        "w", ["default"], 1, floor=Floor(second.priority, second.available_at, second.number)
    )

    assert [job.job_id for job in later] == ["j3"]


def test_get_work_leases_for_whole_seconds(store: SyncStore, clock: Clock) -> None:
    now = clock.freeze()
    store.submit_job(NewJob(job_id="a", queue="cook", payload={"dish": 1}, singleton_key="pan"), "me")

    (job,) = store.get_work("w", ["cook", "bake"], 1.2, 3)

    assert (job.job_id, job.queue, job.singleton_key, job.wait_for, job.payload) == (
        "a",
        "cook",
        "pan",
        (),
        {"dish": 1},
    )
    assert job.lease_expires_at == now + timedelta(seconds=2)
    assert store.get_work("w", ["cook"]) == []


OUTCOMES: list[tuple[Outcome, JobState]] = [
    (Completed({"n": 1}), JobState.COMPLETED),
    (Failed("no", "line 1", delay_s=5), JobState.FAILED_RETRY),
    (Failed("never", permanent=True), JobState.DEAD),
    (Requeued(1.5, "again"), JobState.FAILED_RETRY),
    (Rescheduled(2, "snooze"), JobState.RESCHEDULED),
    (Released(), JobState.UNKNOWN_RETRY),
    (Stopped("enough"), JobState.STOPPED),
    (UnknownStopped("lost"), JobState.UNKNOWN_STOPPED),
    (Undelivered("the stream ended"), JobState.FAILED_RETRY),
    (Undelivered("the stream ended", to_worker_stream=True), JobState.RESCHEDULED),
]
CANCELLED_OUTCOMES: list[tuple[Outcome, JobState]] = [
    (StoppedWithRetry("no", "line 1"), JobState.STOPPED),
    (Acknowledged(was_executing=True), JobState.STOPPED),
    (Acknowledged(was_executing=False), JobState.UNKNOWN_STOPPED),
]


def test_every_outcome_is_settled_in_one_batch(store: SyncStore) -> None:
    outcomes = OUTCOMES + CANCELLED_OUTCOMES
    store.submit_jobs([NewJob() for _ in outcomes])
    jobs = store.claim_jobs("w", ["default"], len(outcomes))
    store.cancel_jobs(job_ids=[job.job_id for job in jobs[len(OUTCOMES) :]])

    verdicts = store.settle_jobs(
        [(job.job_id, job.lease_id, outcome) for job, (outcome, _) in zip(jobs, outcomes, strict=True)],
        worker_id="w",
    )

    assert verdicts == [
        Verdict(job.job_id, True, state, "settled") for job, (_, state) in zip(jobs, outcomes, strict=True)
    ]
    failed = store.get_job(jobs[1].job_id)
    assert failed is not None
    assert failed.last_error == "no\nline 1"
    assert [(error.attempt, error.worker_id, error.traceback) for error in failed.errors] == [
        (1, "w", "line 1")
    ]


def test_a_hand_back_may_name_a_moment_instead_of_a_delay(store: SyncStore) -> None:
    store.submit_jobs([NewJob(), NewJob(), NewJob()])
    jobs = store.claim_jobs("w", ["default"], 3)
    due = datetime(2999, 1, 1, tzinfo=UTC)

    store.settle_jobs(
        [
            (jobs[0].job_id, jobs[0].lease_id, Requeued(available_at=due)),
            (jobs[1].job_id, jobs[1].lease_id, Rescheduled(available_at=due)),
            (jobs[2].job_id, jobs[2].lease_id, Rescheduled()),
        ]
    )

    found = [store.get_job(job.job_id) for job in jobs]
    assert [job and job.available_at == due for job in found] == [True, True, False]
    assert [job and job.state for job in found] == [
        JobState.FAILED_RETRY,
        JobState.RESCHEDULED,
        JobState.RESCHEDULED,
    ]


def test_a_requeue_without_a_message_keeps_the_last_error(store: SyncStore) -> None:
    store.submit_jobs([NewJob()])
    for outcome in (Failed("first", "line 1"), Requeued(message="")):
        (job,) = store.claim_jobs("w", ["default"])
        store.settle_jobs([(job.job_id, job.lease_id, outcome)])

    found = store.get_job("j1")

    assert found is not None
    assert (found.attempts, found.error_message, found.last_error) == (2, "first", "first\nline 1")


def test_each_refusal_has_its_reason(store: SyncStore) -> None:
    store.submit_jobs([NewJob(), NewJob(), NewJob()])
    held, other, _ = store.claim_jobs("w", ["default"], 3)
    store.settle_jobs([(other.job_id, other.lease_id, Completed())])

    verdicts = store.settle_jobs(
        [
            (held.job_id, other.lease_id, Completed()),
            (other.job_id, other.lease_id, Completed()),
            ("nobody", None, Completed()),
            (held.job_id, None, Acknowledged(was_executing=True)),
        ]
    )

    assert [verdict.reason for verdict in verdicts][:3] == ["lease_lost", "already", "not_found"]
    assert [verdict.ok for verdict in verdicts] == [False, True, False, False]
    assert store.settle_jobs([]) == []


def test_a_heartbeat_settles_claims_and_says_when_to_look_again(store: SyncStore, clock: Clock) -> None:
    now = clock.freeze()
    store.submit_jobs([NewJob(), NewJob(), NewJob(delay_s=5)])
    first = store.settle_and_claim([], claim_terms("w", ["default"], lease_s=100), 1)
    job = first.claimed[0]

    beat = store.settle_and_claim(
        [(job.job_id, job.lease_id, Completed()), ("j2", job.lease_id, Completed())],
        claim_terms("w", ["default"]),
        5,
    )

    assert (first.refused, [job.job_id for job in first.claimed], first.next_due) == ([], ["j1"], None)
    assert beat.refused == [Verdict("j2", False, JobState.INITIAL_PENDING, "lease_lost")]
    assert ([job.job_id for job in beat.claimed], beat.next_due) == (["j2"], None)
    idle = store.settle_and_claim([], claim_terms("w", ["default"]), 4)
    assert (idle.claimed, idle.next_due, idle.next_due_in_s) == ([], now + timedelta(seconds=5), 5)


def test_leases_are_extended_one_answer_each(store: SyncStore, clock: Clock) -> None:
    now = clock.freeze()
    store.submit_jobs([NewJob(queue=queue) for queue in ["a", "a", "a", "a", "short"]])
    kept, cancelled, ended, taken = store.claim_jobs("w", ["a"], 4)
    (lapsed,) = store.claim_jobs("w", ["short"], lease_s=1)
    store.cancel_job(cancelled.job_id, "me")
    store.settle_jobs([(ended.job_id, ended.lease_id, Completed())])
    store.release_job(taken.job_id)
    store.claim_jobs("other", ["a"], sweep=False)
    clock.advance(2)

    jobs = [kept, cancelled, ended, taken, lapsed]
    answers = store.extend_leases([(job.job_id, job.lease_id) for job in jobs], timedelta(minutes=10))

    assert [answer.hold for answer in answers] == [
        Hold.EXTENDED,
        Hold.CANCELLING,
        Hold.ENDED,
        Hold.TAKEN,
        Hold.LAPSED,
    ]
    assert answers[0].lease_expires_at == now + timedelta(seconds=602)
    assert (answers[2].state, answers[2].lease_expires_at, answers[2].slot_forfeited) == (
        JobState.COMPLETED,
        None,
        False,
    )
    assert store.lapse_leases() == [(lapsed.job_id, JobState.UNKNOWN_RETRY)]


def test_a_lease_is_kept_used_and_lost(store: SyncStore, clock: Clock) -> None:
    now = clock.freeze()
    store.submit_jobs([NewJob(), NewJob()])
    (job,) = store.claim_jobs("w", ["default"])

    assert store.extend_lease(job.job_id, job.lease_id, "w", 90) == now + timedelta(seconds=90)
    assert store.report_progress(job.job_id, job.lease_id, 3, 4, "nearly")
    read = store.get_job(job.job_id)
    assert read is not None
    assert read.progress == Progress(3.0, 4.0, "nearly", now)
    moved = store.reschedule_job(
        job.job_id, job.lease_id, "w", "later", wait_for=["j2"], payload={"step": 2}, reason="step"
    )
    assert (moved.job_id, moved.queue, moved.wait_for) == (job.job_id, "later", ("j2",))
    assert not store.report_progress(job.job_id, job.lease_id, 4)
    with pytest.raises(LeaseLost, match=job.job_id):
        store.complete_job(job.job_id, job.lease_id, "w")


def test_a_job_nobody_holds_is_moved_and_completed(store: SyncStore) -> None:
    store.submit_jobs([NewJob()])
    moved = store.reschedule_unheld_job("j1", "me", "other", payload=[1])

    assert moved.queue == "other"
    assert store.complete_unheld_job("j1", "me") is True
    with pytest.raises(WrongState, match="COMPLETED"):
        store.complete_unheld_job("j1", "me")
    with pytest.raises(JobNotFound, match="nobody"):
        store.complete_unheld_job("nobody", "me")


def test_a_held_job_is_completed(store: SyncStore) -> None:
    store.submit_jobs([NewJob()])
    (job,) = store.claim_jobs("w", ["default"])

    assert store.complete_job(job.job_id, job.lease_id, "w", trace_context={"request": 7}) is True


@pytest.mark.anyio
async def test_coroutines_do_the_same(async_store: Store) -> None:
    ids = await async_store.submit_jobs([NewJob(payload=number) for number in range(3)])
    jobs = await async_store.claim_jobs("w", ["default"], 3)
    beat = await async_store.settle_and_claim(
        [(job.job_id, job.lease_id, Completed(job.payload)) for job in jobs],
        claim_terms("w", ["default"]),
        3,
    )
    read = await async_store.get_job(ids[2])

    assert [job.job_id for job in jobs] == ids
    assert (beat.refused, beat.claimed) == ([], [])
    assert read is not None
    assert (read.state, read.status, read.result) == (JobState.COMPLETED, None, 2)
    assert await async_store.get_work("w", ["default"]) == []
    with pytest.raises(JobNotFound):
        await async_store.cancel_job("nobody", "me")


def test_jobs_are_cancelled_by_tag_and_id(store: SyncStore) -> None:
    store.submit_jobs([NewJob(tags=["x", "y"]), NewJob(tags=["x"]), NewJob(), NewJob(job_id="done")])
    store.complete_unheld_job("done", "me")

    answer = store.cancel_jobs(tags=["x", "y"], job_ids=["j3", "done", "nobody"], reason="enough")

    assert (sorted(answer.cancelled), sorted(answer.unknown)) == (["j1", "j3"], ["done", "nobody"])
    assert store.cancel_job("j2", "me", "enough") is JobState.UNSCHEDULED
    assert isinstance(answer, CancelledJobs)


def test_dead_jobs_are_listed_revived_and_deleted(store: SyncStore) -> None:
    store.submit_jobs([NewJob(queue="a"), NewJob(queue="b")])
    for job in store.claim_jobs("w", ["a", "b"], 2):
        assert store.fail_job(job.job_id, "no", permanent=True, lease_id=job.lease_id) is JobState.DEAD

    assert [job.job_id for job in store.list_dead_jobs()] == ["j2", "j1"]
    assert [job.job_id for job in store.list_dead_jobs("a", 1)] == ["j1"]
    assert store.revive_job("j1", worker_id="me", reason="mended") is JobState.RESCHEDULED
    assert store.delete_jobs(job_ids=["j2"]) == 1
    with pytest.raises(WrongState, match="not finished"):
        store.delete_jobs(job_ids=["j1"])


def test_the_single_verbs_change_one_job_each(store: SyncStore) -> None:
    store.submit_jobs([NewJob() for _ in range(7)])
    jobs = store.claim_jobs("w", ["default"], 7)
    ids = [job.job_id for job in jobs]
    later = datetime(2999, 1, 1, tzinfo=UTC)
    store.cancel_jobs(job_ids=ids[5:])

    assert store.requeue_job(ids[0], later, "busy", worker_id="w") is JobState.FAILED_RETRY
    assert store.retry_later(ids[1], later) is True
    assert store.retry_later(ids[1], delay_s=5) is False
    assert store.release_job(ids[2], lease_id=jobs[2].lease_id) is True
    assert store.stop_job(ids[3], "enough") is JobState.STOPPED
    assert store.mark_job_unknown_stopped(ids[4]) is JobState.UNKNOWN_STOPPED
    assert store.stop_job_with_retry(ids[5], "no", traceback="line 1") is JobState.STOPPED
    assert store.acknowledge_cancellation(ids[6], False) is JobState.UNKNOWN_STOPPED
    with pytest.raises(LeaseLost):
        store.fail_job(ids[2], "no", lease_id=jobs[3].lease_id)
    assert store.release_job("nobody") is False


def test_workers_that_are_gone_lose_their_jobs(store: SyncStore, clock: Clock) -> None:
    store.submit_jobs([NewJob() for _ in range(3)])
    store.claim_jobs("gone", ["default"], 2)
    store.claim_jobs("here", ["default"])
    clock.advance(20)

    assert {job.job_id for job in store.list_stuck_jobs(10)} == {"j1", "j2", "j3"}
    assert store.list_stuck_jobs(timedelta(minutes=1)) == []
    assert store.mark_worker_unresponsive("gone") == 2
    assert store.reset_running_jobs() == 1


def test_jobs_are_counted_and_cleaned_up(store: SyncStore, clock: Clock) -> None:
    now = clock.freeze()
    store.submit_jobs([NewJob(tags=["x"]), NewJob(expires_at=now + timedelta(seconds=1))])
    store.complete_unheld_job("j1", "me")
    clock.advance(3600)

    assert store.get_job_stats() == JobStats(2, 1, 0, 1, 0, 0, 0)
    assert store.get_job_stats(["x"]).total_jobs == 1
    assert store.cancel_expired_jobs(timedelta(minutes=1)) == 1
    assert store.cleanup_expired_jobs(60, 10) == 1
    assert store.get_job("j1") is None


def test_a_job_set_aside_is_let_back_in(store: SyncStore, clock: Clock) -> None:
    assert store.set_crash_concern_threshold(1) == store.crash_concern_threshold() == 1
    store.submit_jobs([NewJob()])
    store.claim_jobs("w", ["default"], lease_s=1)
    clock.advance(2)
    store.lapse_leases()

    assert store.clear_crash_concern("j1", "me", "looked at") is True
    assert store.clear_crash_concern("j1", "me") is False


def test_resources_are_held_by_one_job_at_a_time(store: SyncStore) -> None:
    store.submit_jobs([NewJob(), NewJob()])
    first, second = store.claim_jobs("w", ["default"], 2)

    assert store.acquire_resources(first.job_id, ["a", "b"], lease_id=first.lease_id) == []
    assert store.acquire_resources(second.job_id, ["b", "c"]) == ["b"]
    assert store.release_resources(first.job_id, ["b"]) == 1
    assert store.acquire_resources(second.job_id, ["b", "c"], worker_id="w") == []
    assert store.release_resources(first.job_id) == 1
    assert (store.resource_capacity("a"), store.set_resource_capacity("a", 3)) == (1, 3)
    assert store.resource_capacity("a") == 3


def test_queues_are_paused_and_resumed(store: SyncStore) -> None:
    store.submit_jobs([NewJob()])

    assert (store.pause_queue("default"), store.pause_queue("default")) == (True, False)
    assert store.claim_jobs("w", ["default"]) == []
    assert (store.resume_queue("default"), store.resume_queue("default")) == (True, False)


def test_queues_are_limited(store: SyncStore) -> None:
    store.submit_jobs([NewJob(), NewJob()])

    assert store.set_queue_limit("default", 1) == 1
    assert len(store.claim_jobs("w", ["default"], 2)) == 1
    assert [queue.max_running for queue in store.get_queue_stats()] == [1]
    assert store.set_queue_limit("default", None) is None
    assert len(store.claim_jobs("w", ["default"], 2)) == 1


@pytest.mark.anyio
async def test_a_type_checker_knows_what_every_method_answers(store: SyncStore, async_store: Store) -> None:
    assert_type(store.get_job("nobody"), Job | None)
    assert_type(await async_store.get_job("nobody"), Job | None)
    assert_type(store.claim_jobs("w", ["default"], lease_s=timedelta(minutes=1)), list[ClaimedJob])
    assert_type(await async_store.settle_jobs([]), list[Verdict])
    assert_type(store.next_due(["default"]), datetime | None)


def test_switches_are_set_and_read(store: SyncStore) -> None:
    assert (store.set_notify(False), store.is_notify_enabled()) == (False, False)
    assert (store.set_trace(True), store.trace_level(), store.is_trace_enabled()) == (True, "all", True)
    assert (store.set_trace_level("off"), store.is_trace_enabled()) == ("off", False)
