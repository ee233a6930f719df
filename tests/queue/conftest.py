"""Both faces of the queue on the test's database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

from holdfast import Queue, SyncQueue
from tests.queue.hand import on_loop
from tests.queue.streaming import Face, Table, open_face

Make = Callable[..., SyncQueue]


@pytest.fixture(params=["async", "sync"])
def face(request: pytest.FixtureRequest) -> str:
    """Which of the two queues a scenario is about."""
    return str(request.param)


@pytest.fixture
def make(face: str) -> Generator[Make]:
    """Make queues that are not open yet; they are closed at the end."""
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner())

        def make_queue(*args: Any, **options: Any) -> SyncQueue:
            if face == "sync":
                queue = SyncQueue(*args, **options)
            else:
                queue = on_loop(Queue(*args, **options), runner)
            stack.callback(queue.close)
            return queue

        yield make_queue


@pytest.fixture
def queue(make: Make, database: str) -> SyncQueue:
    """An open queue, blocking to look at whichever face it has."""
    queue = make(database)
    queue.open()
    return queue


@pytest.fixture
def side(face: str) -> Generator[Face]:
    """A face of the queue for streams: its event loop goes on while the test does something else."""
    with open_face(face) as opened:
        yield opened


@pytest.fixture
def table(conn: psycopg.Connection[Any]) -> Table:
    """What `database` itself says of the jobs."""
    return Table(conn)
