"""Calls that type checkers must accept, with the types they must see. Checked, never run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_type

from holdfast import (
    Holdfast,
    JobContext,
    JobHandle,
    JobSpec,
    PermanentError,
    Retry,
    RetryAfter,
    current_job,
)

hf = Holdfast()


@hf.task
async def fetch(url: str, *, depth: int = 1) -> bytes:
    return b""


@hf.task(queue="mail", retry=Retry(5, base=30), resources=["smtp"], timeout=30)
def send_email(to: str, subject: str) -> int:
    ctx = current_job()
    ctx.progress(1, 2)
    if ctx.cancelled():
        raise PermanentError("stop")
    raise RetryAfter(timedelta(seconds=30))


@hf.task(context=True, run_in="process")
def crunch(ctx: JobContext, n: int) -> float:
    ctx.check_cancelled()
    return float(n)


@hf.task(context=True, name="other", aliases=["old"], tags=["x"], singleton_key="k", priority=3)
async def acrunch(ctx: JobContext, n: int) -> list[str]:
    return []


@hf.task()
async def nothing() -> None: ...


def blocking(session: object, parent: JobHandle[Any]) -> None:
    assert_type(send_email.enqueue("a@b.c", subject="hi"), JobHandle[int])
    assert_type(send_email.enqueue("a@b.c", "hi").result(timeout=5), int)
    assert_type(send_email("a@b.c", "hi"), int)
    assert_type(crunch(3), float)
    assert_type(crunch.enqueue(n=3), JobHandle[float])
    with hf.transaction(session):
        send_email.enqueue("a@b.c", "hi")
    later = send_email.using(
        queue="bulk",
        priority=-5,
        delay=60,
        expires=timedelta(hours=1),
        wait_for=[parent, "j1"],
        if_parent_fails="run",
        timeout=3,
        retry=3,
        resources=["a"],
        singleton_key="x",
        tags=["eu"],
        job_id="mine",
        conn=session,
    )
    assert_type(later.enqueue("a", "b"), JobHandle[int])
    assert_type(later.job("a", "b"), JobSpec[int])
    assert_type(hf.enqueue_many(send_email.job(f"u{i}", "hi") for i in range(10)), list[JobHandle[int]])
    assert_type(hf.enqueue_many([send_email.job("x", "y")], returning=False), int)
    assert_type(fetch.enqueue("https://x"), JobHandle[bytes])
    hf.jobs.list(state="DEAD", task=send_email, limit=50)
    hf.resources["smtp"].capacity = 2
    assert_type(hf.metrics.snapshot(), dict[str, float])


async def awaiting(session: object) -> None:
    handle = await fetch.aenqueue("https://x", depth=2)
    assert_type(handle, JobHandle[bytes])
    assert_type(await handle.aresult(timeout=10), bytes)
    assert_type(await handle, bytes)
    assert_type(await fetch("https://x"), bytes)
    assert_type(await acrunch.using(queue="q").aenqueue(1), JobHandle[list[str]])
    assert_type(await nothing.aenqueue(), JobHandle[None])
    assert_type(await hf.aenqueue_many([fetch.job("x")]), list[JobHandle[bytes]])
    assert_type(await hf.aenqueue_many([fetch.job("x")], returning=False), int)
    async with hf.transaction(session):
        await fetch.aenqueue("x")
    await handle.acancel(reason="user", wait=5)
