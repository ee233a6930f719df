"""What tests of the worker wait with."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any, TypeVar

import pytest

from holdfast import Holdfast
from holdfast.domain.job import Job
from holdfast.worker import Worker

T = TypeVar("T")

PATIENCE_S = float(os.environ.get("HOLDFAST_TEST_PATIENCE_S", "30"))
"""How long a test waits for what takes milliseconds on a machine with nothing else to do."""


async def until(what: Callable[[], T], why: str = "it never came true", within_s: float = PATIENCE_S) -> T:
    """Ask again and again until the answer is true; that answer."""
    deadline = monotonic() + within_s
    while not (answer := what()):
        assert monotonic() < deadline, why
        await asyncio.sleep(0.01)
    return answer


async def happens(event: asyncio.Event) -> None:
    """Wait for an event, but not for ever."""
    async with asyncio.timeout(PATIENCE_S):
        await event.wait()


async def in_thread(wait: Callable[[float], bool]) -> None:
    """Wait for an event of threads, but not for ever."""
    assert await asyncio.to_thread(wait, PATIENCE_S)


async def drained(worker: Worker) -> None:
    async with asyncio.timeout(PATIENCE_S * 2):
        await worker.drain()


@asynccontextmanager
async def at_work(
    hf: Holdfast, queues: dict[str, int] | None = None, **settings: Any
) -> AsyncGenerator[Worker]:
    """A worker that is told to hurry when the test is over, so that a failure does not take a minute."""
    worker = hf.worker(queues or {"default": 10}, **{"shutdown_timeout": 10.0, **settings})
    async with worker:
        try:
            yield worker
        except BaseException:
            worker.stop()
            worker.stop()
            raise


async def run_one(hf: Holdfast, handle: Any, **settings: Any) -> Job:
    """Run all there is with a worker of its own; how the job stands afterwards."""
    async with at_work(hf, **settings) as worker:
        await drained(worker)
    info: Job = await handle.ainfo()
    return info


def events(caplog: pytest.LogCaptureFixture, event: str) -> list[logging.LogRecord]:
    """The log lines of one event."""
    return [record for record in caplog.records if getattr(record, "event", None) == event]
