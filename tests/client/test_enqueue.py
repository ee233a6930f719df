"""Enqueueing one job or many, blocking or not, and the mistakes of it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, JobHandle, Retry
from holdfast.domain.states import Status
from holdfast.errors import (
    DatabaseUnavailable,
    InvalidArgument,
    JobExists,
    PayloadError,
    SchemaMissing,
)
from holdfast.store import SyncStore
from tests.client.shop import Shop, claim
from tests.clock import Clock


def test_a_job_is_in_line_when_enqueue_returns(shop: Shop, store: SyncStore) -> None:
    handle = shop.mail.enqueue("a@b.c", subject="hi")
    job = claim(store, "mail")
    assert (job.job_id, job.task) == (handle.job_id, "shop.mail")
    assert job.payload == {"args": ["a@b.c"], "kwargs": {"subject": "hi"}}


@pytest.mark.anyio
async def test_a_job_of_a_coroutine_is_in_line_when_aenqueue_returns(shop: Shop, store: SyncStore) -> None:
    handle = await shop.remind.aenqueue(datetime(2026, 1, 1, tzinfo=UTC))
    assert isinstance(handle, JobHandle)
    assert claim(store).payload == {"args": ["2026-01-01T00:00:00Z"], "kwargs": {}}
    await shop.hf.aclose()


def test_plain_sql_can_ask_for_a_task(shop: Shop, store: SyncStore, conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "select holdfast.submit_job('sql', 'psql', 'mail', p_task => 'shop.mail', "
        """p_payload => '{"args": ["a@b.c"], "kwargs": {"subject": "hi"}}')"""
    )
    shop.mail.enqueue("a@b.c", subject="hi")
    by_sql, by_python = claim(store, "mail"), claim(store, "mail")
    assert (by_sql.payload, by_sql.task) == (by_python.payload, by_python.task)


def test_every_option_arrives(shop: Shop, store: SyncStore) -> None:
    parent = shop.fetch.enqueue("p")
    handle = shop.mail.using(
        queue="slow",
        delay=timedelta(minutes=1),
        expires=3600,
        job_id="mine",
        wait_for=[parent, parent.job_id],
        if_parent_fails="run",
        priority=7,
        timeout=5,
        retry=Retry(4, base=1),
        resources=["smtp"],
        singleton_key="one",
        tags=["eu"],
    ).enqueue("a")
    job = handle.info()
    assert (job.job_id, job.queue, job.priority, job.timeout_s) == ("mine", "slow", 7, 5)
    assert (job.wait_for, job.if_parent_fails) == ((parent.job_id,), "run")
    assert (job.max_attempts, job.retry) == (4, Retry(4, base=1).to_json())
    assert (job.resource_keys, job.singleton_key, job.tags) == (("smtp",), "one", ("eu",))
    assert job.available_at - job.created_at == timedelta(minutes=1)
    assert job.expires_at is not None
    assert abs(job.expires_at - job.created_at - timedelta(hours=1)) < timedelta(seconds=30)


def test_a_moment_is_taken_as_it_is(shop: Shop) -> None:
    moment = datetime(2040, 1, 1, tzinfo=UTC)
    assert shop.fetch.using(available_at=moment).enqueue("x").info().available_at == moment


def test_of_many_jobs_each_expires_when_it_says(shop: Shop) -> None:
    specs = [shop.fetch.job("a"), shop.fetch.using(expires=60).job("b"), shop.fetch.using(expires=7).job("c")]
    jobs = [handle.info() for handle in shop.hf.enqueue_many(specs)]
    assert jobs[0].expires_at is None
    assert jobs[1].expires_at is not None
    assert jobs[2].expires_at is not None
    assert jobs[1].expires_at - jobs[2].expires_at == pytest.approx(
        timedelta(seconds=53), abs=timedelta(seconds=1)
    )


def test_an_expired_job_is_not_run(shop: Shop, store: SyncStore, clock: Clock) -> None:
    handle = shop.fetch.using(expires=60).enqueue("x")
    clock.advance(3600)
    assert store.claim_jobs("w", ["default"]) == []
    assert handle.info().status is Status.EXPIRED


def test_many_jobs_are_enqueued_in_the_order_given(shop: Shop) -> None:
    handles = shop.hf.enqueue_many(shop.mail.job(f"u{n}") for n in range(500))
    payloads = [shop.hf.jobs.get(handles[n].job_id).job.payload for n in (0, 499)]
    assert payloads == [{"args": ["u0"], "kwargs": {}}, {"args": ["u499"], "kwargs": {}}]
    assert shop.hf.enqueue_many([shop.fetch.job("x"), shop.fetch.job("y")], returning=False) == 2
    assert shop.hf.enqueue_many([]) == []
    assert shop.hf.enqueue_many([], returning=False) == 0


@pytest.mark.anyio
async def test_many_jobs_of_a_coroutine(shop: Shop) -> None:
    handles = await shop.hf.aenqueue_many([shop.mail.job("a"), shop.mail.job("b")])
    assert len({handle.job_id for handle in handles}) == 2
    assert await shop.hf.aenqueue_many([shop.mail.job("c")], returning=False) == 1
    await shop.hf.aclose()


def test_many_jobs_are_enqueued_all_or_none(shop: Shop, store: SyncStore) -> None:
    specs = [shop.mail.using(job_id="one").job("a"), shop.mail.using(job_id="one").job("b")]
    with pytest.raises(JobExists, match='"one" appears twice'):
        shop.hf.enqueue_many(specs)
    assert store.get_job("one") is None


def test_an_id_is_taken_once(shop: Shop) -> None:
    mine = shop.mail.using(job_id="mine")
    mine.enqueue("a")
    with pytest.raises(JobExists, match='"mine"'):
        mine.enqueue("a")


def test_a_parent_that_does_not_exist_is_named(shop: Shop) -> None:
    with pytest.raises(InvalidArgument, match="nobody"):
        shop.mail.using(wait_for=["nobody"]).enqueue("a")


@pytest.mark.parametrize("wrong", [["x"], [None], "specs", 3])
def test_only_calls_that_were_not_sent_can_be_sent(shop: Shop, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"task\.job\("):
        shop.hf.enqueue_many(wrong)


def test_one_call_and_a_handle_are_no_list_of_calls(shop: Shop) -> None:
    with pytest.raises(InvalidArgument, match=r"task\.job\("):
        shop.hf.enqueue_many(shop.mail.job("a"))  # type: ignore[call-overload]
    with pytest.raises(InvalidArgument, match=r"item 0.*task\.job\("):
        shop.hf.enqueue_many([shop.mail.enqueue("a")])  # type: ignore[arg-type]


def test_wrong_arguments_enqueue_nothing(shop: Shop, store: SyncStore) -> None:
    with pytest.raises(TypeError, match=r"mail\(\).*'subj'"):
        shop.mail.enqueue("a", subj="b")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"mail\(\).*'to'"):
        shop.mail.using(delay=3).enqueue()  # type: ignore[call-arg]
    assert store.get_job_stats().total_jobs == 0


@pytest.mark.parametrize("flaw", ["a\0b", "\ud800"])
def test_what_postgresql_cannot_store_is_refused_by_the_name_of_its_argument(shop: Shop, flaw: str) -> None:
    with pytest.raises(PayloadError, match=r'argument "subject" of task shop\.mail'):
        shop.mail.enqueue("a", subject=flaw)
    with pytest.raises(PayloadError, match=r'argument "to" of task shop\.mail'):
        shop.hf.enqueue_many([shop.mail.job("a"), shop.mail.job(flaw)])


def test_a_payload_that_is_too_large_says_what_to_do(shop: Shop) -> None:
    with pytest.raises(PayloadError, match=r'argument "to".*store it elsewhere'):
        shop.mail.enqueue("x" * 2_000_000)
    with pytest.raises(PayloadError, match="store it elsewhere"):
        shop.mail.enqueue("x" * 600_000, subject="y" * 600_000)


def test_threads_share_an_app(shop: Shop) -> None:
    found: list[str] = []
    lock = threading.Lock()

    def enqueue() -> None:
        for _ in range(20):
            handle = shop.mail.enqueue("a")
            with lock:
                found.append(handle.job_id)

    threads = [threading.Thread(target=enqueue) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 160


def test_a_database_without_holdfast_names_the_command_and_stays_as_it_is(
    blank_database: str, connect: Any
) -> None:
    with Holdfast(blank_database) as hf:
        shop = Shop(hf)
        with pytest.raises(SchemaMissing, match="holdfast migrate up"):
            shop.mail.enqueue("a")
    (row,) = connect(blank_database).execute("select count(*) from pg_namespace where nspname = 'holdfast'")
    assert row == (0,)


@pytest.mark.parametrize(
    "dsn", ["postgresql://u:secret@127.0.0.1:1/x", "host=127.0.0.1 port=1 password=secret"]
)
def test_a_database_nobody_answers_at_is_named_without_its_password(dsn: str) -> None:
    with Holdfast(dsn) as hf, pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1") as caught:
        Shop(hf).mail.enqueue("a")
    assert "secret" not in str(caught.value)


def test_a_dsn_that_is_none_is_refused_without_its_password() -> None:
    with Holdfast("postgresql://u:p@ss/word@host/db") as hf, pytest.raises(InvalidArgument) as caught:
        Shop(hf).mail.enqueue("a")
    assert "word" not in str(caught.value).replace("password", "")
