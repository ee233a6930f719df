"""Single submissions that meet go in one call and one commit, and none of their callers can tell."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Generator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import Any

import psycopg
import pytest

from holdfast import Job, Queue, SyncQueue
from holdfast.domain.job import NewJob
from holdfast.errors import DatabaseUnavailable, InvalidArgument, JobExists, QueueClosed
from holdfast.store import SyncStore, grouping
from holdfast.store.calls.submitting import submit_jobs
from holdfast.store.calls.together import submit_one, together
from holdfast.store.group import Group
from holdfast.store.sync_group import SyncGroup
from holdfast.store.trial import Trial
from tests.conftest import Connect
from tests.queue.proxy import proxied
from tests.store.crowds import (
    Crowd,
    Gate,
    Submission,
    commits,
    eventually,
    in_line,
    line_up,
    payloads,
    tasks,
    threads,
)
from tests.store.trouble import named, wait_until_blocked


@pytest.fixture(params=[tasks, threads])
def crowd(request: pytest.FixtureRequest, database: str) -> Generator[Crowd]:
    with request.param(named(database, "crowd")) as opened:
        yield opened


@pytest.fixture
def gate(conn: psycopg.Connection[Any]) -> Gate:
    return Gate(conn)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits in line waits for the call under way, however long that takes."""
    monkeypatch.setattr(grouping, "PATIENCE_S", 60.0)


# Together


@pytest.mark.usefixtures("patient")
def test_jobs_that_come_while_a_call_is_under_way_are_one_commit_and_each_caller_gets_its_own_id(
    crowd: Crowd, gate: Gate, conn: psycopg.Connection[Any]
) -> None:
    with gate.shut():
        first = crowd.start(NewJob(payload="first"))
        gate.wait_for(1)
        others = line_up(crowd, *(NewJob(payload=number) for number in range(20)))
        assert payloads(conn) == {}

    stored = {first.result()[0]: "first", **{each.result()[0]: n for n, each in enumerate(others)}}
    assert payloads(conn) == stored
    assert len(stored) == 21
    assert commits(conn) == 2
    order = conn.execute("select payload from holdfast.jobs where id > 1 order by id").fetchall()
    assert [number for (number,) in order] == list(range(20))


def test_an_answer_means_that_the_job_is_committed(
    crowd: Crowd, gate: Gate, conn: psycopg.Connection[Any]
) -> None:
    with gate.shut():
        started = [crowd.start(NewJob(payload=number)) for number in range(30)]
        gate.wait_for(1)
    for number, each in enumerate(started):
        (job_id,) = each.result()
        assert payloads(conn)[job_id] == number


@pytest.mark.parametrize(
    "jobs",
    [
        [NewJob(), NewJob()],
        [NewJob(job_id="a", payload={"x": 'q"\\,{}'}), NewJob(payload=None), NewJob(job_id='b"', task="t")],
        [NewJob(payload=b"\x00\xff"), NewJob(payload="NULL"), NewJob(priority=3), NewJob(queue="ü{,}")],
        [
            NewJob(tags=["a", "b"], resource_keys=["r"], singleton_key="s", max_attempts=3, delay_s=1.5),
            NewJob(timeout_s=2, retry={"cap": 1}, if_parent_fails="run"),
        ],
    ],
)
def test_one_call_of_several_is_what_one_call_for_all_would_be(jobs: list[NewJob]) -> None:
    joined = together([submit_one(job) for job in jobs])

    expected = list(submit_jobs(jobs).parameters)
    if expected[4] == "{0,0,3,0}":
        expected[4] = "{NULL,NULL,3,NULL}"  # a priority that is not there is 0
    assert list(joined.parameters[1:]) == expected
    assert not joined.joins


def test_jobs_with_everything_a_job_can_have_go_together(store: SyncStore) -> None:
    jobs = [
        NewJob(job_id="NULL", payload=b"\x00", tags=["a", "b"], resource_keys=["r"], singleton_key="s"),
        NewJob(job_id="b,c", payload={"q": '"\\{}'}, priority=-3, max_attempts=2, timeout_s=2, delay_s=9),
        NewJob(),
    ]

    ids = store.run(together([submit_one(job) for job in jobs]))

    assert ids[:2] == ["NULL", "b,c"]
    first, second, third = (store.get_job(job_id) for job_id in ids)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.payload, first.tags, first.resource_keys, first.singleton_key) == (
        b"\x00",
        ("a", "b"),
        ("r",),
        "s",
    )
    assert (second.payload, second.priority, second.max_attempts) == ({"q": '"\\{}'}, -3, 2)
    assert (third.payload, third.queue, third.priority) == (None, "default", 0)


# Alone


@contextmanager
def an_id_taken_by_a_transaction(conn: psycopg.Connection[Any], job_id: str) -> Generator[None]:
    """Whoever submits this id waits until the end of the block, when it is free again."""
    with conn.transaction(force_rollback=True):
        conn.execute("select holdfast.submit_job(%s, 'w', 'default')", [job_id])
        yield


def submission(timeout_s: float = 10.0, **fields: Any) -> Trial[list[str]]:
    return Trial(submit_one(NewJob(**fields)), monotonic(), timeout_s, place="here", schema="holdfast")


def jobs_of(sent: Trial[list[str]]) -> int:
    """How many jobs a call submits."""
    return str(sent.call.parameters).count("default")


def test_whoever_is_alone_goes_in_the_callers_own_task_and_starts_no_other() -> None:
    async def main() -> None:
        async def run(_: object) -> list[str]:
            assert asyncio.all_tasks() == {itself}
            return ["j1"]

        itself = asyncio.current_task()
        group = Group(run)
        for _ in range(3):
            assert await group.submit(submission()) == ["j1"]

    asyncio.run(main())


def test_whoever_is_alone_again_after_a_crowd_goes_in_its_own_task() -> None:
    async def main() -> None:
        sizes: list[int] = []
        ran_in: list[object] = []

        async def run(sent: Trial[list[str]]) -> list[str]:
            await asyncio.sleep(0.001)
            sizes.append(jobs_of(sent))
            ran_in.append(asyncio.current_task())
            return ["j1"] * sizes[-1]

        async def go_on(times: int) -> None:
            for _ in range(times):
                await group.submit(submission())

        group = Group(run)
        *_, longest = started = [asyncio.create_task(go_on(times)) for times in (3, 3, 6)]
        await asyncio.gather(*started)

        assert sum(sizes) == 12
        assert max(sizes) == 3
        assert sizes[-1] == 1
        assert ran_in[-1] is longest
        assert group._line._under_way == 0

    asyncio.run(main())


def test_whoever_is_alone_goes_in_the_callers_own_thread() -> None:
    ran_in: list[int] = []

    def run(_: object) -> list[str]:
        ran_in.append(threading.get_ident())
        return ["j1"]

    group = SyncGroup(run)
    for _ in range(3):
        assert group.submit(submission()) == ["j1"]

    assert ran_in == [threading.get_ident()] * 3
    assert group._line._under_way == 0


def test_a_job_that_waits_for_one_in_line_is_refused_as_it_was_not_there_when_it_was_submitted(
    crowd: Crowd, connect: Connect, conn: psycopg.Connection[Any], patient: None
) -> None:
    with an_id_taken_by_a_transaction(connect(), "mine"):
        first = crowd.start(NewJob(job_id="mine"))
        wait_until_blocked(conn, "crowd")
        (parent,) = line_up(crowd, NewJob(job_id="parent"))
        with pytest.raises(InvalidArgument, match='"parent", which does not exist'):
            crowd.start(NewJob(wait_for=["parent"])).result()
    first.result()
    assert parent.result() == ["parent"]
    assert crowd.start(NewJob(job_id="child", wait_for=["parent"])).result() == ["child"]


def test_submit_jobs_does_not_stand_in_line(
    crowd: Crowd, connect: Connect, conn: psycopg.Connection[Any], patient: None
) -> None:
    with an_id_taken_by_a_transaction(connect(), "mine"):
        first = crowd.start(NewJob(job_id="mine"))
        wait_until_blocked(conn, "crowd")

        assert crowd.start(submit_jobs([NewJob(job_id="other")])).result() == ["other"]
    assert first.result() == ["mine"]


# Errors


def test_an_id_that_is_taken_is_the_error_of_its_own_caller_alone(
    crowd: Crowd, gate: Gate, conn: psycopg.Connection[Any], patient: None
) -> None:
    crowd.start(NewJob(job_id="taken")).result()
    with gate.shut():
        first = crowd.start(NewJob(job_id="a"))
        gate.wait_for(1)
        b, taken, c, generated = line_up(
            crowd,
            NewJob(job_id="b"),
            NewJob(job_id="taken"),
            NewJob(job_id="c"),
            NewJob(job_id="j7"),
        )

    assert [first.result(), b.result(), c.result()] == [["a"], ["b"], ["c"]]
    with pytest.raises(JobExists, match='"taken" already exists'):
        taken.result()
    with pytest.raises(InvalidArgument, match="ids of the form j<number>"):
        generated.result()
    assert payloads(conn).keys() == {"taken", "a", "b", "c"}


def test_of_two_in_one_batch_with_one_id_one_is_stored(
    crowd: Crowd, gate: Gate, conn: psycopg.Connection[Any], patient: None
) -> None:
    with gate.shut():
        crowd.start(NewJob(job_id="a"))
        gate.wait_for(1)
        both = line_up(crowd, NewJob(job_id="b"), NewJob(job_id="b"))

    errors = [each.exception() for each in both]
    assert {type(error) for error in errors} == {JobExists, type(None)}
    assert payloads(conn).keys() == {"a", "b"}


def test_a_session_that_is_ended_leaves_all_of_its_call_in_doubt_and_nobody_else(
    crowd: Crowd, gate: Gate, conn: psycopg.Connection[Any], patient: None
) -> None:
    with gate.shut():
        first = crowd.start(NewJob(job_id="first"))
        gate.wait_for(1)
        sent = line_up(crowd, *(NewJob(payload=number) for number in range(5)))
        gate.admit_one()
        first.result()
        gate.wait_for(1)
        later = line_up(crowd, NewJob(job_id="later"))[0]
        gate.end_sessions()
        errors = [each.exception() for each in sent]

    assert later.result() == ["later"]
    for error in errors:
        assert isinstance(error, DatabaseUnavailable)
        assert "submit_jobs gave up" in str(error)
        assert "not known whether it took effect" in str(error)
    assert len({id(error) for error in errors}) == 5
    assert payloads(conn).keys() == {"first", "later"}


def test_an_answer_that_is_lost_leaves_all_of_its_call_in_doubt_and_no_job_is_stored_twice(
    database: str, gate: Gate, conn: psycopg.Connection[Any], patient: None
) -> None:
    with proxied(named(database, "crowd")) as proxy, threads(proxy.dsn) as crowd, gate.shut():
        first = crowd.start(NewJob(job_id="first"))
        gate.wait_for(1)
        sent = line_up(crowd, *(NewJob(job_id=f"sent-{number}") for number in range(5)))
        gate.admit_one()
        first.result()
        gate.wait_for(1)
        proxy.swallow_answer_with(b"sent-0")
        gate.admit_one()
        errors = [each.exception() for each in sent]

        assert [type(error) for error in errors] == [DatabaseUnavailable] * 5
        assert all("not known whether it took effect" in str(error) for error in errors)
        assert payloads(conn).keys() == {"first", *(f"sent-{number}" for number in range(5))}


def test_an_interrupted_leader_leaves_its_followers_in_doubt_and_the_next_goes_on() -> None:
    begun, over = threading.Event(), threading.Event()
    turns = iter([None, KeyboardInterrupt(), None])

    def run(sent: Trial[list[str]]) -> list[str]:
        begun.set()
        over.wait()
        error = next(turns)
        if error is not None:
            raise error
        return ["j1"] * jobs_of(sent)

    group = SyncGroup(run)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(group.submit, submission())
        begun.wait()
        others = []
        for number in range(3):
            others.append(pool.submit(group.submit, submission()))
            eventually(lambda: len(group._line._waiting) == number + 1)  # noqa: B023
        over.set()
        errors = [each.exception(5) for each in others]

    assert first.result() == ["j1"]
    assert [type(error) for error in errors] == [KeyboardInterrupt, *[DatabaseUnavailable] * 2]
    assert all("not known whether it took effect" in str(error) for error in errors[1:])
    assert group.submit(submission()) == ["j1"]
    assert group._line._under_way == 0


def test_a_follower_whom_nobody_tells_anything_is_in_doubt_soon_after_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grouping, "GRACE_S", 0.1)
    group = SyncGroup(lambda _: pytest.fail("sent"))
    assert group._line.may_go()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(group.submit, submission(timeout_s=0.2))
        eventually(lambda: len(group._line.batch()) == 1)

        with pytest.raises(DatabaseUnavailable, match=r"interrupted.*not known"):
            waiting.result(5)


# Cancelling


def test_a_task_that_is_cancelled_in_line_submits_nothing(
    database: str, gate: Gate, conn: psycopg.Connection[Any], patient: None
) -> None:
    with tasks(named(database, "crowd")) as crowd:
        with gate.shut():
            first = crowd.start(NewJob(job_id="first"))
            gate.wait_for(1)
            a, b, c = line_up(crowd, NewJob(job_id="a"), NewJob(job_id="b"), NewJob(job_id="c"))
            a.cancel()
            c.cancel()
            eventually(lambda: in_line(crowd) == 1)
        assert (first.result(), b.result()) == (["first"], ["b"])
        with pytest.raises(CancelledError):
            a.result()
    assert payloads(conn).keys() == {"first", "b"}


def test_a_task_that_is_cancelled_in_the_moment_its_turn_comes_submits_nothing() -> None:
    sent: list[str] = []

    async def main() -> None:
        over = asyncio.Event()

        async def run(trial: Trial[list[str]]) -> list[str]:
            await over.wait()
            sent.append(str(trial.call.parameters))
            return ["j1"] * jobs_of(trial)

        async def lead() -> None:
            await group.submit(submission(job_id="first"))
            gone.cancel()  # its carrier has been made by now, and has not begun

        group = Group(run)
        first = asyncio.create_task(lead())
        await asyncio.sleep(0)
        gone = asyncio.create_task(group.submit(submission(job_id="gone")))
        other = asyncio.create_task(group.submit(submission(job_id="other")))
        await asyncio.sleep(0)
        over.set()
        await first
        assert await other == ["j1"]

    asyncio.run(main())
    assert len(sent) == 2
    assert "gone" not in "".join(sent)


@pytest.mark.parametrize("cancelled", [0, 2, 4])
def test_a_task_that_is_cancelled_when_its_job_is_sent_does_not_disturb_the_others(
    database: str, gate: Gate, conn: psycopg.Connection[Any], patient: None, cancelled: int
) -> None:
    with tasks(named(database, "crowd")) as crowd:
        with gate.shut():
            first = crowd.start(NewJob(job_id="first"))
            gate.wait_for(1)
            sent = line_up(crowd, *(NewJob(payload=number) for number in range(5)))
            gate.admit_one()
            first.result()
            gate.wait_for(1)
            sent.pop(cancelled).cancel()
        stored = {each.result()[0] for each in sent}
    assert len(stored) == 4
    assert stored <= payloads(conn).keys()


def test_a_task_that_is_cancelled_while_it_is_alone_under_way_leaves_the_way_to_those_in_line(
    database: str, gate: Gate, conn: psycopg.Connection[Any], patient: None
) -> None:
    with tasks(named(database, "crowd")) as crowd:
        with gate.shut():
            first = crowd.start(NewJob(job_id="first"))
            gate.wait_for(1)
            others = line_up(crowd, NewJob(job_id="a"), NewJob(job_id="b"))
            first.cancel()
            eventually(lambda: in_line(crowd) == 0)
        assert [each.result() for each in others] == [["a"], ["b"]]
    assert payloads(conn).keys() - {"first"} == {"a", "b"}


def test_carriers_that_are_cancelled_from_outside_hold_up_nobody() -> None:
    async def main() -> None:
        over = asyncio.Event()

        async def run(trial: Trial[list[str]]) -> list[str]:
            await over.wait()
            return ["j1"] * jobs_of(trial)

        async def lead() -> None:
            await group.submit(submission())
            (carrier,) = group._carriers
            assert carrier.cancel()  # before it has begun

        group = Group(run)
        first = asyncio.create_task(lead())
        await asyncio.sleep(0)
        waiting = asyncio.create_task(group.submit(submission()))
        await asyncio.sleep(0)
        over.set()
        await first
        assert await waiting == ["j1"]
        assert await group.submit(submission()) == ["j1"]
        assert group._line._under_way == 0

    asyncio.run(main())


# Time


def test_a_job_whose_time_is_over_while_it_waits_in_line_is_not_sent(
    crowd: Crowd, gate: Gate, conn: psycopg.Connection[Any], patient: None
) -> None:
    with gate.shut():
        first = crowd.start(NewJob(job_id="first"))
        gate.wait_for(1)
        (late,) = line_up(crowd, replace(submit_one(NewJob(job_id="late")), timeout_s=0.2))
        with pytest.raises(DatabaseUnavailable, match=r"submit_plain_job: not sent to .* within 0\.\d s"):
            late.result(5)
        assert in_line(crowd) == 0
    first.result()
    assert payloads(conn).keys() == {"first"}


def test_time_in_line_counts_towards_the_deadline(
    crowd: Crowd, gate: Gate, conn: psycopg.Connection[Any], patient: None
) -> None:
    with gate.shut():
        first = crowd.start(NewJob(job_id="first"))
        gate.wait_for(1)
        began = monotonic()
        sent = line_up(
            crowd, *(replace(submit_one(NewJob(payload=number)), timeout_s=1.0) for number in range(3))
        )
        conn.execute("select pg_sleep(0.5)")
        gate.admit_one()
        first.result()
        gate.wait_for(1)
        for each in sent:
            with pytest.raises(DatabaseUnavailable, match=r"no answer in time.*not known"):
                each.result(5)
        assert 1.0 <= monotonic() - began < 2.5


def test_nobody_waits_long_for_a_call_that_waits_for_somebody_elses_transaction(
    crowd: Crowd, connect: Connect, conn: psycopg.Connection[Any]
) -> None:
    with an_id_taken_by_a_transaction(connect(), "mine"):
        first = crowd.start(NewJob(job_id="mine"))
        wait_until_blocked(conn, "crowd")

        others = [crowd.start(NewJob(payload=number)) for number in range(5)]

        assert len({each.result(5)[0] for each in others}) == 5
        assert not first.done()
    assert first.result() == ["mine"]


def test_a_call_for_several_does_not_wait_long_for_somebody_elses_transaction(
    crowd: Crowd, gate: Gate, connect: Connect, patient: None
) -> None:
    with an_id_taken_by_a_transaction(connect(), "mine"):
        with gate.shut():
            crowd.start(NewJob())
            gate.wait_for(1)
            a, mine, b = line_up(crowd, NewJob(job_id="a"), NewJob(job_id="mine"), NewJob(job_id="b"))

        assert (a.result(5), b.result(5)) == (["a"], ["b"])
        assert not mine.done()
    assert mine.result() == ["mine"]


def test_the_patience_of_a_call_for_several_does_not_outlast_it(database: str) -> None:
    with SyncStore(database, max_size=1) as store:
        store.run(together([submit_one(NewJob()), submit_one(NewJob())]))

        with store._pool.connection() as conn:
            assert conn.execute("show lock_timeout").fetchone() == ("0",)


# Size


def test_a_call_is_limited_in_jobs_and_in_characters() -> None:
    line: grouping.Line[grouping.Ticket] = grouping.Line()
    small = [grouping.Ticket(submission(), bool) for _ in range(grouping.MOST_JOBS + 5)]
    large = [grouping.Ticket(submission(payload="x" * 600_000), bool) for _ in range(3)]
    for ticket in (*small, *large):
        line.wait(ticket)

    batches = [line.batch() for _ in range(5)]

    assert batches == [small[:-5], [*small[-5:], large[0]], [large[1]], [large[2]], []]


# Closing


def test_those_in_line_when_the_store_is_closed_are_told_so_and_what_is_sent_is_stored(
    crowd: Crowd, gate: Gate, conn: psycopg.Connection[Any]
) -> None:
    with gate.shut():
        first = crowd.start(NewJob(job_id="first"))
        gate.wait_for(1)
        waiting = line_up(crowd, NewJob(job_id="a"), NewJob(job_id="b"))
        crowd.close()
        for each in waiting:
            with pytest.raises(InvalidArgument, match="is closed"):
                each.result(5)
    assert first.result() == ["first"]
    assert payloads(conn).keys() == {"first"}


@pytest.mark.parametrize("face", ["async", "sync"])
def test_those_in_line_when_a_queue_is_closed_hear_that_the_queue_is_closed(
    database: str, gate: Gate, face: str
) -> None:
    dsn = named(database, "crowd")
    with ThreadPoolExecutor(3) as pool, asyncio.Runner() as runner:
        if face == "sync":
            sync_queue = SyncQueue(dsn)
            sync_queue.open()
            with gate.shut():
                first = pool.submit(sync_queue.enqueue_job, Job("first"))
                gate.wait_for(1)
                waiting = pool.submit(sync_queue.enqueue_job, Job("waiting"))
                line = sync_queue._require_open().store._group._line
                eventually(lambda: len(line._waiting) == 1)
                sync_queue.close()
                with pytest.raises(QueueClosed):
                    waiting.result(5)
            assert first.result() == "first"
            return

        async def main() -> None:
            queue = Queue(dsn)
            await queue.open()
            with gate.shut():
                first = asyncio.create_task(queue.enqueue_job(Job("first")))
                await asyncio.to_thread(gate.wait_for, 1)
                waiting = asyncio.create_task(queue.enqueue_job(Job("waiting")))
                await asyncio.sleep(0)
                await queue.close()
                with pytest.raises(QueueClosed):
                    await waiting
            assert await first == "first"

        runner.run(main())


# Everything at once


@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_an_answer_means_one_job_and_a_refusal_none(
    crowd: Crowd, conn: psycopg.Connection[Any], seed: int
) -> None:
    chance = random.Random(seed)
    ends = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'crowd' limit %s"
    sent: list[tuple[int, str | None, Submission]] = []
    for number in range(600):
        job_id = f"id-{chance.randrange(500)}" if chance.random() < 0.3 else None
        sent.append((number, job_id, crowd.start(NewJob(job_id=job_id, payload=number))))
        if chance.random() < 0.05:
            chance.choice(sent)[2].cancel()
        if chance.random() < 0.01:
            conn.execute(ends, [chance.randrange(3)])
        if chance.random() < 0.1:
            wait([chance.choice(sent)[2]])
    wait([submission for *_, submission in sent])

    stored = conn.execute("select (payload)::integer, job_id from holdfast.jobs_with_status").fetchall()
    by_number: dict[int, str] = dict(stored)
    assert len(by_number) == len(stored)
    for number, job_id, submission in sent:
        if submission.cancelled():
            continue
        error = submission.exception()
        if error is None:
            assert submission.result() == [by_number[number]]
            assert job_id in (None, by_number[number])
        elif "not known" not in str(error):
            assert number not in by_number
    answers = [submission.result()[0] for *_, submission in sent if _has_answer(submission)]
    assert len(answers) == len(set(answers)) > 100
    eventually(lambda: crowd.store._group._line._under_way == 0)


def _has_answer(submission: Submission) -> bool:
    return not submission.cancelled() and submission.exception() is None
