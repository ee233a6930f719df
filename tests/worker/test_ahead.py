"""A busy worker sends its next call before it reads what the last one brought. Nothing depends on that."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from holdfast import Holdfast
from holdfast.errors import DatabaseUnavailable
from holdfast.queue import feeding
from holdfast.store import Store, values
from holdfast.store.calls import settling
from tests.worker.hands import at_work, drained, until

pytestmark = pytest.mark.anyio

JOBS, AT_ONCE = 1500, 300
ENDS = "select state::text, attempts, count(*) from holdfast.archived_jobs group by 1, 2"
CALLERS = "select pid from pg_stat_activity where query ~ 'settle_and_claim' and pid <> pg_backend_pid()"
HELD = "select count(*) from holdfast.jobs where state in ('RUNNING', 'CANCELLING')"

Meanwhile = Callable[[], None]


class Scene:
    """A worker with a backlog, and every call that was sent before the answer to the last was entered."""

    def __init__(self, hf: Holdfast, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        self.room: list[tuple[int, int]] = []
        """How much each of them settled, and for how many jobs it asked."""
        self.long = 0
        """So many of the first jobs take until all others have ended."""
        self.instead: Callable[[Meanwhile], None] = lambda enter: enter()
        """What is done when such a call is sent, instead of entering the answer to the last."""
        self._hf = hf
        self._conn = conn
        self._ran: Counter[int] = Counter()
        describe = settling.settle_and_claim

        def listen(
            settlements: list[Any], terms: Any, limit: int, *, meanwhile: Meanwhile | None, **options: Any
        ) -> Any:
            if meanwhile is None:
                return describe(settlements, terms, limit, **options)
            self.calls += 1
            self.room.append((len(settlements), limit))
            return describe(settlements, terms, limit, meanwhile=lambda: self.instead(meanwhile), **options)

        monkeypatch.setattr(feeding, "settle_and_claim", listen)

    async def each_job_runs_once(self, **settings: Any) -> bool:
        """Have a worker run them all; whether each ran once, at its first attempt."""

        others_ended = asyncio.Event()

        @self._hf.task(name="count")
        async def count(number: int) -> None:
            self._ran[number] += 1
            if len(self._ran) == JOBS:
                others_ended.set()
            if number < self.long:
                await others_ended.wait()

        await self._hf.aenqueue_many([count.job(number) for number in range(JOBS)], returning=False)
        async with at_work(self._hf, {"default": AT_ONCE}, **settings) as worker:
            # Nobody asks it for a look before: then it would read everything at once.
            await until(lambda: len(self._ran) == JOBS)
            await drained(worker)
        ends = self._conn.execute(ENDS).fetchall()
        return self._ran == Counter(range(JOBS)) and ends == [("COMPLETED", 0, JOBS)]


@pytest.fixture
def scene(hf: Holdfast, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(hf, conn, monkeypatch)


async def test_the_next_call_is_sent_before_what_the_last_one_brought_is_entered(scene: Scene) -> None:
    assert await scene.each_job_runs_once()
    assert scene.calls > 0


async def test_never_more_is_held_than_the_worker_may_run_while_an_answer_waits_to_be_entered(
    scene: Scene, conn: psycopg.Connection[Any]
) -> None:
    held: list[int] = []

    def look_too(enter: Meanwhile) -> None:
        enter()
        held.extend(*conn.execute(HELD).fetchall())

    scene.instead = look_too
    scene.long = 80

    assert await scene.each_job_runs_once()
    assert 0 < max(held) <= AT_ONCE


async def test_a_full_worker_asks_for_as_many_as_it_settles_while_an_answer_waits_to_be_entered(
    scene: Scene,
) -> None:
    scene.long = 80

    assert await scene.each_job_runs_once()
    assert len(scene.room) > 5
    assert [asked for _, asked in scene.room[1:]] == [settled for settled, _ in scene.room[1:]]


async def test_a_session_that_ends_during_the_next_call_costs_no_job_and_no_attempt(
    scene: Scene, conn: psycopg.Connection[Any]
) -> None:
    ended: list[int] = []

    def end_the_session(enter: Meanwhile) -> None:
        if not ended:
            ended.extend(pid for (pid,) in conn.execute(CALLERS).fetchall())
            conn.execute("select pg_terminate_backend(pid, 5000) from unnest(%s::int[]) as pid", [ended])
        enter()

    scene.instead = end_the_session

    assert await scene.each_job_runs_once()
    assert ended


async def test_what_has_arrived_is_entered_though_the_next_call_is_never_sent(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = 0
    run = Store.run

    async def refuse(store: Store, call: Any) -> Any:
        nonlocal refused
        if call.meanwhile is not None and refused < 2:
            refused += 1
            raise DatabaseUnavailable("nobody there")
        return await run(store, call)

    monkeypatch.setattr(Store, "run", refuse)

    assert await scene.each_job_runs_once()
    assert refused == 2


async def test_an_answer_that_cannot_be_read_is_asked_for_once_more(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Unreadable(values.ClaimedLater):
        def __iter__(self) -> Any:
            if scene.calls == 1:
                raise psycopg.OperationalError("the connection is closed")
            return super().__iter__()

    monkeypatch.setattr(settling, "ClaimedLater", Unreadable)

    # A short lease: what was claimed a while ago waits until its lease was extended.
    assert await scene.each_job_runs_once(lease=6.0)
    assert "what a claim brought cannot be read" in caplog.text
