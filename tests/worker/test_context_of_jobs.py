"""What handlers are told about their job, and what they can say."""

from __future__ import annotations

import asyncio
import logging
import threading
from datetime import datetime
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, JobContext, Retry, current_job
from holdfast.domain.states import JobState
from holdfast.errors import NoCurrentJob
from tests.worker import app
from tests.worker.hands import PATIENCE_S, at_work, drained, events, happens, run_one, until

pytestmark = pytest.mark.anyio


async def test_handlers_on_the_loop_and_in_threads_know_their_job(hf: Holdfast) -> None:
    seen: dict[str, JobContext] = {}

    @hf.task(name="loop", context=True, tags=["a", "b"])
    async def on_loop(context: JobContext) -> None:
        await asyncio.sleep(0)
        seen["loop"] = context
        assert current_job() is context

    @hf.task(name="thread", context=True, tags=["a", "b"])
    def in_thread(context: JobContext) -> None:
        seen["thread"] = context
        assert current_job() is context

    handles = {"loop": await on_loop.aenqueue(), "thread": await in_thread.aenqueue()}
    async with at_work(hf) as worker:
        await drained(worker)

    for place, handle in handles.items():
        assert await handle.astate() is JobState.COMPLETED
        context = seen[place]
        assert (context.job_id, context.attempt, tuple(context.tags)) == (handle.job_id, 1, ("a", "b"))
        assert (context.cancelled(), context.deadline) == (False, None)
    with pytest.raises(NoCurrentJob):
        current_job()


async def test_a_handler_in_a_process_knows_its_job_too(
    shop: Holdfast, caplog: pytest.LogCaptureFixture
) -> None:
    handle = await app.describe.using(timeout=60).aenqueue()
    other = await app.describe_async.aenqueue()

    await run_one(shop, handle)

    told = await handle.aresult(1)
    assert told["job_id"] == handle.job_id
    assert (told["attempt"], told["tags"], told["cancelled"], told["shutting_down"]) == (
        1,
        ["a", "b"],
        False,
        False,
    )
    assert datetime.fromisoformat(told["deadline"])
    assert await other.aresult(1) == other.job_id
    (line,) = events(caplog, "job.log")
    assert (line.getMessage(), line.__dict__["job_id"], line.__dict__["fields"]) == (
        "hello",
        handle.job_id,
        {"colour": "blue"},
    )


@pytest.mark.parametrize("kind", ["bytes", "json", "none"])
async def test_results_of_processes_come_back_as_they_were_given(shop: Holdfast, kind: str) -> None:
    handle = await app.give.aenqueue(kind)

    await run_one(shop, handle)

    assert await handle.aresult(1) == app.give.fn(kind)


async def test_what_cannot_be_stored_ends_in_a_process_as_it_does_in_a_thread(shop: Holdfast) -> None:
    handles = {
        kind: (await app.give_odd_in_thread.aenqueue(kind), await app.give_odd.aenqueue(kind))
        for kind in app.ODD
    }

    async with at_work(shop) as worker:
        await drained(worker)

    for kind, pair in handles.items():
        in_thread, in_process = [await handle.ainfo() for handle in pair]
        ends = JobState.DEAD if kind in ("object", "objects", "hostile") else JobState.COMPLETED
        assert in_thread.state is in_process.state is ends, (kind, in_process.error_message)
        assert in_process.result == in_thread.result, kind
        said = in_thread.error_message and in_thread.error_message.replace("give_odd_in_thread", "give_odd")
        assert in_process.error_message == said, kind
        assert [error.traceback for error in in_process.errors] == [
            error.traceback for error in in_thread.errors
        ]


async def test_how_a_handler_in_a_process_ends_is_judged_as_anywhere(shop: Holdfast) -> None:
    handles = {
        kind: await app.blow.aenqueue(kind)
        for kind in ("retry_after", "snooze", "permanent", "exit", "plain")
    }
    unstorable = await app.give.aenqueue("object")

    await run_one(shop, unstorable)

    jobs = {kind: await handle.ainfo() for kind, handle in handles.items()}
    assert {kind: (job.state, job.attempts) for kind, job in jobs.items()} == {
        "retry_after": (JobState.FAILED_RETRY, 1),
        "snooze": (JobState.RESCHEDULED, 0),
        "permanent": (JobState.DEAD, 1),
        "exit": (JobState.FAILED_RETRY, 1),
        "plain": (JobState.FAILED_RETRY, 1),
    }
    assert jobs["plain"].error_message == "ValueError: plain"
    assert "in blow" in (jobs["plain"].errors[0].traceback or "")
    job = await unstorable.ainfo()
    assert (job.state, job.attempts) == (JobState.DEAD, 1)
    assert "object" in (job.error_message or "")


async def test_attempt_is_one_more_than_the_failures_counted(hf: Holdfast) -> None:
    attempts: list[int] = []

    @hf.task(name="third", context=True, retry=Retry(5, base=0.001))
    async def third(context: JobContext) -> None:
        attempts.append(context.attempt)
        if context.attempt < 3:
            raise ValueError

    handle = await third.aenqueue()
    async with at_work(hf, poll_idle=0.05):
        await handle.aresult(PATIENCE_S)

    assert attempts == [1, 2, 3]


async def test_progress_is_written_at_most_once_a_second_and_the_last_value_always(
    hf: Holdfast, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.store import Store

    written: list[float] = []
    write = Store.report_progress

    async def count(self: Store, job_id: str, lease_id: str, done: float, *rest: Any, **options: Any) -> Any:
        written.append(done)
        return await write(self, job_id, lease_id, done, *rest, **options)

    monkeypatch.setattr(Store, "report_progress", count)
    first, go_on = threading.Event(), threading.Event()

    @hf.task(name="steps", context=True)
    def steps(context: JobContext) -> None:
        for step in range(1, 201):
            context.progress(step, 250, f"step {step}")
            threading.Event().wait(0.01)
            if step == 150:
                first.set()
                assert go_on.wait(PATIENCE_S)
        context.progress(201, 250, "last")
        raise ValueError("so that the job stays where progress can be seen")

    handle = await steps.aenqueue()
    async with at_work(hf) as worker:
        assert await asyncio.to_thread(first.wait, PATIENCE_S)
        await until(lambda: (hf.jobs.get(handle.job_id).progress()) is not None)
        go_on.set()
        await drained(worker)

    progress = await handle.aprogress()
    assert progress is not None
    assert (progress.done, progress.total, progress.message) == (201, 250, "last")
    assert written[-1] == 201
    assert written == sorted(written)
    assert 2 <= len(written) <= 6, written


async def test_the_last_word_does_not_overtake_the_one_before(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    """The first word is still on its way, behind a lock, when the last is said."""
    said, go_on = asyncio.Event(), asyncio.Event()

    @hf.task(name="two", context=True)
    async def two(context: JobContext) -> None:
        context.progress(1)
        said.set()
        await happens(go_on)
        context.progress(2)
        raise ValueError("so that the job stays")

    handle = await two.aenqueue()
    async with at_work(hf) as worker:
        with conn.transaction():
            await until(lambda: worker.running)
            conn.execute("select from holdfast.jobs for update")
            await happens(said)
            await asyncio.sleep(0.2)
            go_on.set()
            await asyncio.sleep(0.2)
        await drained(worker)

    progress = await handle.aprogress()
    assert progress is not None
    assert progress.done == 2


async def test_a_line_of_a_handler_names_its_job(hf: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    @hf.task(name="talk", context=True)
    async def talk(context: JobContext) -> None:
        context.log("100 % of it", size=3)

    handle = await talk.aenqueue()
    await run_one(hf, handle)

    (line,) = events(caplog, "job.log")
    assert line.getMessage() == "100 % of it"
    assert line.levelno == logging.INFO
    assert {name: line.__dict__[name] for name in ("job_id", "task", "queue", "attempt", "fields")} == {
        "job_id": handle.job_id,
        "task": "talk",
        "queue": "default",
        "attempt": 1,
        "fields": {"size": 3},
    }


async def test_a_process_that_could_not_find_the_app_is_not_started_and_the_job_says_why(
    hf: Holdfast,
) -> None:
    homeless: Any = hf.task(name="homeless", run_in="process")(app.give.fn)

    job = await run_one(hf, await homeless.aenqueue("none"))

    assert (job.state, job.attempts) == (JobState.FAILED_RETRY, 1)
    assert "must find its app in a module" in (job.error_message or "")
