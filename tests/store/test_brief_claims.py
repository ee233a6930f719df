"""What a worker's call says in few words about the jobs it claimed is all there is to say of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from holdfast.domain.job import NewJob
from holdfast.domain.outcome import Completed, Failed
from holdfast.store import SyncStore
from holdfast.store.calls.claiming import claim_terms
from tests.clock import Clock

STREAM = 4711
LONG_AGO = datetime(2020, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

SHAPES: dict[str, NewJob] = {
    "plain": NewJob(task="t", payload={"args": [1], "kwargs": {}}),
    "named": NewJob(job_id="mine", task="t", payload=[1]),
    "without a task": NewJob(payload=[1]),
    "without a payload": NewJob(task="t"),
    "with neither, but tags and a key": NewJob(tags=["a", "b"], singleton_key="k"),
    "of false content": NewJob(task="t", payload=False),
    "of bytes": NewJob(task="t", payload=b"\0\xff"),
    "of no bytes": NewJob(task="t", payload=b""),
    "of high priority": NewJob(task="t", payload=1, priority=7),
    "of low priority": NewJob(task="t", payload=1, priority=-7),
    "with tags": NewJob(task="t", payload=1, tags=["a"]),
    "with few attempts": NewJob(task="t", payload=1, max_attempts=2),
    "with a resource": NewJob(task="t", payload=1, resource_keys=["printer"]),
    "with resources": NewJob(task="t", payload=1, resource_keys=["printer", "paper"]),
    "with a singleton key": NewJob(task="t", payload=1, singleton_key="k"),
    "with a timeout": NewJob(task="t", payload=1, timeout_s=0.25),
    "with a policy": NewJob(task="t", payload=1, retry={"base": 1.5, "cap": None}),
    "due since long": NewJob(task="t", payload=1, available_at=LONG_AGO),
    "created long ago": NewJob(task="t", payload=1, created_at=LONG_AGO),
    "that will expire": NewJob(task="t", payload=1, expires_at=datetime(2999, 1, 1, tzinfo=UTC)),
    "that runs whatever its parents do": NewJob(task="t", payload=1, if_parent_fails="run"),
}


@pytest.mark.parametrize("queues", [["default"], ["default", "other"]], ids=["one queue", "two queues"])
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_missing_of_a_job(shape: str, queues: list[str], store: SyncStore) -> None:
    store.submit_jobs([SHAPES["plain"], SHAPES[shape] if shape != "plain" else NewJob(queue=queues[-1])])

    answer = store.settle_and_claim([], claim_terms("w", queues, stream_id=STREAM), 5)

    assert len(answer.claimed) == 2
    assert sorted(answer.claimed, key=_number) == sorted(store.jobs_of_stream(STREAM), key=_number)


def test_nothing_is_missing_of_a_job_that_failed_before(store: SyncStore, clock: Clock) -> None:
    clock.freeze()
    store.submit_jobs([SHAPES["plain"]])
    (first,) = store.claim_jobs("w", ["default"])
    clock.advance(10)
    store.settle_jobs([(first.job_id, first.lease_id, Failed("no paper", "Traceback"))])
    clock.advance(10)

    (again,) = store.settle_and_claim([], claim_terms("w", ["default"], stream_id=STREAM), 1).claimed

    assert [again] == store.jobs_of_stream(STREAM)
    assert (again.attempts, again.error_message, again.started_at) == (1, "no paper", first.started_at)
    assert again.lease_id != first.lease_id


def test_a_resource_that_came_with_the_claim_is_mentioned(store: SyncStore) -> None:
    store.set_resource_capacity("printer", 1)
    store.submit_jobs([SHAPES["with a resource"], SHAPES["with a resource"], SHAPES["plain"]])
    terms = claim_terms("w", ["default"])

    claimed = store.settle_and_claim([], terms, 3, take_resources=True).claimed

    assert [job.holds_resources for job in claimed] == [True, False, False]


def test_what_was_refused_comes_before_what_was_claimed(store: SyncStore) -> None:
    store.submit_jobs([SHAPES["plain"], SHAPES["named"], SHAPES["with tags"]])
    terms = claim_terms("w", ["default"])
    first = store.settle_and_claim([], terms, 1).claimed[0]

    answer = store.settle_and_claim(
        [(first.job_id, first.lease_id, Completed()), ("nobody", first.lease_id, Completed())], terms, 5
    )

    assert [(verdict.job_id, verdict.reason) for verdict in answer.refused] == [("nobody", "not_found")]
    assert [job.job_id for job in answer.claimed] == ["mine", "j3"]


def test_whoever_does_not_ask_for_it_is_told_in_full(conn: psycopg.Connection[Any]) -> None:
    conn.execute("select holdfast.submit_jobs(p_queues => '{q}', p_tasks => '{t}')")
    row = conn.execute(
        "select kind, job_id, queue, priority, attempts, created_at = available_at, "
        "lease_expires_at > now(), started_at is not null, state::text "
        "from holdfast.settle_and_claim('{}', '{}', '{}', 'w', '{q}', 5)"
    ).fetchall()
    assert row == [("claimed", "j1", "q", 0, 0, True, True, True, "RUNNING")]


def _number(job: Any) -> int:
    return int(job.number)
