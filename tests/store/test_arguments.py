"""A value that nothing can have is refused by the name of its parameter, before anything is sent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.domain.job import NewJob
from holdfast.domain.outcome import Completed, Failed, Requeued, Rescheduled
from holdfast.errors import InvalidArgument
from holdfast.store import SyncStore
from holdfast.store.calls.claiming import Floor, claim_terms

NOWHERE = SyncStore("postgresql://127.0.0.1:1/nowhere")
NAIVE = datetime(2026, 1, 1)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
BAD_TEXTS = ["", "a\0b", "\ud800", 7, None, b"bytes"]
BAD_SECONDS = [-1, -0.001, math.nan, math.inf, True, "5", 2e9, timedelta(seconds=-1), 10**400]

TEXTS: dict[str, Callable[[Any], object]] = {
    "worker_id": lambda bad: NOWHERE.claim_jobs(bad, ["default"]),
    "queues": lambda bad: NOWHERE.claim_jobs("w", [bad]),
    "worker_caps": lambda bad: NOWHERE.get_work("w", [bad]),
    "tags": lambda bad: NOWHERE.claim_jobs("w", ["default"], tags=[bad]),
    "job_id": lambda bad: NOWHERE.get_job(bad),
    "lease_id": lambda bad: NOWHERE.extend_lease("j1", bad, "w"),
    "next_need": lambda bad: NOWHERE.reschedule_job("j1", "l", "w", bad),
    "wait_for": lambda bad: NOWHERE.reschedule_job("j1", "l", "w", "default", wait_for=[bad]),
    "keys": lambda bad: NOWHERE.acquire_resources("j1", [bad]),
    "key": lambda bad: NOWHERE.resource_capacity(bad),
    "job_ids": lambda bad: NOWHERE.cancel_jobs(job_ids=[bad]),
    "queue": lambda bad: NOWHERE.pause_queue(bad),
}

NEW_JOB_TEXTS = ["job_id", "task", "singleton_key"]
NEW_JOB_LISTS = ["tags", "resource_keys", "wait_for"]

SECONDS: dict[str, Callable[[Any], object]] = {
    "lease_s": lambda bad: NOWHERE.claim_jobs("w", ["default"], lease_s=bad),
    "additional_s": lambda bad: NOWHERE.extend_lease("j1", "l", "w", bad),
    "delay_s": lambda bad: NOWHERE.fail_job("j1", "no", delay_s=bad),
    'delay_s of job "j1"': lambda bad: NOWHERE.settle_jobs([("j1", "l", Failed("no", delay_s=bad))]),
    "stale_s": lambda bad: NOWHERE.list_stuck_jobs(bad),
    "ttl_s": lambda bad: NOWHERE.cleanup_expired_jobs(bad),
    "older_than_s": lambda bad: NOWHERE.cancel_expired_jobs(bad),
    "timeout_s": lambda bad: NOWHERE.get_job("j1", timeout_s=bad),
}

WHOLE: dict[str, Callable[[Any], object]] = {
    "limit": lambda bad: NOWHERE.claim_jobs("w", ["default"], bad),
    "limit_jobs": lambda bad: NOWHERE.get_work("w", ["default"], 60, bad),
    "capacity": lambda bad: NOWHERE.set_resource_capacity("k", bad),
    "threshold": lambda bad: NOWHERE.set_crash_concern_threshold(bad),
}

FLAGS: dict[str, Callable[[Any], object]] = {
    "enabled": NOWHERE.set_trace,
    "permanent": lambda bad: NOWHERE.fail_job("j1", "no", permanent=bad),
    "sweep": lambda bad: NOWHERE.claim_jobs("w", ["default"], sweep=bad),
    "was_executing": lambda bad: NOWHERE.acknowledge_cancellation("j1", bad),
}

MOMENTS: dict[str, Callable[[Any], object]] = {
    "available_at": lambda bad: NOWHERE.requeue_job("j1", bad),
    "floor": lambda bad: NOWHERE.claim_jobs("w", ["default"], floor=Floor(0, bad, 1)),
    r"jobs\[0\].available_at": lambda bad: NOWHERE.submit_jobs([NewJob(available_at=bad)]),
    r"jobs\[0\].expires_at": lambda bad: NOWHERE.submit_jobs([NewJob(expires_at=bad)]),
}


def refused(name: str, call: Callable[[Any], object], bad: object) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name}"):
        call(bad)


@pytest.mark.parametrize("bad", BAD_TEXTS, ids=repr)
@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_is_none_or_cannot_be_stored_is_refused(name: str, bad: object) -> None:
    refused(name, TEXTS[name], bad)


@pytest.mark.parametrize("bad", [bad for bad in BAD_TEXTS if bad is not None], ids=repr)
@pytest.mark.parametrize("name", NEW_JOB_TEXTS)
def test_a_text_of_a_new_job_is_refused_by_the_place_of_the_job(name: str, bad: object) -> None:
    wanted: dict[str, Any] = {name: bad}

    refused(rf"jobs\[1\]\.{name}", lambda job: NOWHERE.submit_jobs([NewJob(), job]), NewJob(**wanted))


@pytest.mark.parametrize("bad", BAD_TEXTS, ids=repr)
@pytest.mark.parametrize("name", NEW_JOB_LISTS)
def test_a_list_of_a_new_job_is_refused_by_the_place_of_the_job(name: str, bad: object) -> None:
    wanted: dict[str, Any] = {name: ["fine", bad]}

    refused(rf"jobs\[0\]\.{name}\[1\]", lambda job: NOWHERE.submit_jobs([job]), NewJob(**wanted))


@pytest.mark.parametrize("bad", BAD_SECONDS, ids=repr)
@pytest.mark.parametrize("name", SECONDS)
def test_a_duration_that_never_was_is_refused(name: str, bad: object) -> None:
    refused(name, SECONDS[name], bad)


@pytest.mark.parametrize("bad", [0, -1, True, 1.0, "1", 2**31], ids=repr)
@pytest.mark.parametrize("name", WHOLE)
def test_a_count_that_counts_nothing_is_refused(name: str, bad: object) -> None:
    refused(name, WHOLE[name], bad)


@pytest.mark.parametrize("bad", [0, 1, None, "true"], ids=repr)
@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_that_is_neither_true_nor_false_is_refused(name: str, bad: object) -> None:
    refused(name, FLAGS[name], bad)


@pytest.mark.parametrize("bad", [NAIVE, "2026-01-01", 5], ids=repr)
@pytest.mark.parametrize("name", MOMENTS)
def test_a_moment_without_a_time_zone_is_refused(name: str, bad: object) -> None:
    refused(name, MOMENTS[name], bad)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"priority": 2**31}, "priority"),
        ({"priority": True}, "priority"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"delay_s": -1}, "delay_s"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"if_parent_fails": "explode"}, "if_parent_fails"),
        ({"retry": [1]}, "retry"),
    ],
)
def test_a_new_job_that_cannot_be_is_refused_alone_and_among_others(
    options: dict[str, Any], name: str
) -> None:
    refused(rf"jobs\[0\]\.{name}", lambda job: NOWHERE.submit_jobs([job]), NewJob(**options))
    refused(name, lambda job: NOWHERE.submit_job(job, "me"), NewJob(job_id="a", **options))


def test_a_queue_name_that_fits_no_channel_is_refused() -> None:
    refused("queue", lambda queue: NOWHERE.submit_jobs([NewJob(queue=queue)]), "ü" * 21)
    refused("queues", lambda queue: NOWHERE.claim_jobs("w", [queue]), "q" * 41)


def test_no_queue_is_not_every_queue() -> None:
    refused("queues must name at least one", lambda queues: NOWHERE.claim_jobs("w", queues), [])


def test_one_text_is_not_taken_for_a_list_of_letters() -> None:
    refused("queues must be a list", lambda queues: NOWHERE.claim_jobs("w", queues), "default")
    refused("tags must be a list", lambda tags: NOWHERE.get_job_stats(tags), "urgent")


def test_neither_tags_nor_ids_is_not_every_job() -> None:
    refused("cancel_jobs needs", lambda tags: NOWHERE.cancel_jobs(tags=tags), [])
    refused("delete_jobs needs", lambda tags: NOWHERE.delete_jobs(tags=tags), [])


def test_an_empty_job_id_is_not_settled() -> None:
    refused("job_id is empty", lambda job_id: NOWHERE.settle_jobs([(job_id, None, Completed())]), "")


def test_a_settle_does_not_quietly_drop_a_change_it_cannot_make() -> None:
    refused(
        'a settle of "j1" cannot change',
        lambda outcome: NOWHERE.settle_jobs([("j1", "l", outcome)]),
        Rescheduled(queue="other"),
    )


@pytest.mark.parametrize("outcome", [Requeued(available_at=NOON), Rescheduled(available_at=NOON)], ids=repr)
def test_a_moment_in_a_settle_stands_alone_and_goes_with_no_claim(outcome: Requeued | Rescheduled) -> None:
    refused(
        'a settle of "j1" has a moment and a delay',
        lambda both: NOWHERE.settle_jobs([("j1", "l", both)]),
        replace(outcome, delay_s=1.0),
    )
    refused(
        'available_at of job "j1" has no time zone',
        lambda naive: NOWHERE.settle_jobs([("j1", "l", naive)]),
        replace(outcome, available_at=NOON.replace(tzinfo=None)),
    )
    refused(
        "settle_and_claim takes delays, not moments",
        lambda moment: NOWHERE.settle_and_claim([("j1", "l", moment)], claim_terms("w", ["default"]), 1),
        outcome,
    )


def test_a_trace_level_nobody_knows_is_refused() -> None:
    refused("level must be", NOWHERE.set_trace_level, "loud")


@pytest.mark.parametrize(
    "options",
    [
        {"schema": "No Such"},
        {"schema": 'x";drop'},
        {"min_size": -1},
        {"max_size": 0},
        {"min_size": 5, "max_size": 4},
        {"timeout_s": 0},
        {"timeout_s": math.nan},
        {"prepare": 1},
    ],
    ids=repr,
)
def test_a_store_that_cannot_work_is_not_made(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        SyncStore("postgresql://127.0.0.1:1/nowhere", **options)


@pytest.mark.parametrize("dsn", ["postgresql://me:se@same@host/db", "password=sesame nonsense", "sesame"])
def test_an_address_that_cannot_be_read_is_not_shown(dsn: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        SyncStore(dsn)

    assert "same" not in str(raised.value)


def test_durations_are_seconds_or_timedeltas(store: SyncStore) -> None:
    store.submit_jobs([NewJob(), NewJob(delay_s=0)])
    first = store.claim_jobs("w", ["default"], lease_s=timedelta(minutes=5))[0]
    second = store.claim_jobs("w", ["default"], lease_s=300.0)[0]

    left = [job.lease_expires_at - datetime.now(UTC) for job in (first, second)]

    assert all(timedelta(minutes=4) < each < timedelta(minutes=6) for each in left)
    assert (
        store.extend_lease(first.job_id, first.lease_id, "w", timedelta(hours=1.5)) > first.lease_expires_at
    )
