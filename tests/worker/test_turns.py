"""Coroutines that share a task do not notice: who waits, cancels or sets a variable does it for itself."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.worker.turns import in_turn
from tests.worker.hands import at_work, drained

pytestmark = pytest.mark.anyio

Work = Callable[[], Coroutine[Any, Any, None]]

colour = contextvars.ContextVar("colour", default="none")


async def ends_at_once() -> None:
    pass


async def run(*works: Work) -> None:
    """Run them in turn, and all that this brings about."""
    tasks: set[asyncio.Task[None]] = set()

    def new_task(work: Coroutine[Any, Any, None]) -> None:
        tasks.add(asyncio.create_task(work))

    new_task(in_turn([work() for work in works], new_task))
    while any(not task.done() for task in tasks):
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():  # one that was cancelled after its work had ended is nobody's business
            task.result()


async def test_those_that_end_at_once_run_in_order_and_in_one_task() -> None:
    began: list[tuple[int, str]] = []

    def work(number: int) -> Work:
        async def note() -> None:
            me = asyncio.current_task()
            began.append((number, me.get_name() if me else ""))

        return note

    await run(*map(work, range(5)))

    assert [number for number, _ in began] == list(range(5))
    assert len({name for _, name in began}) == 1


async def test_one_that_waits_keeps_its_task_and_nobody_waits_for_it() -> None:
    others = asyncio.Event()
    seen: list[asyncio.Task[Any] | None] = []

    async def wait() -> None:
        seen.append(asyncio.current_task())
        await others.wait()
        seen.append(asyncio.current_task())

    async def let_go() -> None:
        assert asyncio.current_task() is not seen[0]
        others.set()

    await asyncio.wait_for(run(wait, let_go), 10)

    assert seen[0] is seen[1] is not None


async def test_each_has_a_context_of_its_own_before_and_after_it_waits() -> None:
    seen: list[str] = []

    def work(name: str, waits: bool) -> Work:
        async def note() -> None:
            seen.append(colour.get())
            colour.set(name)
            if waits:
                await asyncio.sleep(0)
            seen.append(colour.get())

        return note

    await run(work("red", False), work("green", True), work("blue", False))

    assert seen == ["none", "red", "none", "none", "blue", "green"]
    assert colour.get() == "none"


async def test_a_timeout_ends_only_the_one_that_set_it() -> None:
    ended: list[str] = []

    async def too_long() -> None:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            ended.append("timed out")

    async def short() -> None:
        async with asyncio.timeout(10):
            await ends_at_once()
            ended.append("in time")

    await run(short, too_long, short)

    assert sorted(ended) == ["in time", "in time", "timed out"]


async def test_who_is_cancelled_while_it_waits_hears_of_it() -> None:
    heard: list[str] = []

    async def wait() -> None:
        me = asyncio.current_task()
        assert me is not None
        asyncio.get_running_loop().call_soon(me.cancel)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.append("cancelled")
            me.uncancel()

    await run(wait)

    assert heard == ["cancelled"]


@pytest.mark.parametrize("when", ["at once", "soon", "later"])
async def test_what_one_does_to_its_task_does_not_meet_the_next(when: str) -> None:
    ended: list[str] = []

    async def leave_something_behind() -> None:
        me, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert me is not None
        match when:
            case "at once":
                me.cancel()
            case "soon":
                loop.call_soon(me.cancel)
            case _:
                loop.call_later(0.01, me.cancel)

    async def wait() -> None:
        await asyncio.sleep(0.05)
        ended.append("undisturbed")

    await run(leave_something_behind, wait)

    assert ended == ["undisturbed"]


async def test_one_that_is_closed_while_it_waits_can_tidy_up() -> None:
    tidied: list[str] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            tidied.append(colour.get())

    async def in_red() -> None:
        colour.set("red")
        await wait()

    turns = in_turn([in_red()], lambda _: None)
    turns.send(None)
    turns.close()

    assert tidied == ["red"]


async def test_jobs_of_one_claim_do_not_notice_each_other(hf: Holdfast) -> None:
    seen: list[tuple[int, str]] = []

    @hf.task
    async def paint(number: int) -> None:
        seen.append((number, colour.get()))
        colour.set("red")
        me = asyncio.current_task()
        if number % 3 == 0 and me is not None:
            asyncio.get_running_loop().call_soon(me.cancel)
        elif number % 3 == 1:
            await asyncio.sleep(0)

    hf.enqueue_many([paint.job(number) for number in range(60)])
    async with at_work(hf, {"default": 60}) as worker:
        await drained(worker)

    assert sorted(seen) == [(number, "none") for number in range(60)]
