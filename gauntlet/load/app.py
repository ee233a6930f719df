"""The tasks of the load. Workers run them as the product ships: `holdfast worker gauntlet.load.app:hf`."""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import resource
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gauntlet.journal import DIRECTORY_VARIABLE, journal
from holdfast import Holdfast, JobCancelled, PermanentError, Retry, Snooze, current_job

hf = Holdfast()

QUICK = Retry(8, base=0.05, multiplier=1.5, cap=0.5)
_runs = itertools.count(1)
_leaked: list[Any] = []


@contextmanager
def told() -> Generator[None]:
    """Write down that the handler begins, and how it ends."""
    job = current_job()
    book = journal("handlers")
    # A job that was taken over may run twice in one worker for a moment.
    number = next(_runs)
    book.write("begin", run=number, job=job.job_id, attempt=job.attempt)
    how = "returned"
    try:
        yield
    except (Snooze, JobCancelled, asyncio.CancelledError):
        how = "gave way"
        raise
    except BaseException:
        how = "raised"
        raise
    finally:
        book.write("end", run=number, how=how)


def first_time(word: str) -> bool:
    """Whether this job has never come here before, in any process."""
    mark = Path(os.environ[DIRECTORY_VARIABLE]) / f"{word}.{current_job().job_id}"
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


@hf.task(queue="loop", retry=QUICK)
async def plain() -> None:
    with told():
        pass


@hf.task(queue="loop", retry=QUICK)
async def linger(seconds: float) -> float:
    with told():
        await asyncio.sleep(seconds)
    return seconds


@hf.task(queue="thread", retry=QUICK)
def brief(seconds: float) -> float:
    with told():
        time.sleep(seconds)
    return seconds


@hf.task(queue="child", retry=QUICK, run_in="process")
def child(seconds: float) -> float:
    with told():
        time.sleep(seconds)
    return seconds


@hf.task(queue="loop", retry=QUICK)
async def flaky(failures: int) -> None:
    with told():
        if current_job().attempt <= failures:
            raise ValueError(f"failure {current_job().attempt} of {failures}")


@hf.task(queue="loop", retry=QUICK)
async def snoozy() -> None:
    with told():
        if first_time("snooze"):
            raise Snooze(0.1)


@hf.task(queue="loop", retry=QUICK)
async def doomed() -> None:
    with told():
        if first_time("doom"):
            raise PermanentError("no use")


@hf.task(queue="loop", retry=QUICK, timeout=0.3)
async def overdue() -> None:
    with told():
        await asyncio.sleep(30 if first_time("overdue") else 0)


# What handlers do to their workers. Each does it once; then the job behaves, so that everything can end.


@hf.task(queue="loop", retry=QUICK)
async def misbehave(how: str) -> Any:
    with told():
        return await asyncio.sleep(0, _misbehave(how)) if first_time("evil") else None


@hf.task(queue="thread", retry=QUICK, timeout=1)
def misbehave_in_thread(how: str) -> Any:
    with told():
        return _misbehave(how) if first_time("evil") else None


@hf.task(queue="child", retry=QUICK, run_in="process", timeout=10)
def misbehave_in_child(how: str) -> Any:
    with told():
        return _misbehave(how) if first_time("evil") else None


def _misbehave(how: str) -> Any:
    match how:
        case "block":
            time.sleep(3)  # longer than the lease, on the event loop
        case "leak":
            _leaked.append(bytearray(16 * 1024 * 1024))
            _leaked.append(open(os.devnull, "rb"))  # noqa: SIM115
        case "exit":
            os._exit(3)
        case "segfault":
            ctypes.string_at(0)
        case "overflow":
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            sys.setrecursionlimit(10**9)
            _fall(0)
        case "system exit":
            raise SystemExit(4)
        case "interrupt":
            raise KeyboardInterrupt
        case "unstorable":
            raise ValueError("nul \0, a lone surrogate \ud800 and " + "x" * 200_000)
        case "huge":
            return "x" * 3_000_000
        case "object":
            return object()
        case "memory":
            resource.setrlimit(resource.RLIMIT_AS, (512 * 1024 * 1024, resource.RLIM_INFINITY))
            return len(bytearray(2 * 1024 * 1024 * 1024))
        case "stubborn":
            time.sleep(2.5)
        case "close descriptors":
            os.closerange(3, 64)
        case _:
            raise AssertionError(how)
    return None


def _fall(depth: int) -> int:
    return _fall(depth + 1) + 1
