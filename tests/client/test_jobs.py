"""Looking after jobs: find, list, cancel, revive, delete; and the capacity of resources."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.domain.outcome import Completed
from holdfast.domain.states import JobState
from holdfast.errors import InvalidArgument, JobNotFound, WrongState
from holdfast.store import SyncStore
from tests.client.shop import Shop, claim, kill, settle, work


def test_a_job_is_found_with_all_there_is_to_know_and_is_a_handle(shop: Shop, store: SyncStore) -> None:
    handle = shop.remind.enqueue(datetime(2026, 1, 1, tzinfo=UTC))
    found = shop.hf.jobs.get(handle.job_id)
    assert (found.job.task, found.job.state, found) == ("shop.remind", JobState.INITIAL_PENDING, handle)
    settle(store, claim(store), Completed("2026-01-01T00:00:00Z"))
    assert found.result(timeout=10) == datetime(2026, 1, 1, tzinfo=UTC), "decoded by its task"
    assert repr(found) == f"<FoundJob {handle.job_id} INITIAL_PENDING>"
    with pytest.raises(JobNotFound, match="nobody"):
        shop.hf.jobs.get("nobody")


def test_the_result_of_a_task_nobody_knows_here_is_plain(shop: Shop, store: SyncStore, database: str) -> None:
    handle = shop.mail.enqueue("abc")
    work(store, shop.mail)
    with Holdfast(database) as stranger:
        assert stranger.jobs.get(handle.job_id).result(timeout=10) == 3


def test_jobs_are_listed_by_all_that_is_asked(shop: Shop, store: SyncStore) -> None:
    jobs = shop.hf.jobs
    done = shop.fetch.enqueue("x")
    work(store, shop.fetch)
    first = shop.mail.using(tags=["eu", "x"]).enqueue("a")
    second = shop.mail.using(queue="slow", tags=["eu"]).enqueue("b")
    assert jobs.list() == [second, first, done], "the latest first"
    assert jobs.list(limit=1) == [second]
    assert jobs.list(state="COMPLETED") == [done]
    assert jobs.list(state=JobState.INITIAL_PENDING, queue="mail") == [first]
    assert jobs.list(task=shop.mail, tags=["eu"]) == [second, first]
    assert jobs.list(task="shop.mail", tags=["x", "eu"]) == [first]
    assert jobs.list(queue="nowhere") == []


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"state": "dead"}, "INITIAL_PENDING.*DEAD"),
        ({"tags": "eu"}, "tags"),
        ({"limit": 0}, "limit"),
        ({"queue": ""}, "queue"),
    ],
)
def test_a_list_that_makes_no_sense_is_refused(shop: Shop, wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        shop.hf.jobs.list(**wanted)


def test_dead_letters_are_listed_with_their_errors_and_revived_all_or_none(
    shop: Shop, store: SyncStore
) -> None:
    handles = shop.hf.enqueue_many(shop.mail.job(name) for name in "abc")
    for handle in handles[:2]:
        kill(store, claim(store), f"ValueError: {handle.job_id}")
    dead = shop.hf.jobs.list(state="DEAD", queue="mail")
    assert dead == [handles[1], handles[0]], "the latest dead first"
    assert dead[0].job.error_message == f"ValueError: {handles[1].job_id}"
    assert shop.hf.jobs.list(state="DEAD", task=shop.mail) == dead
    assert shop.hf.jobs.list(state="DEAD", queue="other") == []

    with pytest.raises(WrongState, match=handles[2].job_id):
        shop.hf.jobs.revive(handles[0].job_id, handles[2].job_id)
    assert handles[0].state() is JobState.DEAD
    with pytest.raises(JobNotFound):
        shop.hf.jobs.revive("nobody")
    assert shop.hf.jobs.revive(*(handle.job_id for handle in handles[:2])) == 2
    assert [handle.state() for handle in handles[:2]] == [JobState.RESCHEDULED] * 2
    assert shop.hf.jobs.revive() == 0


def test_jobs_are_cancelled_by_id_and_by_tags(shop: Shop) -> None:
    a, b = shop.mail.enqueue("a"), shop.mail.using(tags=["eu"]).enqueue("b")
    assert shop.hf.jobs.cancel(a.job_id, "nobody") == ([a.job_id], ["nobody"])
    assert shop.hf.jobs.cancel(tags=["eu"], reason="no more europe").cancelled == [b.job_id]
    with pytest.raises(InvalidArgument, match="never means every job"):
        shop.hf.jobs.cancel()


def test_only_ended_jobs_are_deleted(shop: Shop, store: SyncStore) -> None:
    done, waiting = shop.fetch.enqueue("x"), shop.mail.enqueue("a")
    work(store, shop.fetch)
    with pytest.raises(WrongState, match=waiting.job_id):
        shop.hf.jobs.delete(done.job_id, waiting.job_id)
    assert shop.hf.jobs.delete(done.job_id, "nobody") == 1
    with pytest.raises(InvalidArgument, match="never means every job"):
        shop.hf.jobs.delete()


@pytest.mark.anyio
async def test_all_of_it_can_be_awaited(shop: Shop, store: SyncStore) -> None:
    handle = await shop.mail.aenqueue("a")
    jobs = shop.hf.jobs
    kill(store, claim(store))
    assert (await jobs.aget(handle.job_id)).job.state is JobState.DEAD
    assert await jobs.alist(state="DEAD") == [handle]
    assert await jobs.arevive(handle.job_id) == 1
    assert (await jobs.acancel(handle.job_id)).cancelled == [handle.job_id]
    assert await jobs.adelete(handle.job_id) == 1
    await shop.hf.resources["smtp"].aset_capacity(4)
    assert await shop.hf.resources["smtp"].acapacity() == 4
    await shop.hf.aclose()


def test_the_capacity_of_a_resource_is_set_and_read(hf: Holdfast) -> None:
    assert hf.resources["smtp"].capacity == 1
    hf.resources["smtp"].capacity = 2
    assert hf.resources["smtp"].capacity == 2
    with pytest.raises(InvalidArgument, match="capacity"):
        hf.resources["smtp"].capacity = 0
    with pytest.raises(InvalidArgument):
        hf.resources[""].capacity = 2
