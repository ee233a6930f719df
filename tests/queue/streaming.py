"""Streams of either face in the hands of a blocking test: one reader, one queue, one way to wait."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from time import monotonic
from typing import Any, TypeVar, cast

import psycopg

from holdfast import Job, Queue, SyncQueue
from holdfast.queue.faces import Stream, SyncStream
from holdfast.queue.stream import OpenStream

T = TypeVar("T")

PATIENCE_S = float(os.environ.get("HOLDFAST_TEST_PATIENCE_S", "30"))
"""How long a test waits for what takes milliseconds on a machine with nothing else to do."""


def until(what: Callable[[], T], why: str | Callable[[], str] = "it never came true") -> T:
    """Ask again and again until the answer is true; that answer. `why` may be worked out at the end."""
    deadline = monotonic() + PATIENCE_S
    pause = threading.Event()
    while not (answer := what()):
        assert monotonic() < deadline, why if isinstance(why, str) else why()
        pause.wait(0.01)
    return answer


def pass_time(seconds: float) -> None:
    """Wait for nothing but time: where a lease or a poll has to go by."""
    threading.Event().wait(seconds)


def in_thread(function: Callable[[], T]) -> Future[T]:
    """Run a function that may block for ever on a thread that nobody waits for."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True, name="a reader of the test").start()
    return future


class Loop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.start(coroutine).result(PATIENCE_S * 2)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class Reader:
    """A stream of either face. What is asked for and not there yet is taken by the next read."""

    def __init__(
        self,
        stream: Stream | SyncStream,
        ask: Callable[[], Future[list[Job] | None]],
        end: Callable[[], None],
    ) -> None:
        self.stream = stream
        self._ask = ask
        self._pending: Future[list[Job] | None] | None = None
        self.close = end

    def start(self) -> Future[list[Job] | None]:
        """Wait for the next batch in the background."""
        if self._pending is None:
            self._pending = self._ask()
        return self._pending

    def read(self, within_s: float = PATIENCE_S) -> list[Job]:
        """The next batch."""
        batch = self.start().result(within_s)
        self._pending = None
        assert batch is not None, "the stream has ended"
        return batch

    def read_ids(self, count: int, within_s: float = PATIENCE_S) -> list[str]:
        """The ids of so many jobs, in as many batches as they come."""
        return [job.id for job in self.read_jobs(count, within_s)]

    def read_jobs(self, count: int, within_s: float = PATIENCE_S) -> list[Job]:
        jobs: list[Job] = []
        while len(jobs) < count:
            jobs += self.read(within_s)
        assert len(jobs) == count
        return jobs

    def close_and_take_rest(self) -> list[Job]:
        """End the stream; what a read that ran out of time took all the same, because that is delivered."""
        self.close()
        pending, self._pending = self._pending, None
        return [] if pending is None else pending.result(PATIENCE_S) or []

    def forget_pending(self) -> None:
        """Read anew, because the last read has raised."""
        self._pending = None

    def is_blocked(self, for_s: float = 0.3) -> bool:
        """Whether nothing comes for a while."""
        try:
            self.start().result(for_s)
        except TimeoutError:
            return True
        return False

    def has_ended(self) -> bool:
        """Whether the reader is told so, waiting for it."""
        answer = self.start().result(PATIENCE_S)
        self._pending = None
        return answer is None

    @property
    def held(self) -> int:
        return self.stream.assigned_jobs

    @property
    def is_reading(self) -> bool:
        """Whether a read in the background still waits."""
        return self._pending is not None and not self._pending.done()

    @property
    def inside(self) -> OpenStream:
        return self.stream._stream


class Face:
    """Opens queues of one kind, and streams on them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._closing = ExitStack()
        self.loop = Loop() if name == "async" else None

    def open(self, dsn: str, **options: Any) -> SyncQueue:
        if self.loop is None:
            queue = SyncQueue(dsn, **options)
        else:
            queue = cast("SyncQueue", OnLoop(Queue(dsn, **options), self.loop))
        self._closing.callback(queue.close)
        queue.open()
        return queue

    def stream(self, queue: SyncQueue, assignee_id: Any = "me", *args: Any, **options: Any) -> Reader:
        opened: Any = queue.stream_jobs(assignee_id, *args, **options)
        loop = self.loop
        if loop is None:
            return Reader(opened, lambda: in_thread(lambda: next(opened, None)), opened.close)

        async def following() -> list[Job] | None:
            return cast("list[Job] | None", await anext(opened, None))

        return Reader(opened, lambda: loop.start(following()), lambda: loop.run(opened.aclose()))

    def close(self) -> None:
        self._closing.close()
        if self.loop is not None:
            self.loop.stop()


class OnLoop:
    """A `Queue` that is used like a `SyncQueue`, while its loop goes on all the time."""

    def __init__(self, queue: Queue, loop: Loop) -> None:
        self.queue = queue
        self._loop = loop

    def __getattr__(self, name: str) -> Callable[..., Any]:
        verb = getattr(self.queue, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            answer = verb(*args, **kwargs)
            return await answer if asyncio.iscoroutine(answer) else answer

        return lambda *args, **kwargs: self._loop.run(call(*args, **kwargs))


@contextmanager
def open_face(name: str) -> Generator[Face]:
    face = Face(name)
    try:
        yield face
    finally:
        face.close()


class Table:
    """What the database itself says, asked over a connection of the test."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self.conn = conn

    def state(self, job_id: str) -> str:
        return str(self._job(job_id, "state"))

    def error(self, job_id: str) -> str:
        return str(self._job(job_id, "error_message"))

    def attempts(self, job_id: str) -> int:
        return int(self._job(job_id, "attempts"))

    def lease_left_s(self, job_id: str) -> float:
        return float(self._job(job_id, "extract(epoch from lease_expires_at - clock_timestamp())"))

    def lease_end(self, job_id: str) -> float:
        return float(self._job(job_id, "extract(epoch from lease_expires_at)"))

    def held(self, reader: Reader | None = None) -> list[str]:
        """Jobs that are held now: by this stream, or by anybody."""
        return self._ids("state in ('RUNNING', 'CANCELLING')", reader)

    def waiting(self) -> list[str]:
        return self._ids("state not in ('RUNNING', 'CANCELLING', 'DEAD')", None)

    def await_state(self, job_id: str, *states: str) -> None:
        until(lambda: self.state(job_id) in states, f"{job_id} is not {states} but {self.state(job_id)}")

    def await_held(self, reader: Reader | None, count: int) -> None:
        until(lambda: len(self.held(reader)) == count, f"{self.held(reader)} are held, not {count}")

    def lapse(self, *job_ids: str) -> None:
        """Have overdue leases swept; a job that its keeper looks at just now is passed over, so ask again."""

        def are_swept() -> bool:
            self.say("select count(*) from holdfast.lapse_leases()")
            return not set(job_ids) & set(self.held())

        until(are_swept, f"{job_ids} are held for ever")

    def take_over(self, job_id: str) -> None:
        """Claim a job whose lease is overdue for another worker; as above, perhaps not at the first time."""
        claim = "select job_id from holdfast.claim_jobs('other', array['default'])"
        until(lambda: self.say(claim) == job_id, f"{job_id} cannot be claimed")

    def say(self, sql: str, *parameters: object) -> Any:
        row = self.conn.execute(sql.encode(), parameters or None).fetchone()
        return None if row is None else row[0]

    def _ids(self, condition: str, reader: Reader | None) -> list[str]:
        sql = f"select job_id from holdfast.jobs_with_status where {condition}"
        if reader is not None:
            sql += f" and stream_id = {reader.inside.terms.stream_id}"
        return [job_id for (job_id,) in self.conn.execute(f"{sql} order by 1".encode()).fetchall()]

    def _job(self, job_id: str, column: str) -> Any:
        sql = (
            f"select {column} from holdfast.job_details where job_id = %s "
            f"union all select {column} from holdfast.jobs_archive where job_id = %s"
        )
        row = self.conn.execute(sql.encode(), [job_id, job_id]).fetchone()
        assert row is not None, f"there is no job {job_id}"
        return row[0]


def jobs(*ids: str, **more: Any) -> list[Job]:
    return [Job(job_id, **more) for job_id in ids]


def numbered(count: int, prefix: str = "job") -> list[str]:
    return [f"{prefix} {number:04}" for number in range(count)]


def backends(conn: psycopg.Connection[Any]) -> list[int]:
    """The sessions of everybody but the test itself."""
    sql = "select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    return [pid for (pid,) in conn.execute(sql.encode()).fetchall()]
