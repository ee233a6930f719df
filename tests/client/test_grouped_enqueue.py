"""`enqueue` of many tasks or threads at once shares calls and commits, except in a caller's transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, JobHandle
from holdfast.errors import PayloadError
from holdfast.store import grouping
from tests.client.shop import Shop
from tests.conftest import Connect
from tests.store.crowds import Gate, commits, eventually
from tests.store.trouble import named


@pytest.fixture
def hf(database: str) -> Generator[Holdfast]:
    with Holdfast(named(database, "crowd")) as app:
        yield app


@pytest.fixture
def gate(conn: psycopg.Connection[Any]) -> Gate:
    return Gate(conn)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "PATIENCE_S", 60.0)


@pytest.fixture
def pool() -> Generator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as opened:
        yield opened


Sent = Future[JobHandle[int]]


def start_two(shop: Shop, gate: Gate, pool: ThreadPoolExecutor) -> tuple[Sent, Sent]:
    """One call is under way, and one waits in line for its end."""
    line = shop.hf.stores.blocking()._group._line
    under_way = pool.submit(shop.mail.enqueue, "under way")
    gate.wait_for(1)
    in_line = pool.submit(shop.mail.enqueue, "in line")
    eventually(lambda: line.first() is not None)
    return under_way, in_line


def test_threads_that_enqueue_at_once_share_a_commit(
    shop: Shop, gate: Gate, pool: ThreadPoolExecutor, conn: psycopg.Connection[Any]
) -> None:
    line = shop.hf.stores.blocking()._group._line
    with gate.shut():
        started = start_two(shop, gate, pool)
        others = [pool.submit(shop.mail.enqueue, str(number)) for number in range(10)]
        eventually(lambda: len(line._waiting) == 11)

    assert len({each.result().job_id for each in (*started, *others)}) == 12
    assert commits(conn) == 2


@pytest.mark.anyio
async def test_tasks_that_enqueue_at_once_share_a_commit(
    shop: Shop, gate: Gate, conn: psycopg.Connection[Any]
) -> None:
    await shop.mail.aenqueue("to open the store")
    with gate.shut():
        started = [asyncio.create_task(shop.mail.aenqueue(str(number))) for number in range(11)]
        await asyncio.to_thread(gate.wait_for, 1)

    assert len({(await each).job_id for each in started}) == 11
    assert commits(conn) == 3
    await shop.hf.aclose()


def test_a_job_of_the_callers_transaction_stands_in_no_line_and_is_gone_with_it(
    shop: Shop, gate: Gate, pool: ThreadPoolExecutor, connect: Connect, conn: psycopg.Connection[Any]
) -> None:
    own = connect()
    with gate.shut():
        started = start_two(shop, gate, pool)
        with own.transaction(force_rollback=True), shop.hf.transaction(own):
            inside = shop.mail.enqueue("rolled back")
        with own.transaction(force_rollback=True):
            named_at_call = shop.mail.using(conn=own).enqueue("rolled back, too")
        with own.transaction():
            kept = shop.mail.using(conn=own).enqueue("kept")

    ids = {each.result().job_id for each in started}
    rows = conn.execute("select job_id from holdfast.jobs_with_status").fetchall()
    assert {job_id for (job_id,) in rows} == {*ids, kept.job_id}
    assert inside.job_id not in ids
    assert named_at_call.job_id not in ids


def test_enqueue_many_and_jobs_that_expire_stand_in_no_line(
    shop: Shop, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    with gate.shut():
        started = start_two(shop, gate, pool)
        many = pool.submit(shop.hf.enqueue_many, [shop.mail.job("one")])
        gate.wait_for(2)
        expiring = pool.submit(shop.mail.using(expires=60).enqueue, "soon")
        gate.wait_for(3)

    assert len({*(each.result().job_id for each in (*started, expiring)), many.result()[0].job_id}) == 4


def test_an_argument_that_cannot_be_stored_is_named_and_nobody_else_hears_of_it(
    shop: Shop, gate: Gate, pool: ThreadPoolExecutor
) -> None:
    with gate.shut():
        started = start_two(shop, gate, pool)
        with pytest.raises(PayloadError, match=r'argument "to" of task shop\.mail'):
            shop.mail.enqueue("a\0b")
    assert all(each.result() for each in started)
