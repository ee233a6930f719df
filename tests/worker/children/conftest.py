"""Pools of children, and what to do with them."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.job import JsonValue
from holdfast.worker.children import ChildPool, ChildReply, ChildRequest

APP = "tests.worker.children.app:app"
PATIENCE_S = 60.0
"""Long enough for the slowest machine: what takes this long is broken."""

_numbers = itertools.count(1)


def request(task: str, payload: object = None, **options: Any) -> ChildRequest:
    """A job for the app of these tests."""
    given = {"job_id": f"job-{next(_numbers)}", "attempt": 1, "deadline_s": None, "meta": {}, **options}
    return ChildRequest(task=task, payload=payload, **given)


class Messages:
    """What jobs said while they ran."""

    def __init__(self) -> None:
        self.all: list[tuple[str, Mapping[str, JsonValue]]] = []
        self._news = asyncio.Event()

    def __call__(self, job_id: str, message: Mapping[str, JsonValue]) -> None:
        self.all.append((job_id, message))
        self._news.set()

    def of(self, job_id: str, kind: str) -> list[Mapping[str, JsonValue]]:
        """One job's messages of one type."""
        return [message for whose, message in self.all if whose == job_id and message["type"] == kind]

    async def wait_for(self, job_id: str, kind: str = "progress", count: int = 1) -> Mapping[str, JsonValue]:
        """The so-manieth message of a type; handlers here report progress when they are under way."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := self.of(job_id, kind)) < count:
                self._news.clear()
                await self._news.wait()
        return found[count - 1]


class Hand:
    """Runs jobs in a pool."""

    def __init__(self, pool: ChildPool, messages: Messages) -> None:
        self.pool = pool
        self.messages = messages

    async def run(self, task: str, payload: object = None, **options: Any) -> ChildReply:
        """Run one job to its end."""
        async with asyncio.timeout(PATIENCE_S):
            return await self.pool.run(request(task, payload, **options))

    async def begin(self, task: str, payload: object = None) -> tuple[str, asyncio.Task[ChildReply]]:
        """Run one job until it says that it is under way."""
        job = request(task, payload)
        running = asyncio.create_task(self.pool.run(job))
        await self.messages.wait_for(job.job_id)
        return job.job_id, running


Open = Callable[..., Hand]


@pytest.fixture
async def open_pool() -> AsyncGenerator[Open]:
    """Open pools; they are closed at the end."""
    opened: list[ChildPool] = []

    def open_one(**options: Any) -> Hand:
        messages = Messages()
        given = {"size": 1, "target": APP, "on_message": messages, **options}
        opened.append(ChildPool(**given))
        return Hand(opened[-1], messages)

    yield open_one
    for pool in opened:
        await pool.close(5)


@pytest.fixture
async def hand(open_pool: Open) -> Hand:
    """A pool of one child."""
    return open_pool()


def is_alive(pid: int) -> bool:
    """Whether a process exists; a zombie does, too."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_running(pid: int) -> bool:
    """Whether a process is more than a zombie, which orphans stay where nobody collects them."""
    if not Path("/proc/self").exists():
        return is_alive(pid)
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Callable[[], bool]) -> None:
    """Look until it is so; for what no signal tells us of."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def ended(running: asyncio.Task[ChildReply]) -> ChildReply:
    """What a job came to."""
    # Not `wait_for`: that cancels, and then waits for as long as the job may take to be stopped.
    done, _ = await asyncio.wait([running], timeout=PATIENCE_S)
    assert done, "the job has not ended"
    return await running
