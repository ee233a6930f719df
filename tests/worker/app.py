"""An app whose tasks are run by workers in other processes, and by children of workers."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from holdfast import Holdfast, JobContext, PermanentError, RetryAfter, Snooze, current_job

hf = Holdfast()


def note(path: str, word: str = "") -> None:
    """Append a line that others can wait for: who runs which attempt of what."""
    job = current_job()
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{job.job_id} {os.getpid()} {job.attempt} {time.time()} {word}\n")


@hf.task
async def mark(path: str) -> None:
    note(path)


@hf.task
async def linger(path: str, seconds: float) -> str:
    note(path, "began")
    await asyncio.sleep(seconds)
    note(path, "ended")
    return "done"


@hf.task
def linger_in_thread(path: str, seconds: float) -> str:
    note(path, "began")
    time.sleep(seconds)
    note(path, "ended")
    return "done"


@hf.task(run_in="process")
def linger_in_process(path: str, seconds: float) -> str:
    note(path, "began")
    time.sleep(seconds)
    note(path, "ended")
    return "done"


@hf.task(context=True)
def heed(context: JobContext, path: str) -> str:
    """Stop when told so, and say why."""
    note(path, "began")
    while not context.cancelled():
        time.sleep(0.01)
    note(path, "cancelled")
    return "late"


@hf.task
async def kill_the_worker(path: str) -> None:
    note(path)
    os.kill(os.getpid(), signal.SIGKILL)


@hf.task(run_in="process")
def kill_the_child(path: str) -> None:
    note(path)
    os.kill(os.getpid(), signal.SIGKILL)


@hf.task(run_in="process", context=True, tags=["a", "b"])
def describe(context: JobContext) -> dict[str, Any]:
    context.progress(1, 4, "begun")
    context.log("hello", colour="blue")
    job = current_job()
    return {
        "job_id": job.job_id,
        "attempt": context.attempt,
        "tags": list(context.tags),
        "deadline": None if context.deadline is None else context.deadline.isoformat(),
        "cancelled": context.cancelled(),
        "shutting_down": context.shutting_down(),
        "pid": os.getpid(),
    }


@hf.task(run_in="process")
async def describe_async() -> str:
    await asyncio.sleep(0)
    return current_job().job_id


@hf.task(run_in="process")
def give(kind: str) -> Any:
    return {"bytes": b"\x00\xff" * 1000, "json": {"a": [1, 2.5, None]}, "object": object(), "none": None}[
        kind
    ]


class Hostile:
    """What cannot be stored, and fights back when it is asked for its text."""

    def __repr__(self) -> str:
        raise SystemExit(3)


def nested(depth: int) -> Any:
    return [nested(depth - 1)] if depth else 1


ODD: dict[str, Callable[[], Any]] = {
    "nan": lambda: [1, math.nan],
    "infinity": lambda: {"a": -math.inf},
    "nul": lambda: "a\0b",
    "nul in a key": lambda: {"a\0b": 1},
    "surrogate": lambda: ["\ud800"],
    "long integer": lambda: 10**4300,
    "large": lambda: "x" * 2_000_000,
    "large bytes": lambda: b"x" * 2_000_000,
    "deepest": lambda: nested(256),
    "too deep": lambda: nested(257),
    "large float": lambda: [1e23, 10**23],
    "object": object,
    "objects": lambda: {"a": [object()]},
    "hostile": Hostile,
}
"""Results that PostgreSQL cannot store as they are, or only just."""


@hf.task(run_in="process")
def give_odd(kind: str) -> Any:
    return ODD[kind]()


@hf.task
def give_odd_in_thread(kind: str) -> Any:
    return ODD[kind]()


@hf.task(run_in="process", timeout=30)
def blow(kind: str) -> None:
    match kind:
        case "retry_after":
            raise RetryAfter(77)
        case "snooze":
            raise Snooze(77)
        case "permanent":
            raise PermanentError("no use")
        case "exit":
            raise SystemExit(3)
        case _:
            raise ValueError(kind)


@hf.task(run_in="process")
def stubborn(path: str) -> None:
    """Cannot be stopped but by SIGKILL."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note(path, "began")
    while True:
        with suppress(BaseException):
            time.sleep(60)


@hf.task(run_in="process", context=True)
def wait_for_shutdown(context: JobContext, path: str) -> str:
    note(path, "began")
    while not context.shutting_down():
        time.sleep(0.01)
    return "saw it"
