"""What needs several calls, as steps: it says what to ask of the database, one call after the other.

So each thing is written once, for asyncio and for threads: verbs of a queue, turns of a feeder, what a handle
or a page of the console does. Whoever runs the steps awaits or blocks; it decides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from dataclasses import dataclass
from time import sleep
from typing import Any, TypeAlias, TypeVar

from holdfast.store.call import Call
from holdfast.store.store import Store
from holdfast.store.sync_store import SyncStore

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so long, then go on."""

    seconds: float


Steps: TypeAlias = Generator[Call[Any] | Pause, Any, R]
"""Something on its way: it yields a call or a pause, is sent the answer, and returns what it comes to."""


def ask(call: Call[R]) -> Steps[R]:
    """Ask one thing, and have the type of its answer."""
    answer: R = yield call
    return answer


async def run_awaiting(store: Store, steps: Steps[R]) -> R:
    """Take steps to their end, awaiting each; what a call raises is raised in them."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await (asyncio.sleep(step.seconds) if isinstance(step, Pause) else store.run(step))
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as done:
        result: R = done.value
        return result
    finally:
        steps.close()


def run_blocking(store: SyncStore, steps: Steps[R]) -> R:
    """Take steps to their end, blocking on each; what a call raises is raised in them."""
    try:
        step = next(steps)
        while True:
            answer = None
            try:
                if isinstance(step, Pause):
                    sleep(step.seconds)
                else:
                    answer = store.run(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as done:
        result: R = done.value
        return result
    finally:
        steps.close()
