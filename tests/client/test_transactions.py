"""Jobs in the caller's own transaction: they exist, and are signalled, only if it commits."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import asyncpg
import django.db
import psycopg
import pytest
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from holdfast import Holdfast
from holdfast.errors import HoldfastError, InvalidArgument, JobExists, PayloadError, SchemaMissing
from holdfast.store import SyncStore
from tests.client.drivers import AWAITABLE, BLOCKING, ABegin, Begin, connect_asyncpg
from tests.client.shop import Shop


class Changed(Exception):
    """Somebody changed their mind."""


def heard(listener: psycopg.Connection[Any], shop: Shop) -> list[str]:
    """What was signalled so far: a marker is sent, and everything that was committed before comes first."""
    shop.mail.using(job_id="marker").enqueue("m")
    found: list[str] = []
    for signal in listener.notifies():
        if signal.payload == "marker":
            return found
        found.append(signal.payload)
    raise AssertionError("the marker was not heard")


@pytest.fixture
def listener(conn: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    conn.execute('listen "holdfast.need.mail"')
    return conn


@pytest.mark.parametrize("begin", BLOCKING)
def test_committed_jobs_exist_and_are_signalled(
    begin: Begin, shop: Shop, store: SyncStore, database: str, listener: psycopg.Connection[Any]
) -> None:
    with begin(database) as conn:
        by_name = shop.mail.using(conn=conn, job_id="by-name").enqueue("a", subject='it\'s "100%" \\ ☃')
        with shop.hf.transaction(conn):
            in_block = shop.mail.using(job_id="in-block", expires=60, tags=["x,y"], delay=0).enqueue("b")
            several = shop.hf.enqueue_many([shop.mail.job("c"), shop.fetch.job("d")])
        assert store.get_job(by_name.job_id) is None, "nobody else sees it yet"
    jobs = [store.get_job(each.job_id) for each in (by_name, in_block, *several)]
    assert [job and job.payload for job in jobs] == [
        {"args": ["a"], "kwargs": {"subject": 'it\'s "100%" \\ ☃'}},
        {"args": ["b"], "kwargs": {}},
        {"args": ["c"], "kwargs": {}},
        {"args": ["d"], "kwargs": {}},
    ]
    assert jobs[1] is not None
    assert jobs[1].tags == ("x,y",)
    assert jobs[1].expires_at is not None
    assert set(heard(listener, shop)) == {"by-name", "in-block", several[0].job_id}


@pytest.mark.parametrize("begin", BLOCKING)
def test_rolled_back_jobs_neither_exist_nor_are_signalled(
    begin: Begin, shop: Shop, store: SyncStore, database: str, listener: psycopg.Connection[Any]
) -> None:
    with pytest.raises(Changed), begin(database) as conn:  # noqa: PT012
        shop.mail.using(conn=conn).enqueue("a")
        with shop.hf.transaction(conn):
            shop.mail.enqueue("b")
            shop.hf.enqueue_many([shop.mail.job("c")])
        raise Changed
    assert store.get_job_stats().total_jobs == 0
    assert heard(listener, shop) == []


@pytest.mark.anyio
@pytest.mark.parametrize("begin", AWAITABLE)
async def test_committed_jobs_of_coroutines_exist(
    begin: ABegin, shop: Shop, store: SyncStore, database: str, listener: psycopg.Connection[Any]
) -> None:
    async with begin(database) as conn:
        by_name = await shop.mail.using(conn=conn, job_id="by-name").aenqueue("a", subject='"%" ☃')
        async with shop.hf.transaction(conn):
            in_block = await shop.mail.using(job_id="in-block", expires=60, tags=["x,y"]).aenqueue("b")
            several = await shop.hf.aenqueue_many([shop.mail.job("c"), shop.fetch.job("d")])
        assert store.get_job(by_name.job_id) is None, "nobody else sees it yet"
    jobs = [store.get_job(each.job_id) for each in (by_name, in_block, *several)]
    assert [job and job.payload for job in jobs] == [
        {"args": ["a"], "kwargs": {"subject": '"%" ☃'}},
        {"args": ["b"], "kwargs": {}},
        {"args": ["c"], "kwargs": {}},
        {"args": ["d"], "kwargs": {}},
    ]
    assert set(heard(listener, shop)) == {"by-name", "in-block", several[0].job_id}


@pytest.mark.anyio
@pytest.mark.parametrize("begin", AWAITABLE)
async def test_rolled_back_jobs_of_coroutines_neither_exist_nor_are_signalled(
    begin: ABegin, shop: Shop, store: SyncStore, database: str, listener: psycopg.Connection[Any]
) -> None:
    with pytest.raises(Changed):  # noqa: PT012
        async with begin(database) as conn:
            await shop.mail.using(conn=conn).aenqueue("a")
            with shop.hf.transaction(conn):
                await shop.hf.aenqueue_many([shop.mail.job("b")])
            raise Changed
    assert store.get_job_stats().total_jobs == 0
    assert heard(listener, shop) == []


@pytest.mark.parametrize("begin", BLOCKING)
def test_what_the_engine_refuses_is_refused_in_its_own_words(begin: Begin, shop: Shop, database: str) -> None:
    shop.mail.using(job_id="taken").enqueue("a")
    with (
        pytest.raises(JobExists, match=r'^job "taken" already exists \(INITIAL_PENDING\)$'),
        begin(database) as conn,
    ):
        shop.mail.using(job_id="taken", conn=conn).enqueue("a")


@pytest.mark.anyio
@pytest.mark.parametrize("begin", AWAITABLE)
async def test_what_the_engine_refuses_coroutines_is_refused_in_its_own_words(
    begin: ABegin, shop: Shop, database: str
) -> None:
    shop.mail.using(job_id="taken").enqueue("a")
    with pytest.raises(JobExists, match=r'^job "taken" already exists \(INITIAL_PENDING\)$'):
        async with begin(database) as conn:
            await shop.mail.using(job_id="taken", conn=conn).aenqueue("a")


@pytest.mark.parametrize("begin", BLOCKING)
def test_a_transaction_in_a_database_without_holdfast_names_the_command(
    begin: Begin, shop: Shop, blank_database: str
) -> None:
    with pytest.raises(SchemaMissing, match="holdfast migrate up"), begin(blank_database) as conn:
        shop.mail.using(conn=conn).enqueue("a")


def test_an_error_in_a_transaction_names_the_argument(shop: Shop, connect: Callable[..., Any]) -> None:
    with pytest.raises(PayloadError, match='argument "to"'), shop.hf.transaction(connect()):
        shop.mail.enqueue("\0")


def test_an_app_in_a_transaction_needs_no_connection_of_its_own(connect: Callable[..., Any]) -> None:
    hf = Holdfast("postgresql://127.0.0.1:1/nowhere")
    with hf.transaction(connect()):
        assert Shop(hf).mail.enqueue("a").job_id


def test_blocks_are_nested_and_the_innermost_counts(
    shop: Shop, store: SyncStore, connect: Callable[..., Any]
) -> None:
    outer, inner = connect(autocommit=False), connect(autocommit=False)
    with shop.hf.transaction(outer):
        shop.mail.using(job_id="outer").enqueue("a")
        with shop.hf.transaction(inner):
            shop.mail.using(job_id="inner").enqueue("a")
            shop.mail.using(job_id="named", conn=outer).enqueue("a")
            with shop.hf.transaction(None):
                shop.mail.using(job_id="at-once").enqueue("a")
        shop.mail.using(job_id="outer-again").enqueue("a")
    assert store.get_job("at-once") is not None
    inner.commit()
    assert [store.get_job(name) is None for name in ("inner", "outer", "named")] == [False, True, True]
    outer.commit()
    assert [store.get_job(name) is None for name in ("outer", "named", "outer-again")] == [False] * 3
    shop.mail.using(job_id="after").enqueue("a")
    assert store.get_job("after") is not None


def test_a_block_is_not_seen_by_other_threads_or_other_apps(
    shop: Shop, store: SyncStore, database: str, connect: Callable[..., Any]
) -> None:
    with Holdfast(database) as other, shop.hf.transaction(connect(autocommit=False)):
        thread = threading.Thread(target=shop.mail.using(job_id="thread").enqueue, args=("a",))
        thread.start()
        thread.join()
        Shop(other).mail.using(job_id="other").enqueue("a")
        assert store.get_job("thread") is not None
        assert store.get_job("other") is not None


@pytest.mark.anyio
async def test_tasks_inherit_a_block_until_it_ends(shop: Shop, store: SyncStore, database: str) -> None:
    ended = asyncio.Event()

    async def enqueue(job_id: str, when: asyncio.Event | None = None) -> None:
        if when is not None:
            await when.wait()
        await shop.mail.using(job_id=job_id).aenqueue("a")

    async with await psycopg.AsyncConnection.connect(database) as conn:
        unrelated = asyncio.create_task(enqueue("unrelated"))
        async with shop.hf.transaction(conn):
            await asyncio.create_task(enqueue("within"))
            late = asyncio.create_task(enqueue("late", ended))
        await unrelated
        ended.set()
        await late
        await conn.rollback()
    assert store.get_job("within") is None
    assert store.get_job("late") is not None
    assert store.get_job("unrelated") is not None
    await shop.hf.aclose()


def test_a_block_leaves_nothing_behind(shop: Shop, connect: Callable[..., Any]) -> None:
    before = contextvars.copy_context()
    with shop.hf.transaction(connect()), shop.hf.transaction(None):
        assert dict(contextvars.copy_context()) != dict(before)
    assert dict(contextvars.copy_context()) == dict(before)


def test_a_block_may_be_left_in_another_context_than_it_was_entered_in(
    shop: Shop, store: SyncStore, connect: Callable[..., Any]
) -> None:
    block = shop.hf.transaction(connect(autocommit=False))
    context = contextvars.copy_context()
    context.run(block.__enter__)
    block.__exit__(None, None, None)
    context.run(shop.mail.using(job_id="after").enqueue, "a")
    assert store.get_job("after") is not None


def test_a_block_is_entered_once(shop: Shop, connect: Callable[..., Any]) -> None:
    block = shop.hf.transaction(connect())
    with block, pytest.raises(HoldfastError, match="entered already"):
        block.__enter__()
    with block:
        pass


def test_jobs_of_one_call_name_one_connection(shop: Shop, connect: Callable[..., Any]) -> None:
    a, b = shop.mail.using(conn=connect()), shop.mail.using(conn=connect())
    with pytest.raises(InvalidArgument, match="several conn"):
        shop.hf.enqueue_many([a.job("x"), b.job("y")])


def test_the_connection_of_the_call_wins(shop: Shop, store: SyncStore, connect: Callable[..., Any]) -> None:
    lost, kept = connect(autocommit=False), connect(autocommit=False)
    (handle,) = shop.hf.enqueue_many([shop.mail.using(conn=lost).job("x")], conn=kept)
    lost.rollback()
    kept.commit()
    assert store.get_job(handle.job_id) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        "default",
        3,
        ConnectionPool(open=False),
        create_engine("postgresql+psycopg://"),
        asyncpg.create_pool,
        django.db.connections,
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_has_no_transaction_is_refused_with_what_is_taken(shop: Shop, wrong: object) -> None:
    with pytest.raises(InvalidArgument, match=r"psycopg Connection.*Session.*django\.db\.connection"):
        shop.hf.transaction(wrong)
    with pytest.raises(InvalidArgument, match="pass a psycopg Connection"):
        shop.mail.using(conn=wrong).enqueue("a")


def test_another_database_is_refused(shop: Shop) -> None:
    with (
        Session(create_engine("sqlite://")) as session,
        pytest.raises(InvalidArgument, match=r"sqlite.*PostgreSQL"),
    ):
        shop.hf.transaction(session)


@pytest.mark.anyio
async def test_a_connection_of_the_other_world_is_refused_with_the_way_out(
    shop: Shop, database: str, connect: Callable[..., Any]
) -> None:
    with pytest.raises(InvalidArgument, match=r"psycopg Connection blocks: use enqueue\(\)"):
        await shop.mail.using(conn=connect()).aenqueue("a")
    conn = await connect_asyncpg(database)
    with pytest.raises(InvalidArgument, match=r"asyncpg connection is for asyncio: use aenqueue\(\)"):
        shop.mail.using(conn=conn).enqueue("a")
    await conn.close()
