"""What all Python adapters share. Standard library only: it runs in every contender's environment.

An adapter is a program: `adapter.py setup`, `bulk FIRST JOBS`, `single FIRST JOBS`, `spaced FIRST JOBS` or
`work PROCESSES`. All but `work` print one line of JSON. Job N carries the number N; its handler calls
`record(N)` and does nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

DSN = os.environ.get("PEERS_DSN", "")
REDIS_URL = os.environ.get("PEERS_REDIS_URL", "")
SETTINGS: dict[str, Any] = json.loads(os.environ.get("PEERS_SETTINGS", "{}"))
SEEN = Path(os.environ.get("PEERS_SEEN", "."))
STAMPED = os.environ.get("PEERS_STAMPED") == "1"

PAUSES_S = (0.020, 0.050)
FLUSH_S = 0.010


def recorder() -> Callable[[int], object]:
    """For handlers that all run in this process: keep in memory, write every 10 ms from a thread."""
    pending: list[Any] = []

    def flush() -> None:
        with (SEEN / f"{os.getpid()}.seen").open("ab", buffering=0) as file:
            while True:
                time.sleep(FLUSH_S)
                if batch := pending[:]:
                    del pending[: len(batch)]
                    file.write(b"".join(map(_stamped_line if STAMPED else _line, batch)))

    threading.Thread(target=flush, daemon=True).start()
    if STAMPED:
        return lambda number: pending.append((number, time.monotonic_ns()))
    return pending.append


def fork_safe_recorder() -> Callable[[int], object]:
    """For handlers that run in processes forked from this one: write at once."""
    files: dict[int, int] = {}

    def record(number: int) -> None:
        now = time.monotonic_ns()
        pid = os.getpid()
        if pid not in files:
            files[pid] = os.open(SEEN / f"{pid}.seen", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(files[pid], _stamped_line((number, now)) if STAMPED else _line(number))

    return record


def _line(number: int) -> bytes:
    return b"%09d\n" % number


def _stamped_line(pair: tuple[int, int]) -> bytes:
    return b"%09d %019d\n" % pair


def chunks(numbers: range, size: int) -> Iterator[range]:
    """The numbers in ranges of at most this size."""
    for start in range(numbers.start, numbers.stop, size):
        yield range(start, min(start + size, numbers.stop))


class Adapter:
    """The verbs of a contender whose client is synchronous."""

    def setup(self) -> None:
        """Install it into an empty database."""

    def open(self) -> None:
        """Connect, for enqueueing."""

    def bulk(self, numbers: range) -> None:
        """Enqueue all of them as quickly as its documentation knows how."""
        raise NotImplementedError

    def one(self, number: int) -> None:
        """Enqueue one job; it is stored when this returns."""
        raise NotImplementedError

    def close(self) -> None:
        """Disconnect."""

    def work(self, processes: int) -> None:
        """Run jobs until killed."""
        raise NotImplementedError


class AsyncAdapter:
    """The verbs of a contender whose client is asynchronous; they mean the same."""

    async def setup(self) -> None: ...
    async def open(self) -> None: ...
    async def bulk(self, numbers: range) -> None:
        raise NotImplementedError

    async def one(self, number: int) -> None:
        raise NotImplementedError

    async def close(self) -> None: ...
    async def work(self, processes: int) -> None:
        raise NotImplementedError


def main(adapter: Adapter | AsyncAdapter) -> None:
    """Do what the command line says."""
    verb, *arguments = sys.argv[1:]
    numbers = [int(argument) for argument in arguments]
    if isinstance(adapter, AsyncAdapter):
        answer = _run(_do_async(adapter, verb, numbers))
    else:
        answer = _do(adapter, verb, numbers)
    print(json.dumps(answer), flush=True)


def _run(work: Awaitable[Any]) -> Any:
    """On uvloop where the contender's environment has it."""

    async def whole() -> Any:
        return await work

    try:
        import uvloop
    except ImportError:
        return asyncio.run(whole())
    return uvloop.run(whole())


def _do(adapter: Adapter, verb: str, numbers: list[int]) -> dict[str, Any]:
    if verb == "setup":
        adapter.setup()
        return {}
    if verb == "work":
        adapter.work(numbers[0])
        return {}
    jobs = range(numbers[0], numbers[0] + numbers[1])
    adapter.open()
    began_s = time.perf_counter()
    stamps = []
    if verb == "bulk":
        adapter.bulk(jobs)
    for number in () if verb == "bulk" else jobs:
        if verb == "spaced":
            stamps.append(time.monotonic_ns())
        adapter.one(number)
        if verb == "spaced":
            time.sleep(random.uniform(*PAUSES_S))
    seconds = time.perf_counter() - began_s
    adapter.close()
    return {"jobs": len(jobs), "seconds": seconds, "stamps": stamps}


async def _do_async(adapter: AsyncAdapter, verb: str, numbers: list[int]) -> dict[str, Any]:
    if verb == "setup":
        await adapter.setup()
        return {}
    if verb == "work":
        await adapter.work(numbers[0])
        return {}
    jobs = range(numbers[0], numbers[0] + numbers[1])
    await adapter.open()
    began_s = time.perf_counter()
    stamps = []
    if verb == "bulk":
        await adapter.bulk(jobs)
    for number in () if verb == "bulk" else jobs:
        if verb == "spaced":
            stamps.append(time.monotonic_ns())
        await adapter.one(number)
        if verb == "spaced":
            await asyncio.sleep(random.uniform(*PAUSES_S))
    seconds = time.perf_counter() - began_s
    await adapter.close()
    return {"jobs": len(jobs), "seconds": seconds, "stamps": stamps}
