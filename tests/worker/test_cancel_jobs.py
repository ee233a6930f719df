"""A job that somebody cancels is stopped where it runs, and ends in the state its handler earned."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, JobCancelled, JobContext, Snooze
from holdfast.domain.states import JobState
from holdfast.store import Store
from tests.worker import app
from tests.worker.hands import PATIENCE_S, at_work, drained, happens, in_thread, until

pytestmark = pytest.mark.anyio

SEEN_S = 1.0
SLACK_S = 1.5
"""What a busy machine may add to the second that is promised."""


@pytest.mark.parametrize("way", ["signals", "silent", "pgbouncer"])
@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_cancellation_is_seen_within_a_second_with_signals_and_without(
    request: pytest.FixtureRequest, database: str, conn: psycopg.Connection[Any], way: str, place: str
) -> None:
    """Silent: nobody sends any. Through a pooler in transaction mode: none arrives."""
    conn.execute("select holdfast.set_notify(%s)", [way != "silent"])
    hf = Holdfast(request.getfixturevalue("pgbouncer").dsn(database) if way == "pgbouncer" else database)
    began, seen_at = threading.Event(), [0.0]

    async def on_loop() -> None:
        began.set()
        try:
            await asyncio.sleep(PATIENCE_S * 2)
        finally:
            seen_at[0] = monotonic()

    def in_a_thread(context: JobContext) -> None:
        began.set()
        while not context.cancelled():
            threading.Event().wait(0.01)
        seen_at[0] = monotonic()
        context.check_cancelled()

    if place == "loop":
        handle: Any = await hf.task(name="task")(on_loop).aenqueue()
    else:
        handle = await hf.task(name="task", context=True)(in_a_thread).aenqueue()
    async with at_work(hf, lease=60, poll_active=0.05, poll_idle=0.1):
        await in_thread(began.wait)
        await asyncio.sleep(1.3)  # past what a worker asks when it starts
        cancelled_at = monotonic()
        assert await handle.acancel()
        await until(lambda: seen_at[0])
        took_s = seen_at[0] - cancelled_at
        with pytest.raises(JobCancelled):
            await handle.aresult(PATIENCE_S)

    state = await handle.astate()
    await hf.aclose()
    print(f"cancellation seen after {took_s:.3f} s ({place}, {way})")
    assert took_s < SEEN_S + SLACK_S
    assert state is JobState.STOPPED


async def test_the_keeper_asks_only_now_and_then_while_signals_arrive(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    """What it costs to be quick without signals is not paid where there are some."""
    began, go_on = asyncio.Event(), asyncio.Event()

    @hf.task(name="long")
    async def long() -> None:
        began.set()
        await happens(go_on)

    async with at_work(hf, lease=60) as worker:
        handle = await long.aenqueue()
        await happens(began)
        await asyncio.sleep(1.5)  # past what a worker asks when it starts
        before = conn.execute("select extended_at from holdfast.jobs").fetchone()
        await asyncio.sleep(2.5)
        after = conn.execute("select extended_at from holdfast.jobs").fetchone()
        go_on.set()
        await drained(worker)

    assert before == after
    assert await handle.astate() is JobState.COMPLETED


async def cancel_while_running(hf: Holdfast, handle: Any, began: asyncio.Event) -> JobState:
    async with at_work(hf, {"default": 2}) as worker:
        await happens(began)
        await handle.acancel()
        await drained(worker)
    state: JobState = await handle.astate()
    return state


async def test_a_cancelled_job_that_returns_anyway_is_completed(hf: Holdfast) -> None:
    began = asyncio.Event()

    @hf.task(name="anyway")
    async def anyway() -> str:
        began.set()
        try:
            await asyncio.sleep(PATIENCE_S * 2)
        except asyncio.CancelledError:
            return "done all the same"
        return "never"

    handle = await anyway.aenqueue()

    assert await cancel_while_running(hf, handle, began) is JobState.COMPLETED
    assert await handle.aresult(PATIENCE_S) == "done all the same"


async def test_a_cancelled_job_that_fails_otherwise_is_stopped_and_the_error_kept(hf: Holdfast) -> None:
    began = asyncio.Event()

    @hf.task(name="clumsy")
    async def clumsy() -> None:
        began.set()
        try:
            await asyncio.sleep(PATIENCE_S * 2)
        finally:
            raise ValueError("could not clean up")

    handle = await clumsy.aenqueue()

    assert await cancel_while_running(hf, handle, began) is JobState.STOPPED
    job = await handle.ainfo()
    assert job.attempts == 1
    assert job.error_message == "ValueError: could not clean up"


async def test_a_cancelled_process_gets_sigterm_and_is_stopped(shop: Holdfast, tmp_path: Path) -> None:
    polite, deaf = tmp_path / "polite", tmp_path / "deaf"
    handles = [await app.linger_in_process.aenqueue(str(polite), 600), await app.stubborn.aenqueue(str(deaf))]
    async with at_work(shop, kill_after=0.3) as worker:
        await until(lambda: polite.exists() and deaf.exists())
        for handle in handles:
            await handle.acancel()
        await drained(worker)

    assert [await handle.astate() for handle in handles] == [JobState.STOPPED, JobState.STOPPED]
    assert "ended" not in polite.read_text()


@pytest.mark.parametrize(
    ("ending", "expected", "attempts"),
    [("return", JobState.COMPLETED, 0), ("raise", JobState.STOPPED, 1), ("snooze", JobState.STOPPED, 0)],
)
async def test_a_job_cancelled_after_its_handler_ended_and_before_that_was_written_ends_right(
    hf: Holdfast, database: str, ending: str, expected: JobState, attempts: int
) -> None:
    """The handler itself cancels its job, and ends before anybody could tell the worker."""

    @hf.task(name="race", context=True)
    async def race(context: JobContext) -> str:
        with psycopg.connect(database, autocommit=True) as conn:  # blocks the loop: nothing is heard here
            conn.execute("select holdfast.cancel_job(%s, 'test')", [context.job_id])
        if ending == "raise":
            raise ValueError("boom")
        if ending == "snooze":
            raise Snooze(60)
        return "fine"

    handle = await race.aenqueue()
    async with at_work(hf) as worker:
        await drained(worker)

    job = await handle.ainfo()
    assert (job.state, job.attempts) == (expected, attempts)


async def test_the_same_race_at_the_very_end_of_a_worker_ends_right(hf: Holdfast, database: str) -> None:
    began = threading.Event()

    @hf.task(name="race", context=True)
    def race(context: JobContext) -> None:
        began.set()
        while not context.shutting_down():
            threading.Event().wait(0.005)
        with psycopg.connect(database, autocommit=True) as conn:
            conn.execute("select holdfast.set_notify(false)")
            conn.execute("select holdfast.cancel_job(%s, 'test')", [context.job_id])
        raise ValueError("boom")

    handle = await race.aenqueue()
    async with at_work(hf):
        await in_thread(began.wait)

    job = await handle.ainfo()
    assert (job.state, job.attempts) == (JobState.STOPPED, 1)


@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_job_cancelled_before_its_handler_began_never_runs(
    hf: Holdfast, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch, is_heard: bool
) -> None:
    """It is cancelled while its resources are asked for, and the worker hears of that in time or not."""
    conn.execute("select holdfast.set_notify(%s)", [is_heard])
    ran: list[str] = []
    asked, go_on = asyncio.Event(), asyncio.Event()
    ask = Store.acquire_resources

    async def ask_slowly(self: Store, *args: Any, **options: Any) -> list[str]:
        asked.set()
        await happens(go_on)
        return await ask(self, *args, **options)

    monkeypatch.setattr(Store, "acquire_resources", ask_slowly)

    @hf.task(name="guarded", resources=["key"])
    async def guarded() -> None:
        ran.append("ran")

    handle = await guarded.aenqueue()
    async with at_work(hf, lease=60) as worker:
        await happens(asked)
        await handle.acancel()
        if is_heard:
            await asyncio.sleep(1)
        go_on.set()
        await drained(worker)

    assert ran == []
    assert await handle.astate() is JobState.STOPPED


async def test_a_slot_that_somebody_forfeits_is_lost_though_the_outcome_is_told_before_that_is_heard(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    """Somebody says that nobody executes the job, while its handler is about to fail."""
    conn.execute("select holdfast.set_notify(false)")
    go_on = asyncio.Event()

    @hf.task(name="fails", context=True)
    async def fails(context: JobContext) -> None:
        conn.execute("select from holdfast.cancel_jobs(p_job_ids => array[%s])", [context.job_id])
        conn.execute("select holdfast.acknowledge_cancellation(%s, false)", [context.job_id])
        raise ValueError("of no account")

    @hf.task(name="lingers")
    async def lingers() -> None:
        await happens(go_on)

    failing = await fails.using(priority=5).aenqueue()
    for _ in range(2):
        await lingers.aenqueue()
    async with at_work(hf, {"default": 2}, lease=600, poll_active=0.05, poll_idle=0.05) as worker:
        await until(lambda: worker.running == 1)
        await worker.ready()
        assert worker.running == 1
        go_on.set()
    assert await failing.astate() is JobState.UNKNOWN_STOPPED
