"""Verbs as steps: a verb says what to ask of the database, one call after the other, and makes its answer.

So each verb is written once. `Queue` awaits the calls and `SyncQueue` blocks on them; neither decides. The
feeders' turns are steps as well.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from holdfast.store import Call, Store, SyncStore

R = TypeVar("R")

Steps: TypeAlias = Generator[Call[Any], Any, R]
"""A verb on its way: it yields a call, is sent the answer, and returns what the verb answers."""


def ask(call: Call[R]) -> Steps[R]:
    """Ask one thing, and have the type of its answer."""
    answer: R = yield call
    return answer


async def run_awaiting(store: Store, steps: Steps[R]) -> R:
    """Take steps to their end, awaiting each call; what a call raises is raised in them."""
    try:
        call = next(steps)
        while True:
            try:
                answer = await store.run(call)
            except Exception as error:
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as done:
        result: R = done.value
        return result
    finally:
        steps.close()


def run_blocking(store: SyncStore, steps: Steps[R]) -> R:
    """Take steps to their end, blocking on each call; what a call raises is raised in them."""
    try:
        call = next(steps)
        while True:
            try:
                answer = store.run(call)
            except Exception as error:
                call = steps.throw(error)
            else:
                call = steps.send(answer)
    except StopIteration as done:
        result: R = done.value
        return result
    finally:
        steps.close()
