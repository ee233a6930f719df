"""Handles: what became of a job, and how long to wait for it."""

from __future__ import annotations

import asyncio
import pickle
import threading
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from holdfast import Holdfast, JobCancelled, JobFailed, JobHandle
from holdfast.domain.outcome import Acknowledged, Completed, Failed
from holdfast.domain.states import JobState
from holdfast.errors import HoldfastError, InvalidArgument, JobNotFound, UndecodableResult, WrongState
from holdfast.store import SyncStore
from tests.client.shop import Shop, claim, kill, settle, work

pickled_app = Holdfast()


@pickled_app.task
def pickled_task(n: int) -> datetime:
    return datetime.fromtimestamp(n, UTC)


def test_a_result_comes_back_as_the_task_says(shop: Shop, store: SyncStore) -> None:
    handle = shop.fetch.enqueue("x")
    work(store, shop.fetch)
    assert handle.result(timeout=10) == b"x"


def test_a_result_that_is_not_there_yet_is_waited_for(shop: Shop, store: SyncStore) -> None:
    handle = shop.mail.enqueue("a@b")
    worker = threading.Timer(0.2, work, (store, shop.mail))
    worker.start()
    assert handle.result(timeout=30) == 3
    worker.join()


@pytest.mark.anyio
async def test_a_result_is_decoded_for_coroutines_too(shop: Shop, store: SyncStore) -> None:
    moment = datetime(2026, 1, 1, 12, tzinfo=UTC)
    handle = await shop.remind.aenqueue(moment)
    waiting = asyncio.create_task(handle.aresult(timeout=30))
    job = await asyncio.to_thread(claim, store)
    await asyncio.to_thread(settle, store, job, Completed("2026-01-01T12:00:00Z"))
    assert await waiting == moment
    assert await handle == moment
    await shop.hf.aclose()


def test_a_dead_job_raises_with_message_traceback_and_attempts(shop: Shop, store: SyncStore) -> None:
    handle = shop.mail.enqueue("a")
    settle(store, claim(store), Failed("OSError: first"))
    kill(store, claim(store))
    with pytest.raises(JobFailed, match=r"shop\.mail.*2 attempts: ValueError: no") as caught:
        handle.result(timeout=10)
    error = caught.value
    assert (error.message, error.traceback, error.attempts) == ("ValueError: no", "Traceback: here", 2)
    assert (error.job_id, error.task) == (handle.job_id, "shop.mail")
    assert "Traceback: here" in error.__notes__[0]
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(copy), copy.attempts) == (str(error), 2)


def test_a_cancelled_job_raises(shop: Shop) -> None:
    handle = shop.mail.enqueue("a")
    assert handle.cancel(reason="changed my mind")
    with pytest.raises(JobCancelled, match=r"shop\.mail.*UNSCHEDULED"):
        handle.result(timeout=10)
    assert not handle.cancel(), "it has ended already"
    assert handle.state() is JobState.UNSCHEDULED


def test_a_deleted_job_raises(shop: Shop, store: SyncStore) -> None:
    handle = shop.fetch.enqueue("x")
    work(store, shop.fetch)
    assert shop.hf.jobs.delete(handle.job_id) == 1
    for ask in (handle.result, handle.state, handle.cancel, handle.revive, handle.info):
        with pytest.raises(JobNotFound, match=handle.job_id):
            ask()


def test_waiting_without_a_worker_says_so_and_how_to_start_one(shop: Shop) -> None:
    handle = shop.mail.enqueue("a")
    with pytest.raises(
        TimeoutError, match=r'shop\.mail.*INITIAL_PENDING.*No worker.*"mail".*--queue mail=10'
    ):
        handle.result(timeout=0.05)


def test_waiting_for_a_job_that_is_held_back_says_why(shop: Shop) -> None:
    with pytest.raises(TimeoutError, match="AWAITING_FUTURE"):
        shop.mail.using(delay=60).enqueue("a").result(timeout=0)


def test_waiting_behind_others_says_who_serves_the_queue(shop: Shop, store: SyncStore) -> None:
    shop.mail.enqueue("first")
    claim(store, "mail")
    with pytest.raises(TimeoutError, match=r'"mail" is served: by-hand holds'):
        shop.mail.enqueue("second").result(timeout=0.05)


def test_waiting_while_a_worker_is_idle_says_that_it_serves_the_queue(shop: Shop, store: SyncStore) -> None:
    store.report_worker("idle", ["default", "mail"], 3)
    with pytest.raises(TimeoutError, match=r'"mail" is served: idle takes jobs from it and holds none\.$'):
        shop.mail.enqueue("a").result(timeout=0.05)


def test_who_holds_a_job_and_who_holds_none_both_serve_the_queue(shop: Shop, store: SyncStore) -> None:
    shop.mail.enqueue("first")
    claim(store, "mail")
    for worker in ("by-hand", "idle", "lazy"):
        store.report_worker(worker, ["mail"], 1)
    says = r"is served: by-hand holds jobs of it; idle, lazy take jobs from it and hold none\."
    with pytest.raises(TimeoutError, match=says):
        shop.mail.enqueue("second").result(timeout=0.05)


def test_a_worker_that_stopped_or_fell_silent_or_has_other_queues_does_not_serve_it(
    shop: Shop, store: SyncStore, conn: psycopg.Connection[Any]
) -> None:
    store.report_worker("stopped", ["mail"], 1, stopped=True)
    store.report_worker("silent", ["mail"], 1)
    conn.execute("update holdfast.workers set seen_at = seen_at - interval '1 minute'")
    store.report_worker("elsewhere", ["default"], 1)
    with pytest.raises(TimeoutError, match='No worker seems to serve queue "mail": none says so'):
        shop.mail.enqueue("a").result(timeout=0.05)


def test_whoever_may_not_see_the_workers_is_told_so_or_who_holds_jobs(
    shop: Shop, store: SyncStore, database: str, conn: psycopg.Connection[Any]
) -> None:
    for name in ("first", "second"):
        shop.mail.enqueue(name)
    conn.execute("revoke select on holdfast.workers from holdfast_viewer")
    with Holdfast(make_conninfo(database, options="-c role=holdfast_viewer")) as app:
        says = r'Whether a worker serves queue "mail" cannot be seen: .*permission denied.*--queue mail=10'
        with pytest.raises(TimeoutError, match=says):
            app.jobs.get("j2").result(timeout=0.05)

        claim(store, "mail")
        with pytest.raises(TimeoutError, match=r'"mail" is served: by-hand holds jobs of it\.$'):
            app.jobs.get("j2").result(timeout=0.05)


def test_waiting_for_a_job_that_runs_says_where(shop: Shop, store: SyncStore) -> None:
    handle = shop.mail.enqueue("a")
    claim(store, "mail")
    with pytest.raises(TimeoutError, match=r'RUNNING.*Worker by-hand runs it, from queue "mail"'):
        handle.result(timeout=0.05)


@pytest.mark.anyio
async def test_a_coroutine_waits_no_longer_than_it_says(shop: Shop) -> None:
    handle = await shop.mail.aenqueue("a")
    with pytest.raises(TimeoutError, match="No worker"):
        await handle.aresult(timeout=0.05)
    await shop.hf.aclose()


@pytest.mark.anyio
async def test_blocking_the_loop_for_a_result_is_refused_with_the_way_out(shop: Shop) -> None:
    handle = await shop.mail.aenqueue("a")
    with pytest.raises(HoldfastError, match="aresult"):
        handle.result()
    await shop.hf.aclose()


@pytest.mark.parametrize("timeout", [-1, "soon", float("nan")])
def test_a_wait_that_is_none_is_refused(shop: Shop, timeout: Any) -> None:
    with pytest.raises(InvalidArgument, match="timeout"):
        shop.mail.enqueue("a").result(timeout)


def test_a_result_of_another_kind_is_refused(shop: Shop, store: SyncStore) -> None:
    handle = shop.mail.enqueue("a")
    settle(store, claim(store), Completed("many"))
    with pytest.raises(UndecodableResult, match=r"shop\.mail"):
        handle.result(timeout=10)


def test_a_running_job_is_asked_to_stop(shop: Shop, store: SyncStore) -> None:
    handle = shop.mail.enqueue("a")
    job = claim(store)
    assert handle.cancel()
    assert handle.state() is JobState.CANCELLING
    assert not handle.cancel(wait=0.05), "it did not end in that time"
    settle(store, job, Acknowledged(was_executing=True))
    with pytest.raises(JobCancelled, match="STOPPED"):
        handle.result(timeout=10)


def test_cancelling_can_wait_for_the_end(shop: Shop) -> None:
    assert shop.mail.enqueue("a").cancel(wait=10)


def test_a_dead_job_is_revived_and_no_other(shop: Shop, store: SyncStore) -> None:
    handle = shop.mail.enqueue("a")
    with pytest.raises(WrongState, match="INITIAL_PENDING"):
        handle.revive()
    kill(store, claim(store))
    handle.revive()
    assert handle.state() is JobState.RESCHEDULED


def test_progress_is_what_the_handler_said(shop: Shop, store: SyncStore) -> None:
    handle = shop.mail.enqueue("a")
    assert handle.progress() is None
    job = claim(store)
    store.report_progress(job.job_id, job.lease_id, 1, 3, "started")
    progress = handle.progress()
    assert progress is not None
    assert (progress.done, progress.total, progress.message) == (1, 3, "started")


@pytest.mark.anyio
async def test_everything_can_be_awaited(shop: Shop, store: SyncStore) -> None:
    handle = await shop.mail.aenqueue("a")
    assert await handle.astate() is JobState.INITIAL_PENDING
    assert await handle.aprogress() is None
    await asyncio.to_thread(lambda: kill(store, claim(store)))
    await handle.arevive()
    assert await handle.acancel(wait=10)
    assert (await handle.ainfo()).state is JobState.STOPPED
    await shop.hf.aclose()


def test_handles_are_equal_if_their_ids_are(shop: Shop) -> None:
    a, b = shop.mail.enqueue("a"), shop.mail.enqueue("b")
    assert a == shop.hf.jobs.get(a.job_id)
    assert a != b
    assert a != a.job_id
    assert len({a, b, shop.hf.jobs.get(a.job_id)}) == 2
    assert repr(a) == f"<JobHandle {a.job_id}>"


def test_a_pickled_handle_finds_its_app_again(
    database: str, store: SyncStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", database)
    handle = pickled_task.enqueue(0)
    work(store, pickled_task)
    copy: JobHandle[datetime] = pickle.loads(pickle.dumps(handle))  # noqa: S301
    assert copy == handle
    assert copy.result(timeout=10) == datetime.fromtimestamp(0, UTC)
    pickled_app.close()


def test_a_pickled_handle_of_a_task_that_cannot_be_imported_says_what_to_do(shop: Shop) -> None:
    copy: JobHandle[int] = pickle.loads(pickle.dumps(shop.mail.enqueue("a")))  # noqa: S301
    with pytest.raises(HoldfastError, match=r"hf\.jobs\.get\("):
        copy.result(timeout=0)
