"""Whatever a handler does, its job ends as it should and its worker goes on."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast, JobContext, PermanentError, Retry, RetryAfter, Snooze
from holdfast.domain.states import JobState
from tests.worker.hands import at_work, drained, events, run_one

pytestmark = pytest.mark.anyio


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Vicious(Exception):
    def __str__(self) -> str:
        raise KeyboardInterrupt


def deep(depth: int) -> int:
    return deep(depth + 1) + 1


def blow_up(how: str) -> None:
    match how:
        case "ValueError":
            raise ValueError("plain \x00 text \ud800")
        case "SystemExit":
            raise SystemExit(3)
        case "KeyboardInterrupt":
            raise KeyboardInterrupt
        case "CancelledError":
            raise asyncio.CancelledError
        case "GeneratorExit":
            raise GeneratorExit
        case "RecursionError":
            deep(0)
        case "Unprintable":
            raise Unprintable
        case "Vicious":
            raise Vicious
        case "ExceptionGroup":
            raise ExceptionGroup("several", [ValueError("one"), KeyError("two")])
        case _:
            raise AssertionError(how)


KINDS = [
    "ValueError",
    "SystemExit",
    "KeyboardInterrupt",
    "CancelledError",
    "GeneratorExit",
    "RecursionError",
    "Unprintable",
    "Vicious",
    "ExceptionGroup",
]


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_handler_that_blows_up_fails_its_job_with_a_traceback_and_the_worker_goes_on(
    hf: Holdfast, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def on_loop(how: str) -> None:
        await asyncio.sleep(0)
        blow_up(how)

    blow: Any = hf.task(name="blow")(on_loop if place == "loop" else blow_up)

    @hf.task(name="fine")
    async def fine() -> str:
        return "still here"

    handles = {how: await blow.aenqueue(how) for how in KINDS}
    async with at_work(hf, {"default": 2}) as worker:
        await drained(worker)
        last = await fine.aenqueue()
        assert await last.aresult(30) == "still here"

    for how, handle in handles.items():
        job = await handle.ainfo()
        assert job.state is JobState.FAILED_RETRY, how
        assert job.attempts == 1
        assert job.error_message is not None
        assert job.error_message.startswith(how)
        assert "blow_up" in (job.errors[0].traceback or ""), how
    assert {record.__dict__["job_id"] for record in events(caplog, "job.failed")} == {
        handle.job_id for handle in handles.values()
    }


async def test_a_handler_that_cancels_its_own_task_and_returns_is_completed_all_the_same(
    hf: Holdfast,
) -> None:
    @hf.task(name="odd", context=True)
    async def odd(context: JobContext) -> str:
        context.progress(1)
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "done"

    job = await run_one(hf, await odd.aenqueue())

    assert (job.state, job.result) == (JobState.COMPLETED, "done")


async def test_an_unknown_task_fails_by_the_default_policy_and_names_those_the_worker_knows(
    hf: Holdfast, database: str
) -> None:
    other = Holdfast(database)

    @other.task(name="mail.send")
    def send() -> None: ...

    @hf.task(name="billing.charge")
    def charge() -> None: ...

    handle = await send.aenqueue()
    await other.aclose()

    job = await run_one(hf, handle)

    assert job.state is JobState.FAILED_RETRY
    assert job.attempts == 1
    assert 'asks for task "mail.send"' in (job.error_message or "")
    assert "billing.charge" in (job.error_message or "")
    wait = job.available_at - (job.last_retry_at or job.created_at)
    assert timedelta(seconds=15 * 0.74) < wait < timedelta(seconds=15 * 1.26)


async def test_an_unknown_task_with_a_policy_of_its_own_is_judged_by_that(
    hf: Holdfast, conn: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    conn.execute(
        "select holdfast.submit_job('lost', 'sql', 'default', p_task => 'nobody.knows', p_max_attempts => 1)"
    )

    job = await run_one(hf, hf.jobs.get("lost"))

    assert job.state is JobState.DEAD
    assert [record.__dict__["job_id"] for record in events(caplog, "job.dead")] == ["lost"]


async def test_a_job_without_a_task_fails_and_says_so(hf: Holdfast, conn: psycopg.Connection[Any]) -> None:
    conn.execute("select holdfast.submit_job('bare', 'sql', 'default')")

    job = await run_one(hf, hf.jobs.get("bare"))

    assert job.state is JobState.FAILED_RETRY
    assert (job.error_message or "").startswith("UnknownTask: job bare names no task")
    assert "None" not in (job.error_message or "")


async def test_arguments_that_do_not_fit_fail_the_job_and_say_which(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    @hf.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    for job_id, payload in {
        "type": '{"args": ["x", 2]}',
        "missing": '{"args": [1]}',
        "shape": '{"a": 1, "b": 2}',
        "fine": '{"args": [1], "kwargs": {"b": 2}}',
    }.items():
        conn.execute(
            "select holdfast.submit_job(%s, 'sql', 'default', p_task => 'add', p_payload => %s::jsonb)",
            [job_id, payload],
        )

    await run_one(hf, hf.jobs.get("fine"))

    messages = {job_id: hf.jobs.get(job_id).job for job_id in ("type", "missing", "shape")}
    assert {job.state for job in messages.values()} == {JobState.FAILED_RETRY}
    assert {job.attempts for job in messages.values()} == {1}
    assert 'argument "a" of task add' in (messages["type"].error_message or "")
    assert "missing a required argument: 'b'" in (messages["missing"].error_message or "")
    assert '{"args": [...], "kwargs": {...}}' in (messages["shape"].error_message or "")
    assert hf.jobs.get("fine").job.result == 3


class Fighting:
    """A result that raises when it is looked at."""

    def __iter__(self) -> Any:
        raise ZeroDivisionError("not with me")

    def __getattribute__(self, name: str) -> Any:
        raise ZeroDivisionError("not with me")


@pytest.mark.parametrize("place", ["loop", "thread"])
async def test_a_result_that_cannot_be_stored_is_a_permanent_failure_naming_its_type(
    hf: Holdfast, place: str
) -> None:
    results: dict[str, object] = {
        "lock": threading.Lock(),
        "object": object(),
        "Fighting": Fighting(),
        "type": Fighting,
    }

    def give(which: str) -> Any:
        return results[which]

    async def agive(which: str) -> Any:
        return results[which]

    task = hf.task(name="give")(agive if place == "loop" else give)
    handles = {which: await task.aenqueue(which) for which in results}
    async with at_work(hf) as worker:
        await drained(worker)

    for which, handle in handles.items():
        job = await handle.ainfo()
        assert job.state is JobState.DEAD, which
        assert job.attempts == 1
        assert which in (job.error_message or ""), job.error_message


async def test_results_come_back_as_they_were_given_bytes_and_big_ones_too(hf: Holdfast) -> None:
    big = {"rows": [[number, "x" * 100] for number in range(4000)]}
    many = bytes(range(256)) * 4000

    @hf.task(name="json")
    async def json_result() -> dict[str, Any]:
        return big

    @hf.task(name="bytes")
    def bytes_result() -> bytes:
        return many

    @hf.task(name="odd")
    def odd_result() -> str:
        return "a\x00b"

    handles = [await json_result.aenqueue(), await bytes_result.aenqueue(), await odd_result.aenqueue()]
    async with at_work(hf) as worker:
        await drained(worker)

    assert await handles[0].aresult(30) == big
    assert await handles[1].aresult(30) == many
    assert await handles[2].astate() is JobState.COMPLETED


async def test_a_retry_after_counts_an_attempt_and_is_due_exactly_when_it_says(hf: Holdfast) -> None:
    @hf.task(name="later")
    def later() -> None:
        raise RetryAfter(123.5, "the server asks for it")

    job = await run_one(hf, await later.aenqueue())

    assert (job.state, job.attempts) == (JobState.FAILED_RETRY, 1)
    assert job.available_at - (job.last_retry_at or job.created_at) == timedelta(seconds=123.5)


async def test_a_snooze_costs_no_attempt_and_is_due_exactly_when_it_says(
    hf: Holdfast, conn: psycopg.Connection[Any], caplog: pytest.LogCaptureFixture
) -> None:
    @hf.task(name="not-now")
    async def not_now() -> None:
        raise Snooze(60, "closed on Sundays")

    job = await run_one(hf, await not_now.aenqueue())

    assert (job.state, job.attempts, job.error_message) == (JobState.RESCHEDULED, 0, None)
    traced = conn.execute(
        "select event_at, input_data ->> 'reason' from holdfast.jobs_trace "
        "where event_type = 'reschedule_job'"
    ).fetchone()
    assert traced is not None
    assert abs(job.available_at - traced[0] - timedelta(seconds=60)) < timedelta(seconds=1)
    assert traced[1].startswith("snooze")
    assert [record.__dict__["reason"] for record in events(caplog, "job.rescheduled")] == ["snooze"]
    assert hf.metrics.snapshot()["jobs.rescheduled.snooze"] == 1


async def test_a_permanent_error_skips_the_retries(hf: Holdfast, caplog: pytest.LogCaptureFixture) -> None:
    @hf.task(name="never", retry=5)
    def never() -> None:
        raise PermanentError("no such customer")

    job = await run_one(hf, await never.aenqueue())

    assert (job.state, job.attempts) == (JobState.DEAD, 1)
    assert job.error_message == "PermanentError: no such customer"
    assert len(events(caplog, "job.dead")) == 1


async def test_max_retries_exceeded_moves_the_job_to_dead_with_its_errors_kept(hf: Holdfast) -> None:
    runs: list[int] = []

    @hf.task(name="flaky", context=True, retry=Retry(3, base=0.001, jitter=0))
    async def flaky(context: Any) -> None:
        runs.append(context.attempt)
        raise ValueError(f"no. {context.attempt}")

    handle = await flaky.aenqueue()
    async with at_work(hf, poll_idle=0.05) as worker:
        while await handle.astate() is not JobState.DEAD:
            await drained(worker)

    job = await handle.ainfo()
    assert runs == [1, 2, 3]
    assert job.attempts == 3
    assert job.finalized_at is not None
    assert [error.message for error in job.errors] == [f"ValueError: no. {n}" for n in (1, 2, 3)]
    assert [found.job_id for found in await hf.jobs.alist(state="DEAD", queue="default")] == [handle.job_id]
    await hf.jobs.arevive(handle.job_id)
    assert (await handle.ainfo()).attempts == 0


async def test_failed_jobs_are_retried_each_time_later_within_the_jitter(hf: Holdfast) -> None:
    @hf.task(name="grow", retry=Retry(10, base=100, multiplier=3, jitter=0.25))
    async def grow() -> None:
        raise ValueError

    handles = [await grow.aenqueue() for _ in range(40)]
    async with at_work(hf) as worker:
        await drained(worker)

    waits = [
        (job.available_at - (job.last_retry_at or job.created_at)).total_seconds()
        for job in [await handle.ainfo() for handle in handles]
    ]
    assert all(75 <= wait <= 125 for wait in waits)
    assert max(waits) - min(waits) > 10, "no jitter: forty failures would come back at once"


async def test_the_policy_stored_with_a_job_wins_over_the_tasks_own(hf: Holdfast) -> None:
    @hf.task(name="picky", retry=Retry(9, base=1000, jitter=0))
    async def picky() -> None:
        raise ValueError

    handle = await picky.using(retry=Retry(5, base=7, jitter=0)).aenqueue()

    job = await run_one(hf, handle)

    assert job.max_attempts == 5
    assert job.available_at - (job.last_retry_at or job.created_at) == timedelta(seconds=7)


async def test_a_stored_policy_that_no_policy_can_be_does_not_stop_the_job(
    hf: Holdfast, conn: psycopg.Connection[Any]
) -> None:
    @hf.task(name="odd", retry=Retry(9, base=50, jitter=0))
    async def odd() -> None:
        raise ValueError

    conn.execute(
        "select holdfast.submit_job('odd', 'sql', 'default', p_task => 'odd', p_retry => %s::jsonb)",
        ['{"base": "soon"}'],
    )

    job = await run_one(hf, hf.jobs.get("odd"))

    assert job.state is JobState.FAILED_RETRY
    assert job.available_at - (job.last_retry_at or job.created_at) == timedelta(seconds=50)
