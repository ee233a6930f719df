"""A worker that stops: nothing more is claimed, what runs may finish, and what does not is handed back."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, JobContext, Retry
from holdfast.domain.states import JobState
from holdfast.worker import crew, stopping
from holdfast.worker.children.pool import REAP_WITHIN_S
from holdfast.worker.program import IN_TIME_S
from tests.queue.proxy import proxied
from tests.store.servers import OwnServer
from tests.worker import app
from tests.worker.hands import PATIENCE_S, at_work, events, happens, in_thread, until

pytestmark = pytest.mark.anyio

CLAIMS_THAT_WAIT = (
    "select count(*) from pg_locks where not granted and relation = 'holdfast.queues'::regclass"
)


async def stopped(worker: Any) -> float:
    """Leave the worker; how long it took."""
    began = monotonic()
    await worker.__aexit__(None, None, None)
    return monotonic() - began


async def test_a_stop_claims_nothing_more_and_lets_running_jobs_finish(
    hf: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    began, told = asyncio.Event(), threading.Event()
    seen: list[bool] = []

    @hf.task(name="on_loop", context=True)
    async def on_loop(context: JobContext) -> str:
        seen.append(context.shutting_down())
        began.set()
        await until(context.shutting_down)
        told.set()
        await asyncio.sleep(0.3)
        assert not context.cancelled()
        return "finished"

    @hf.task(name="in_thread", context=True)
    def in_a_thread(context: JobContext) -> str:
        assert told.wait(PATIENCE_S)
        assert context.shutting_down()
        return "finished"

    @hf.task(name="late")
    async def late() -> None:
        seen.append(True)

    handles = [await on_loop.aenqueue(), await in_a_thread.aenqueue()]
    worker = hf.worker({"default": 10}, shutdown_timeout=PATIENCE_S)
    async with worker:
        await happens(began)
        worker.stop()
        after = await late.aenqueue()

    assert seen == [False]
    assert [await handle.aresult(1) for handle in handles] == ["finished", "finished"]
    # A claim that was on its way when the stop came may have brought it: then it went back.
    assert await after.astate() in (JobState.INITIAL_PENDING, JobState.RESCHEDULED)
    assert worker.settled
    assert [len(events(caplog, event)) for event in ("worker.started", "worker.stopped")] == [1, 1]
    lines = [record.getMessage() for record in events(caplog, "worker.stopping")]
    assert any("jobs still run" in line for line in lines), lines


async def test_a_job_claimed_and_not_begun_goes_back_without_an_attempt(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    """The stop comes while the database is busy with the claim, whose answer comes too late to begin."""

    @hf.task(name="next")
    async def following() -> None: ...

    waiting = [await following.aenqueue(), await following.aenqueue()]
    worker = hf.worker({"default": 3})
    with conn.transaction():
        conn.execute("lock table holdfast.queues in access exclusive mode")
        await worker.start()
        await until(lambda: conn.execute(CLAIMS_THAT_WAIT).fetchone() == (1,))
        worker.stop()
    await stopped(worker)

    for handle in waiting:
        job = await handle.ainfo()
        assert (job.state, job.attempts) == (JobState.RESCHEDULED, 0)


async def test_at_the_timeout_handlers_are_told_and_those_that_give_way_are_handed_back(
    hf: Holdfast, shop: Holdfast, conn: psycopg.Connection[Any], tmp_path: Path
) -> None:
    began = [threading.Event(), threading.Event()]

    @app.hf.task(name=f"{tmp_path}.loop")
    async def on_loop() -> None:
        began[0].set()
        await asyncio.sleep(PATIENCE_S * 3)

    @app.hf.task(name=f"{tmp_path}.thread", context=True)
    def in_a_thread(context: JobContext) -> None:
        began[1].set()
        while True:
            context.check_cancelled()
            threading.Event().wait(0.01)

    file = tmp_path / "process"
    handles = [
        await on_loop.aenqueue(),
        await in_a_thread.aenqueue(),
        await app.linger_in_process.aenqueue(str(file), 600),
    ]
    worker = shop.worker({"default": 10}, shutdown_timeout=0.5)
    await worker.__aenter__()
    for event in began:
        await in_thread(event.wait)
    await until(lambda: is_written(file))
    took_s = await stopped(worker)

    assert worker.settled
    assert 0.5 <= took_s < 0.5 + 5
    for handle in handles:
        job = await handle.ainfo()
        assert (job.state, job.attempts, job.error_message) == (JobState.RESCHEDULED, 0, None)
    reasons = conn.execute("select input_data ->> 'reason' from holdfast.jobs_trace").fetchall()
    assert reasons == [("shutdown",)] * 3


async def test_handlers_that_do_not_give_way_are_handed_back_after_a_second_and_what_they_say_does_not_count(
    hf: Holdfast,
) -> None:
    began, may_end = threading.Event(), threading.Event()

    @hf.task(name="deaf")
    def deaf() -> str:
        began.set()
        assert may_end.wait(PATIENCE_S)
        return "too late"

    handle = await deaf.aenqueue()
    worker = hf.worker({"default": 1}, shutdown_timeout=0.2)
    await worker.__aenter__()
    await in_thread(began.wait)
    took_s = await stopped(worker)
    may_end.set()

    assert 1.2 <= took_s < 1.2 + 4
    job = await handle.ainfo()
    assert (job.state, job.attempts, job.result) == (JobState.RESCHEDULED, 0, None)


async def test_what_a_handler_finishes_in_its_last_second_counts(hf: Holdfast) -> None:
    began = asyncio.Event()

    @hf.task(name="quick")
    async def quick() -> str:
        began.set()
        try:
            await asyncio.sleep(PATIENCE_S * 3)
        except asyncio.CancelledError:
            return "just in time"
        return "never"

    handle = await quick.aenqueue()
    worker = hf.worker({"default": 1}, shutdown_timeout=0.1)
    await worker.__aenter__()
    await happens(began)
    await stopped(worker)

    assert await handle.aresult(1) == "just in time"


async def test_a_job_that_was_timed_out_and_does_not_end_is_failed_and_not_handed_back(hf: Holdfast) -> None:
    told, may_end = threading.Event(), threading.Event()

    @hf.task(name="deaf", timeout=0.1, context=True)
    def deaf(context: JobContext) -> None:
        while not context.cancelled():
            threading.Event().wait(0.01)
        told.set()
        may_end.wait(PATIENCE_S)

    handle = await deaf.aenqueue()
    worker = hf.worker({"default": 1}, shutdown_timeout=0)
    await worker.__aenter__()
    await in_thread(told.wait)
    await stopped(worker)
    may_end.set()

    job = await handle.ainfo()
    assert (job.state, job.attempts) == (JobState.FAILED_RETRY, 1)
    assert "timed out after 0.1 s" in (job.error_message or "")


async def test_a_job_that_is_being_cancelled_and_does_not_stop_is_left_to_lapse(hf: Holdfast) -> None:
    told, may_end = threading.Event(), threading.Event()

    @hf.task(name="deaf", context=True)
    def deaf(context: JobContext) -> None:
        while not context.cancelled():
            threading.Event().wait(0.01)
        told.set()
        may_end.wait(PATIENCE_S)

    handle = await deaf.aenqueue()
    worker = hf.worker({"default": 1}, shutdown_timeout=0, lease=3)
    await worker.__aenter__()
    await until(lambda: worker.running)
    await handle.acancel()
    await in_thread(told.wait)
    await stopped(worker)
    may_end.set()

    assert await handle.astate() is JobState.CANCELLING
    async with at_work(hf, {"other": 1}, lease=3, poll_idle=0.2):
        await until(lambda: hf.jobs.get(handle.job_id).job.state is JobState.UNKNOWN_STOPPED)


async def test_a_second_stop_hurries(hf: Holdfast) -> None:
    began = asyncio.Event()

    @hf.task(name="long")
    async def long() -> None:
        began.set()
        await asyncio.sleep(PATIENCE_S * 3)

    handle = await long.aenqueue()
    worker = hf.worker({"default": 1}, shutdown_timeout=PATIENCE_S * 2)
    run = asyncio.create_task(worker.run())
    await happens(began)
    worker.stop()
    await asyncio.sleep(0.1)
    assert not run.done()
    hurried_at = monotonic()
    worker.stop()
    async with asyncio.timeout(PATIENCE_S):
        await run

    assert monotonic() - hurried_at < 5
    assert worker.settled
    assert await handle.astate() is JobState.RESCHEDULED


async def test_a_worker_ends_in_time_with_the_database_gone_and_says_that_it_could_not_settle(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    began, go_on = asyncio.Event(), asyncio.Event()
    with proxied(database) as proxy:
        hf = Holdfast(proxy.dsn)

        @hf.task(name="job")
        async def job() -> None:
            began.set()
            await happens(go_on)

        handle = await job.aenqueue()
        worker = hf.worker({"default": 1}, shutdown_timeout=0.5)
        await worker.__aenter__()
        await happens(began)
        proxy.close()
        go_on.set()
        took_s = await stopped(worker)
        await hf.aclose()

    print(f"stopped {took_s - 0.5:.2f} s after the timeout, with the database gone")
    assert not worker.settled
    assert took_s < 0.5 + 5
    assert conn.execute("select state::text from holdfast.jobs").fetchall() == [("RUNNING",)]
    assert handle.job_id


async def test_a_worker_ends_by_itself_with_a_database_and_a_handler_that_do_not_answer(
    open_directory: Path,
) -> None:
    """Progress is being written when the server falls silent. Whoever is too late is ended by the program."""
    server = OwnServer(open_directory / "pg")
    hf = Holdfast(server.dsn)
    began, has_begun, may_end = asyncio.Event(), threading.Event(), threading.Event()

    @hf.task(name="talk", context=True)
    async def talk(context: JobContext) -> None:
        for step in range(10**6):
            context.progress(step)
            began.set()
            await asyncio.sleep(0.01)

    @hf.task(name="deaf")
    def deaf() -> None:
        has_begun.set()
        assert may_end.wait(PATIENCE_S)

    await deaf.aenqueue()
    await talk.aenqueue()
    pids: list[int] = []
    worker = hf.worker({"default": 5}, shutdown_timeout=0.5, lease=30)
    await worker.__aenter__()
    try:
        await happens(began)
        await in_thread(has_begun.wait)
        pids = server.pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(1.5)
        took_s = await stopped(worker)
        closing = monotonic()
        await hf.aclose()
        print(
            f"stopped {took_s - 0.5:.2f} s after the timeout, with a silent database; "
            f"the app closed in {monotonic() - closing:.2f} s"
        )
    finally:
        may_end.set()
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        server.stop()

    assert not worker.settled
    assert took_s < 0.5 + IN_TIME_S


def test_all_that_a_stop_waits_for_fits_into_the_time_it_has() -> None:
    """Else a worker that could stop in order, only slowly, would be ended by the program."""
    closing = 2 * crew.MARGIN_S + crew.LAST_TASKS_S
    assert stopping.END_S + closing + 0.2 < IN_TIME_S
    assert stopping.GRACE_S + 2 * stopping.KILL_S + REAP_WITHIN_S + 0.5 < stopping.END_S


async def test_an_outcome_is_not_forgotten_while_the_last_progress_is_written(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    began = asyncio.Event()

    @hf.task(name="busy", context=True)
    async def busy(context: JobContext) -> str:
        began.set()
        await until(context.shutting_down)
        context.progress(1, 1)
        return "finished"

    handle = await busy.aenqueue()
    worker = hf.worker({"default": 1}, shutdown_timeout=PATIENCE_S)
    await worker.__aenter__()
    await happens(began)
    with conn.transaction():
        conn.execute("select from holdfast.jobs for update")  # progress has to wait
        ending = asyncio.create_task(stopped(worker))
        await asyncio.sleep(0.5)
    await ending

    assert await handle.aresult(1) == "finished"


async def test_draining_a_worker_that_is_stopped_meanwhile_does_not_wait_for_ever(hf: Holdfast) -> None:
    from holdfast.errors import QueueClosed

    began, may_end = threading.Event(), threading.Event()

    @hf.task(name="deaf", retry=Retry(1))
    def deaf() -> None:
        began.set()
        may_end.wait(PATIENCE_S)

    await deaf.aenqueue()
    worker = hf.worker({"default": 1}, shutdown_timeout=0)
    await worker.__aenter__()
    await in_thread(began.wait)
    draining = asyncio.create_task(worker.drain())
    await stopped(worker)
    may_end.set()

    with pytest.raises(QueueClosed):
        async with asyncio.timeout(PATIENCE_S):
            await draining


async def test_a_handler_in_a_process_learns_that_its_worker_stops(shop: Holdfast, tmp_path: Path) -> None:
    handle = await app.wait_for_shutdown.aenqueue(str(tmp_path / "file"))
    worker = shop.worker({"default": 1}, shutdown_timeout=PATIENCE_S)
    await worker.__aenter__()
    await until(lambda: is_written(tmp_path / "file"))
    await stopped(worker)

    assert await handle.aresult(1) == "saw it"


def is_written(file: Path) -> bool:
    """Whether a handler has written into a file; it is there a moment before."""
    return file.exists() and file.stat().st_size > 0


async def test_a_process_that_does_not_give_way_is_dead_before_its_job_is_handed_back(
    shop: Holdfast, tmp_path: Path
) -> None:
    """Another worker may begin the job at once, and must not meet the old run."""
    file = tmp_path / "file"
    handle = await app.stubborn.aenqueue(str(file))
    worker = shop.worker({"default": 1}, shutdown_timeout=0, kill_after=PATIENCE_S)
    await worker.__aenter__()
    await until(lambda: is_written(file))
    pid = int(file.read_text().split()[1])
    await stopped(worker)

    job = await handle.ainfo()
    assert (job.state, job.attempts) == (JobState.RESCHEDULED, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
