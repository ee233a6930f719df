"""Leases of running jobs: kept while the loop hangs, and what happens when they are lost."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, JobContext
from holdfast.domain.states import JobState
from holdfast.worker.watchdog import Watchdog
from tests.worker.hands import PATIENCE_S, at_work, drained, events, happens, in_thread, until

pytestmark = pytest.mark.anyio


async def test_a_handler_that_blocks_the_loop_for_longer_than_the_lease_keeps_it_and_is_named(
    hf: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[int] = []

    @hf.task(name="block")
    async def block_the_loop() -> str:
        runs.append(1)
        time.sleep(3)  # noqa: ASYNC251
        return "done"

    handle = await block_the_loop.aenqueue()
    async with at_work(hf, lease=1) as worker:
        await drained(worker)

    job = await handle.ainfo()
    assert runs == [1]
    assert (job.state, job.result, job.lease_expiration_count) == (JobState.COMPLETED, "done", 0)
    (line,) = events(caplog, "loop.blocked")
    assert "block_the_loop" in line.getMessage()
    assert "time.sleep(3)" in line.getMessage()


async def test_a_watchdog_reports_each_hang_once_and_ends_when_told() -> None:
    reports: list[str] = []
    watchdog = Watchdog(
        asyncio.get_running_loop(), lambda seconds, stack: reports.append(stack), blocked_s=0.2
    )
    watchdog.start()
    for _ in range(2):
        time.sleep(0.8)  # noqa: ASYNC251
        await asyncio.sleep(0.3)
    watchdog.stop()
    await until(lambda: not [each for each in threading.enumerate() if each.name == "holdfast watchdog"])

    assert len(reports) == 2
    assert "time.sleep(0.8)" in reports[0]


async def test_a_job_that_somebody_else_took_is_stopped_and_its_result_refused(
    hf: Holdfast, conn: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    began, told = threading.Event(), threading.Event()

    @hf.task(name="taken", context=True)
    def taken(context: JobContext) -> str:
        began.set()
        while not context.cancelled():
            threading.Event().wait(0.01)
        told.set()
        return "of no use"

    handle = await taken.aenqueue()
    async with at_work(hf, {"default": 1}, lease=2) as worker:
        await in_thread(began.wait)
        with conn.transaction():
            conn.execute("select holdfast.release_job(%s)", [handle.job_id])
            conn.execute(
                "select * from holdfast.claim_jobs('thief', array['default'], p_lease_seconds => 600)"
            )
        await in_thread(told.wait)
        await until(lambda: worker.running == 0)

    job = await handle.ainfo()
    assert (job.state, job.assignee_id, job.result) == (JobState.RUNNING, "thief", None)
    (line,) = events(caplog, "job.lost")
    assert line.__dict__["job_id"] == handle.job_id
    assert hf.metrics.snapshot()["jobs.lost"] == 1


async def test_the_late_result_of_a_job_that_lapsed_and_was_not_taken_is_welcome(
    hf: Holdfast, conn: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()

    @hf.task(name="lapsed")
    async def lapsed() -> str:
        began.set()
        await happens(go_on)
        return "worth keeping"

    handle = await lapsed.aenqueue()
    async with at_work(hf, {"default": 1}, lease=3) as worker:
        await happens(began)
        # As after an outage: the lease is over, and somebody who serves other queues has swept it.
        conn.execute("select holdfast.pause_queue('default')")
        conn.execute("update holdfast.jobs set lease_expires_at = now() - interval '1 second'")
        conn.execute("select * from holdfast.lapse_leases()")
        assert await handle.astate() is JobState.UNKNOWN_RETRY
        await asyncio.sleep(1.5)  # the keeper hears of it
        assert worker.running == 1
        go_on.set()
        await drained(worker)

    job = await handle.ainfo()
    assert (job.state, job.result, job.lease_expiration_count) == (JobState.COMPLETED, "worth keeping", 1)
    assert events(caplog, "job.lost") == []


async def test_a_worker_that_claims_its_own_lapsed_job_again_stops_the_old_run_and_not_the_new(
    hf: Holdfast, conn: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    runs: list[JobContext] = []
    both, go_on = threading.Event(), threading.Event()

    @hf.task(name="again", context=True)
    def again(context: JobContext) -> str:
        runs.append(context)
        if len(runs) == 2:
            both.set()
        while not (context.cancelled() or go_on.is_set()):
            threading.Event().wait(0.005)
        return f"run {runs.index(context) + 1}"

    handle = await again.aenqueue()
    # The slot of a lapsed job is free, so there is a second thread though the queue's concurrency is one.
    async with at_work(hf, {"default": 1}, lease=30, poll_idle=0.1) as worker:
        await until(lambda: runs)
        conn.execute("select holdfast.release_job(%s)", [handle.job_id])
        await in_thread(both.wait)
        await until(lambda: runs[0].cancelled())
        assert not runs[1].cancelled()
        go_on.set()
        await drained(worker)

    assert await handle.aresult(PATIENCE_S) == "run 2"
    assert len(events(caplog, "job.lost")) == 1
