"""Seed 000: a busy resource postpones a job and costs it nothing; any other trouble counts as a failure."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, JobContext, PermanentError, Snooze
from holdfast.domain.states import JobState
from holdfast.errors import DatabaseUnavailable
from holdfast.store import Store
from holdfast.worker.settings import Settings
from tests.worker import app
from tests.worker.hands import PATIENCE_S, at_work, drained, events, happens, run_one, until

pytestmark = pytest.mark.anyio


def holds(conn: psycopg.Connection[Any]) -> list[str]:
    """The resources somebody has."""
    return [
        key for (key,) in conn.execute("select key from holdfast.holds where kind = 'resource' order by key")
    ]


def occupy(conn: psycopg.Connection[Any], *keys: str) -> None:
    """Let somebody else hold these for the rest of the test."""
    conn.execute("select holdfast.submit_job('occupant', 'sql', 'elsewhere')")
    conn.execute("select * from holdfast.claim_jobs('sql', array['elsewhere'], p_lease_seconds => 3600)")
    conn.execute("select holdfast.acquire_resources('occupant', %s)", [list(keys)])


async def test_worker_resource_busy_reschedules_without_increment(
    hf: Holdfast, conn: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []

    @hf.task(name="print", resources=["printer"])
    async def printing() -> None:
        ran.append("ran")

    occupy(conn, "printer")
    handle = await printing.aenqueue()

    job = await run_one(hf, handle, resource_busy_delay=45)

    assert ran == []
    assert (job.state, job.attempts, job.error_message) == (JobState.RESCHEDULED, 0, None)
    traced = conn.execute(
        "select event_at, input_data ->> 'reason' from holdfast.jobs_trace "
        "where job_id = %s and event_type = 'reschedule_job'",
        [handle.job_id],
    ).fetchall()
    assert [reason for _, reason in traced] == ["resource_busy"]
    assert abs(job.available_at - traced[0][0] - timedelta(seconds=45)) < timedelta(seconds=1)
    (line,) = events(caplog, "job.rescheduled")
    assert (line.levelno, line.__dict__["reason"]) == (logging.INFO, "resource_busy")
    assert handle.job_id in line.getMessage()
    assert line.__dict__["job_id"] == handle.job_id
    assert hf.metrics.snapshot()["jobs.rescheduled.resource_busy"] == 1
    assert "jobs.failed" not in hf.metrics.snapshot()


async def test_a_worker_need_not_ask_for_a_resource_it_got_with_the_claim(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    seen: list[list[str]] = []

    @hf.task(name="print", resources=["printer"])
    async def printing() -> None:
        seen.append(holds(conn))

    conn.execute("select holdfast.set_resource_capacity('printer', 2)")
    conn.execute("drop function holdfast.acquire_resources")
    handle = await printing.aenqueue()

    job = await run_one(hf, handle)

    assert (job.state, seen) == (JobState.COMPLETED, [["printer"]])
    assert holds(conn) == []


def test_the_delay_is_a_setting_and_two_seconds_unless_said_otherwise() -> None:
    assert Settings().resource_busy_delay == 2.0


@pytest.mark.parametrize("trouble", [DatabaseUnavailable("no connection"), ValueError("a bug of ours")])
async def test_worker_other_errors_still_requeue_or_fail(
    hf: Holdfast, monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    ran: list[str] = []

    async def fail(*args: object, **options: object) -> list[str]:
        raise trouble

    monkeypatch.setattr(Store, "acquire_resources", fail)

    @hf.task(name="print", resources=["printer"], retry=2)
    async def printing() -> None:
        ran.append("ran")

    job = await run_one(hf, await printing.aenqueue())

    assert ran == []
    assert (job.state, job.attempts) == (JobState.FAILED_RETRY, 1)
    assert str(trouble) in (job.error_message or "")
    assert "jobs.rescheduled.resource_busy" not in hf.metrics.snapshot()


async def test_two_workers_resource_contention_only_one_executes(hf: Holdfast, database: str) -> None:
    """Two workers, each with connections and threads of its own."""
    inside, most, done = 0, 0, 0
    runs: list[str] = []

    @hf.task(name="print", resources=["printer"], context=True)
    async def printing(context: JobContext) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        runs.append(context.job_id)
        await asyncio.sleep(0.15)
        inside -= 1

    handles = [await printing.aenqueue() for _ in range(4)]
    settings: dict[str, Any] = {"resource_busy_delay": 0.05}
    async with at_work(hf, {"default": 2}, **settings), at_work(hf, {"default": 2}, **settings):
        for handle in handles:
            await handle.aresult(PATIENCE_S * 2)
            done += 1

    assert (most, done) == (1, 4)
    assert sorted(runs) == sorted(handle.job_id for handle in handles)
    assert [(await handle.ainfo()).attempts for handle in handles] == [0] * 4
    assert hf.metrics.snapshot()["jobs.rescheduled.resource_busy"] >= 1


async def test_a_capacity_of_two_lets_two_run_and_no_third(hf: Holdfast) -> None:
    inside, most = 0, 0
    both = asyncio.Event()
    await hf.resources["pool"].aset_capacity(2)

    @hf.task(name="swim", resources=["pool"])
    async def swim() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        if inside == 2:
            both.set()
        await happens(both)
        await asyncio.sleep(0.05)
        inside -= 1

    handles = [await swim.aenqueue() for _ in range(6)]
    async with at_work(hf, {"default": 6}, resource_busy_delay=0.02):
        for handle in handles:
            await handle.aresult(PATIENCE_S)

    assert most == 2


async def test_several_resources_are_taken_all_or_none(hf: Holdfast, conn: psycopg.Connection[Any]) -> None:
    @hf.task(name="both", resources=["a", "z"])
    async def both() -> None: ...

    occupy(conn, "z")

    job = await run_one(hf, await both.aenqueue())

    assert job.state is JobState.RESCHEDULED
    assert holds(conn) == ["z"]


async def test_resources_are_held_while_the_handler_runs_and_not_before(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    seen: list[list[str]] = []
    entered, go_on = asyncio.Event(), asyncio.Event()

    @hf.task(name="first")
    async def first() -> None:
        entered.set()
        await happens(go_on)

    @hf.task(name="second", resources=["key"])
    async def second() -> None:
        seen.append(holds(conn))

    async with at_work(hf, {"default": 1}) as worker:
        await first.aenqueue()
        await happens(entered)
        await second.aenqueue()
        await asyncio.sleep(0.2)
        assert holds(conn) == []
        go_on.set()
        await drained(worker)

    assert seen == [["key"]]


@pytest.mark.parametrize(
    "ending", ["return", "raise", "permanent", "snooze", "time out", "cancel", "unstorable"]
)
async def test_resources_are_released_however_the_job_ends(
    hf: Holdfast, conn: psycopg.Connection[Any], ending: str
) -> None:
    entered = asyncio.Event()

    @hf.task(name="end", resources=["key"], timeout=0.2 if ending == "time out" else 600)
    async def end() -> Any:
        entered.set()
        match ending:
            case "raise":
                raise ValueError
            case "permanent":
                raise PermanentError("no")
            case "snooze":
                raise Snooze(60)
            case "time out" | "cancel":
                await asyncio.sleep(PATIENCE_S * 2)
            case _:
                pass
        return threading.Lock() if ending == "unstorable" else None

    handle = await end.aenqueue()
    async with at_work(hf) as worker:
        await happens(entered)
        if ending == "cancel":
            await handle.acancel()
        await drained(worker)

    assert holds(conn) == []


async def test_resources_are_released_when_the_process_that_held_them_dies(
    shop: Holdfast, conn: psycopg.Connection[Any], tmp_path: Path
) -> None:
    handle = await app.kill_the_child.using(resources=["key"], retry=1).aenqueue(str(tmp_path / "file"))
    job = await run_one(shop, handle)

    assert job.state is JobState.DEAD
    assert "SIGKILL" in (job.error_message or "")
    assert holds(conn) == []


async def test_a_reschedule_that_cannot_be_made_is_logged_and_counted(
    hf: Holdfast,
    conn: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Somebody takes the job while the worker learns that its resource is busy."""
    ask = Store.acquire_resources

    async def ask_and_lose(self: Store, job_id: str, keys: Sequence[str], *, lease_id: str) -> list[str]:
        busy = await ask(self, job_id, keys, lease_id=lease_id)
        conn.execute("select holdfast.release_job(%s)", [job_id])
        conn.execute("select * from holdfast.claim_jobs('thief', array['default'])")
        return busy

    monkeypatch.setattr(Store, "acquire_resources", ask_and_lose)

    @hf.task(name="print", resources=["printer"])
    async def printing() -> None: ...

    occupy(conn, "printer")
    handle = await printing.aenqueue()
    async with at_work(hf, {"default": 1}) as worker:
        await until(lambda: events(caplog, "job.lost"))
        await until(lambda: worker.running == 0)

    job = await handle.ainfo()
    assert (job.state, job.assignee_id) == (JobState.RUNNING, "thief")
    assert {record.__dict__["job_id"] for record in events(caplog, "job.lost")} == {handle.job_id}
    assert hf.metrics.snapshot()["jobs.lost"] >= 1


async def test_an_empty_list_of_resources_takes_none(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*args: object, **options: object) -> list[str]:
        raise AssertionError("nothing was to be asked")

    monkeypatch.setattr(Store, "acquire_resources", fail)

    @hf.task(name="free", resources=[])
    async def free() -> str:
        return "ran"

    job = await run_one(hf, await free.aenqueue())

    assert job.result == "ran"
