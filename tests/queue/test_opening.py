"""Opening and closing: which database, which schema, and what a queue does when it is not open."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest

from holdfast import Job, JobStatus, Queue, SyncQueue, embedded
from holdfast.engine import installer
from holdfast.errors import (
    DatabaseUnavailable,
    InvalidArgument,
    QueueClosed,
    SchemaMissing,
    SchemaTooNew,
    SchemaTooOld,
)
from holdfast.queue import base, opening
from holdfast.queue.streams import Streams
from holdfast.store.calls import reading
from holdfast.store.steps import Steps
from tests.conftest import Connect
from tests.queue.conftest import Make
from tests.queue.hand import DISTANT, on_loop

NOBODY = "postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=2"

CALLS: dict[str, tuple[Any, ...]] = {
    "enqueue_job": (Job("job"),),
    "enqueue_jobs": ([Job("job")],),
    "complete_job": ("job",),
    "fail_job": ("job", "boom"),
    "stop_job": ("job",),
    "stop_job_with_retry": ("job",),
    "mark_job_unknown_stopped": ("job",),
    "acknowledge_cancellation": ("job", True),
    "complete_jobs": ([("job", None)],),
    "fail_jobs": ([("job", "boom")],),
    "stop_jobs": ([("job", "")],),
    "stop_jobs_with_retry": ([("job", "")],),
    "mark_jobs_unknown_stopped": ([("job", "")],),
    "acknowledge_cancellations": ([("job", True)],),
    "cancel_jobs": (["t"], ["job"]),
    "mark_worker_unresponsive": ("w",),
    "reset_running_jobs": (),
    "get_job": ("job",),
    "get_job_stats": (),
    "cleanup_expired_jobs": (1,),
    "delete_jobs": (["t"],),
    "claim_jobs": ("w",),
    "acquire_next": ("default", 1, 30),
    "heartbeat_job": ("job", "w", 30),
    "extend_lease": ("job", "lease", 30),
    "requeue_job": ("job",),
    "reschedule_job": ("job", DISTANT),
    "retry_later": ("job", DISTANT),
    "release": ("job",),
    "list_stuck_jobs": (1,),
    "list_dead_jobs": (),
    "revive_job": ("job",),
    "acquire_resource": ("db", "job", "w"),
    "release_resource": ("db", "job"),
    "set_resource_capacity": ("db", 1),
    "stream_jobs": ("w",),
}
"""Every verb, with arguments it would take."""


def test_every_verb_is_tried_here() -> None:
    verbs = {name for name in vars(SyncQueue) if not name.startswith("_")}

    assert verbs - {"open", "close"} == set(CALLS)


@pytest.mark.parametrize("verb", CALLS)
def test_a_verb_before_open_says_that_the_queue_is_not_open(make: Make, database: str, verb: str) -> None:
    queue = make(database)

    with pytest.raises(QueueClosed, match="the queue is not open: open it first"):
        getattr(queue, verb)(*CALLS[verb])


def test_every_verb_after_close_says_that_the_queue_is_closed(queue: SyncQueue) -> None:
    queue.close()

    for verb, arguments in CALLS.items():
        with pytest.raises(QueueClosed, match="the queue is closed"):
            getattr(queue, verb)(*arguments)


def test_opening_an_open_queue_changes_nothing(queue: SyncQueue) -> None:
    queue.enqueue_job(Job("job"))

    queue.open()

    assert queue.get_job("job").status is JobStatus.INITIAL_PENDING


def test_a_second_close_is_no_error(queue: SyncQueue) -> None:
    queue.close()
    queue.close()


def test_a_closed_queue_stays_closed(make: Make, database: str) -> None:
    queue, unused = make(database), make(database)
    queue.open()
    for each in (queue, unused):
        each.close()
        with pytest.raises(QueueClosed, match="a closed queue stays closed: make another one"):
            each.open()


def test_closing_closes_the_connections(queue: SyncQueue, conn: psycopg.Connection[Any]) -> None:
    def others() -> int:
        row = conn.execute(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and backend_type = 'client backend' and pid <> pg_backend_pid()"
        ).fetchone()
        assert row is not None
        return int(row[0])

    queue.enqueue_job(Job("job"))
    assert others() > 0

    queue.close()

    until = monotonic() + 30
    while others() and monotonic() < until:  # a session ends a moment after its client has left
        conn.execute("select pg_sleep(0.01)")
    assert others() == 0


def test_the_schema_is_asked_for_when_the_queue_is_opened(make: Make, blank_database: str) -> None:
    with pytest.raises(SchemaMissing, match="holdfast migrate up"):
        make(blank_database).open()


def test_another_schema_may_be_used_and_jobs_are_separate(
    make: Make, database: str, connect: Connect
) -> None:
    installer.install(connect(database), "elsewhere")
    queue, other = make(database), make(database, schema="elsewhere")
    queue.open()
    other.open()

    queue.enqueue_job(Job("job"))

    assert (queue.get_job_stats().total_jobs, other.get_job_stats().total_jobs) == (1, 0)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("update holdfast.installation set functions_fingerprint = 'x', release = '99.0'", SchemaTooNew),
        ("update holdfast.installation set functions_fingerprint = 'x', release = '0.0.1'", SchemaTooOld),
    ],
)
def test_a_schema_that_does_not_fit_this_release_is_refused(
    make: Make, database: str, conn: psycopg.Connection[Any], change: str, error: type[Exception]
) -> None:
    conn.execute(change.encode())

    with pytest.raises(error):
        make(database).open()


def test_a_database_that_cannot_be_reached_is_an_error_and_may_be_tried_again(
    make: Make, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", NOBODY)
    queue = make()
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1"):
        queue.open()
    monkeypatch.setenv("DATABASE_URL", database)

    queue.open()

    assert queue.get_job_stats().total_jobs == 0


def test_the_argument_comes_before_the_environment(
    make: Make, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", NOBODY)
    monkeypatch.setenv("DATABASE_URL", NOBODY)

    make(database).open()


def test_our_own_variable_comes_before_the_common_one(
    make: Make, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", database)
    monkeypatch.setenv("DATABASE_URL", NOBODY)

    make().open()


def test_without_a_database_the_embedded_one_is_started_with_the_schema_and_stopped(
    make: Make, open_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(open_directory))
    monkeypatch.chdir(open_directory)
    queue = make()

    queue.open()

    assert queue.enqueue_job(Job("job")) == "job"
    assert embedded.status().running
    queue.close()
    assert not embedded.status().running


@pytest.mark.parametrize(
    "wrong",
    [
        {"dsn": ""},
        {"dsn": 7},
        {"schema": "public"},
        {"schema": "x" * 17},
        {"schema": None},
        {"lease": 0},
        {"lease": -1},
        {"lease": "long"},
        {"poll": 0},
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", [Queue, SyncQueue])
def test_what_no_queue_can_have_is_refused_when_it_is_made(
    kind: type[Queue | SyncQueue], wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        kind(**wrong)


@pytest.mark.anyio
async def test_the_asynchronous_queue_is_a_context_manager(database: str) -> None:
    async with Queue(database) as queue:
        assert repr(queue) == "<Queue of schema holdfast, open>"
        await queue.enqueue_job(Job("job"))
    with pytest.raises(QueueClosed):
        await queue.get_job("job")


def test_the_blocking_queue_is_a_context_manager(database: str) -> None:
    with SyncQueue(database) as queue:
        queue.enqueue_job(Job("job"))
    assert repr(queue) == "<SyncQueue of schema holdfast, closed>"
    with pytest.raises(QueueClosed):
        queue.get_job("job")


def test_a_queue_belongs_to_the_loop_that_opened_it(database: str) -> None:
    queue = Queue(database)
    with asyncio.Runner() as mine, asyncio.Runner() as other:
        mine.run(queue.open())

        for verb in ("enqueue_job", "get_job_stats", "claim_jobs"):
            with pytest.raises(InvalidArgument, match="belongs to the event loop that opened it"):
                getattr(on_loop(queue, other), verb)(*CALLS[verb])
        with pytest.raises(InvalidArgument, match="belongs to the event loop"):
            other.run(queue.open())
        with pytest.raises(InvalidArgument, match="belongs to the event loop"):
            other.run(queue.close())

        mine.run(queue.close())


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The databases that were reached, in the order it was begun."""
    seen: list[str | None] = []
    reach = opening.reach

    def reach_and_tell(dsn: str | None, schema: str) -> embedded.Database:
        seen.append(dsn)
        return reach(dsn, schema)

    monkeypatch.setattr(opening, "reach", reach_and_tell)
    return seen


def test_threads_may_open_it_at_once_and_it_is_opened_once(database: str, reached: list[str | None]) -> None:
    queue = SyncQueue(database)
    threads = [threading.Thread(target=queue.open) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert reached == [database]
    assert queue.get_job_stats().total_jobs == 0
    queue.close()


@pytest.mark.anyio
async def test_tasks_may_open_it_at_once_and_use_it_at_once(database: str, reached: list[str | None]) -> None:
    queue = Queue(database)
    await asyncio.gather(*(queue.open() for _ in range(5)))
    assert reached == [database]

    await asyncio.gather(*(queue.enqueue_job(Job(f"job-{number}")) for number in range(50)))

    assert (await queue.get_job_stats()).pending_jobs == 50
    await asyncio.gather(*(queue.close() for _ in range(5)))


@pytest.mark.anyio
async def test_a_verb_that_is_cancelled_leaves_the_queue_usable(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    async with Queue(database) as queue:
        await queue.enqueue_job(Job("job"))
        await queue.claim_jobs("w")
        with conn.transaction():
            conn.execute("select from holdfast.jobs for update")
            completing = asyncio.create_task(queue.complete_job("job"))
            await asyncio.sleep(0.1)
            completing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await completing

        assert (await queue.get_job("job")).status in (JobStatus.RUNNING, JobStatus.COMPLETED)


def test_verbs_that_are_under_way_when_the_queue_is_closed_answer_or_say_that_it_is_closed(
    database: str,
) -> None:
    queue = SyncQueue(database)
    queue.open()
    ended: list[BaseException] = []
    busy = threading.Barrier(5)

    def use() -> None:
        queue.get_job_stats()
        busy.wait()
        try:
            while True:
                queue.get_job_stats()
        except BaseException as error:
            ended.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    busy.wait()
    queue.close()
    for thread in threads:
        thread.join()

    assert [type(error) for error in ended] == [QueueClosed] * 4


def test_a_verb_between_two_calls_when_the_queue_is_closed_says_so(database: str) -> None:
    queue = SyncQueue(database)
    queue.open()

    def steps() -> Steps[None]:
        yield reading.get_job_stats()
        queue.close()
        yield reading.get_job_stats()

    with pytest.raises(QueueClosed, match="the queue is closed"):
        queue._run(steps())


class _Stubborn(Streams):
    """Streams that cannot be closed."""

    def close(self, timeout_s: float = 0) -> bool:
        raise DatabaseUnavailable("could not hand back")


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        base, "new_streams", lambda dsn, schema, poll_s: _Stubborn(dsn, schema, poll_s=poll_s)
    )


@pytest.mark.usefixtures("stubborn")
def test_a_cleanup_that_fails_is_an_error_and_the_rest_is_closed_all_the_same(queue: SyncQueue) -> None:
    with pytest.raises(DatabaseUnavailable, match="could not hand back"):
        queue.close()

    with pytest.raises(QueueClosed):
        queue.get_job_stats()
    queue.close()


@pytest.mark.anyio
async def test_an_open_that_is_cancelled_leaves_no_server_behind(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, closed = threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    class Found:
        dsn = database

        def close(self) -> None:
            loop.call_soon_threadsafe(closed.set)

    def reach(dsn: str | None, schema: str) -> Found:
        go_on.wait(30)
        return Found()

    monkeypatch.setattr(opening, "reach", reach)
    task = asyncio.create_task(Queue(database).open())
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()

    await asyncio.wait_for(closed.wait(), 30)


def test_errors_of_the_database_reach_the_caller(queue: SyncQueue, conn: psycopg.Connection[Any]) -> None:
    conn.execute("alter function holdfast.get_job_stats(text[]) rename to get_job_stats_gone")

    with pytest.raises(SchemaMissing, match="get_job_stats"):
        queue.get_job_stats()
