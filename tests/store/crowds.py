"""Tasks and threads that use one store at once, and a gate in the database where their calls are held."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any, Protocol

import psycopg

from holdfast.domain.job import NewJob
from holdfast.store import Call, Store, SyncStore
from holdfast.store.calls.together import submit_one

GATE = """
create sequence public.comers;
create table public.gate (admitted bigint);
insert into public.gate values (1000000);
create function public.wait_at_gate() returns trigger language plpgsql as $$
declare
  v_number bigint := 0;
begin
  if current_setting('application_name') = 'crowd' then
    v_number := nextval('public.comers');
  end if;
  while v_number > (select admitted from public.gate) loop
    perform pg_sleep(0.005);
  end loop;
  return null;
end $$;
create trigger gate before insert on holdfast.jobs execute function public.wait_at_gate();
"""

Submission = Future[list[str]]


class Gate:
    """Where submissions of the crowd can be held, in the middle of their call; nobody waits for a lock."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn
        conn.execute(GATE)

    @contextmanager
    def shut(self) -> Generator[None]:
        """Hold whoever comes, until the end of the block."""
        self._conn.execute(
            "update public.gate set admitted = coalesce("
            "(select last_value from pg_sequences where sequencename = 'comers'), 0)"
        )
        try:
            yield
        finally:
            self._conn.execute("update public.gate set admitted = 1000000")

    def admit_one(self) -> None:
        """Let one more call through."""
        self._conn.execute("update public.gate set admitted = admitted + 1")

    def wait_for(self, calls: int) -> None:
        """Wait until so many calls are held here."""
        eventually(lambda: len(self._sessions()) == calls)

    def end_sessions(self) -> None:
        """End those who are held here, as an administrator would."""
        for pid in self._sessions():
            self._conn.execute("select pg_terminate_backend(%s, 5000)", [pid])

    def _sessions(self) -> list[int]:
        query = "select pid from pg_stat_activity where application_name = 'crowd' and wait_event = 'PgSleep'"
        return [pid for (pid,) in self._conn.execute(query).fetchall()]


class Crowd(Protocol):
    """Tasks or threads that use one store at the same time."""

    store: Any

    def start(self, job: NewJob | Call[list[str]]) -> Submission:
        """Submit a job in a task or thread of its own."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class Threads:
    def __init__(self, store: SyncStore, pool: ThreadPoolExecutor) -> None:
        self.store = store
        self._pool = pool

    def start(self, job: NewJob | Call[list[str]]) -> Submission:
        return self._pool.submit(self.store.run, _call(job))

    def close(self) -> None:
        self.store.close()


class Tasks:
    def __init__(self, store: Store, loop: asyncio.AbstractEventLoop) -> None:
        self.store = store
        self._loop = loop

    def start(self, job: NewJob | Call[list[str]]) -> Submission:
        return asyncio.run_coroutine_threadsafe(self.store.run(_call(job)), self._loop)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.store.close(), self._loop).result()


def _call(job: NewJob | Call[list[str]]) -> Call[list[str]]:
    return submit_one(job) if isinstance(job, NewJob) else job


@contextmanager
def tasks(dsn: str) -> Generator[Tasks]:
    with asyncio.Runner() as runner, ThreadPoolExecutor(1) as thread:
        loop, store = runner.get_loop(), Store(dsn)
        over = asyncio.Event()
        turning = thread.submit(runner.run, over.wait())
        asyncio.run_coroutine_threadsafe(store.open(), loop).result()
        try:
            yield Tasks(store, loop)
        finally:
            asyncio.run_coroutine_threadsafe(store.close(), loop).result()
            loop.call_soon_threadsafe(over.set)
            turning.result()


@contextmanager
def threads(dsn: str) -> Generator[Threads]:
    with SyncStore(dsn) as store, ThreadPoolExecutor(50) as pool:
        yield Threads(store, pool)


def eventually(condition: Callable[[], bool]) -> None:
    until = monotonic() + 10
    while not condition():
        assert monotonic() < until
        threading.Event().wait(0.002)


def line_up(crowd: Crowd, *jobs: NewJob | Call[list[str]]) -> list[Submission]:
    """Start submissions one after the other, each when the one before it waits in line."""
    started = []
    for job in jobs:
        waiting = in_line(crowd)
        started.append(crowd.start(job))
        eventually(partial(_has_grown, crowd, waiting))
    return started


def _has_grown(crowd: Crowd, before: int) -> bool:
    return in_line(crowd) == before + 1


def in_line(crowd: Crowd) -> int:
    return len(crowd.store._group._line._waiting)


def payloads(conn: psycopg.Connection[Any]) -> dict[str, Any]:
    """Every job of the database, by its id."""
    rows = conn.execute("select job_id, payload from holdfast.jobs_with_status").fetchall()
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def commits(conn: psycopg.Connection[Any]) -> int:
    row = conn.execute("select count(distinct xmin::text) from holdfast.jobs").fetchone()
    assert row is not None
    return int(row[0])
