"""A job that runs longer than it may is stopped where it runs, and failed."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast import Holdfast, JobContext, Retry
from holdfast.domain.states import JobState
from tests.worker import app
from tests.worker.hands import PATIENCE_S, at_work, drained, happens, in_thread, run_one, until

pytestmark = pytest.mark.anyio


async def test_a_job_on_the_loop_that_exceeds_its_timeout_is_cancelled_and_failed(hf: Holdfast) -> None:
    ended: list[str] = []

    @hf.task(name="slow", timeout=0.2)
    async def slow() -> None:
        try:
            await asyncio.sleep(PATIENCE_S * 2)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    job = await run_one(hf, await slow.aenqueue())

    assert ended == ["cancelled"]
    assert (job.state, job.attempts) == (JobState.FAILED_RETRY, 1)
    assert job.error_message == "TimedOut: timed out after 0.2 s"
    assert "asyncio.sleep" in (job.errors[0].traceback or "")


async def test_what_a_handler_returns_after_its_timeout_does_not_count(hf: Holdfast) -> None:
    @hf.task(name="stubborn", timeout=0.2)
    async def stubborn() -> str:
        try:
            await asyncio.sleep(PATIENCE_S * 2)
        except asyncio.CancelledError:
            return "too late"
        return "never"

    job = await run_one(hf, await stubborn.aenqueue())

    assert job.state is JobState.FAILED_RETRY
    assert job.result is None
    assert "timed out after 0.2 s" in (job.error_message or "")


async def test_a_handler_that_blocks_the_loop_for_longer_than_its_timeout_is_failed_when_it_lets_go(
    hf: Holdfast,
) -> None:
    @hf.task(name="block", timeout=0.1, context=True)
    async def block(context: JobContext) -> str:
        assert context.deadline is not None
        while datetime.now(UTC) < context.deadline + timedelta(milliseconds=10):
            pass
        return "too late"

    job = await run_one(hf, await block.aenqueue())

    assert (job.state, job.attempts, job.result) == (JobState.FAILED_RETRY, 1, None)
    assert job.error_message == "TimedOut: timed out after 0.1 s"


async def test_a_thread_that_exceeds_its_timeout_holds_slot_and_resources_until_it_ends(hf: Holdfast) -> None:
    told, may_end = threading.Event(), threading.Event()
    others: list[str] = []

    @hf.task(name="deaf", timeout=0.2, resources=["printer"], context=True, retry=Retry(3, base=300))
    def deaf(context: JobContext) -> str:
        while not context.cancelled():
            threading.Event().wait(0.01)
        told.set()
        assert may_end.wait(PATIENCE_S)
        return "too late"

    @hf.task(name="other")
    async def other() -> None:
        others.append("ran")

    @hf.task(name="printing", resources=["printer"], queue="second")
    async def printing() -> None:
        others.append("printed")

    async with at_work(hf, {"default": 1, "second": 1}, resource_busy_delay=0.05) as worker:
        handle = await deaf.aenqueue()
        await in_thread(told.wait)
        await other.aenqueue()
        waiting = await printing.aenqueue()
        await until(lambda: hf.metrics.snapshot().get("jobs.rescheduled.resource_busy", 0) >= 2)

        assert others == []
        assert await handle.astate() is JobState.RUNNING
        may_end.set()
        await waiting.aresult(PATIENCE_S)
        await drained(worker)

    job = await handle.ainfo()
    assert sorted(others) == ["printed", "ran"]
    assert (job.state, job.attempts, job.result) == (JobState.FAILED_RETRY, 1, None)
    assert "timed out after 0.2 s" in (job.error_message or "")


async def test_the_timeout_of_the_job_wins_and_the_deadline_is_told(hf: Holdfast) -> None:
    seen: list[datetime | None] = []

    @hf.task(name="patient", timeout=0.001, context=True)
    async def patient(context: JobContext) -> None:
        seen.append(context.deadline)
        await asyncio.sleep(0.05)

    before = datetime.now(UTC)
    job = await run_one(hf, await patient.using(timeout=300).aenqueue())

    assert job.state is JobState.COMPLETED
    assert seen[0] is not None
    assert timedelta(seconds=299) < seen[0] - before < timedelta(seconds=300 + PATIENCE_S)


async def test_without_a_timeout_there_is_no_deadline(hf: Holdfast) -> None:
    seen: list[datetime | None] = []

    @hf.task(name="free", context=True)
    async def free(context: JobContext) -> None:
        seen.append(context.deadline)

    await run_one(hf, await free.aenqueue())

    assert seen == [None]


async def test_the_time_a_job_waits_for_its_slot_does_not_count(hf: Holdfast) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    @hf.task(name="first")
    async def first() -> None:
        entered.set()
        await happens(go_on)

    @hf.task(name="second", timeout=5)
    async def second() -> str:
        return "in time"

    async with at_work(hf, {"default": 1}) as worker:
        await first.aenqueue()
        await happens(entered)
        handle = await second.aenqueue()
        await asyncio.sleep(0.3)
        go_on.set()
        await drained(worker)

    assert await handle.aresult(PATIENCE_S) == "in time"


async def test_a_process_that_exceeds_its_timeout_is_ended_and_its_start_does_not_count(
    shop: Holdfast, tmp_path: Path
) -> None:
    # A child takes far longer than this to start.
    quick = await app.give.using(timeout=0.15).aenqueue("none")
    slow = await app.linger_in_process.using(timeout=0.3).aenqueue(str(tmp_path / "slow"), 600)
    deaf = await app.stubborn.using(timeout=0.3).aenqueue(str(tmp_path / "deaf"))
    async with at_work(shop, kill_after=0.3) as worker:
        await drained(worker)

    assert await quick.astate() is JobState.COMPLETED
    for handle in (slow, deaf):
        job = await handle.ainfo()
        assert (job.state, job.attempts) == (JobState.FAILED_RETRY, 1)
        assert "timed out after 0.3 s" in (job.error_message or "")
    assert "ended" not in (tmp_path / "slow").read_text()
