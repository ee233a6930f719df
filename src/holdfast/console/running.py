"""Going through steps on the connections of an app. An error is raised where the step was asked for."""

from __future__ import annotations

import asyncio
from time import sleep
from typing import Any, TypeVar

from holdfast.app import Holdfast
from holdfast.client.steps import Pause, Steps
from holdfast.errors import HoldfastError

R = TypeVar("R")


def run(app: Holdfast, steps: Steps[R]) -> R:
    """Go through the steps, blocking."""
    store = app.stores.blocking()
    try:
        step = next(steps)
        while True:
            answer: Any = None
            try:
                if isinstance(step, Pause):
                    sleep(step.seconds)
                else:
                    answer = store.run(step)
            except HoldfastError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        value: R = end.value
        return value


async def arun(app: Holdfast, steps: Steps[R]) -> R:
    """Go through the steps, for asyncio."""
    store = await app.stores.asynchronous()
    try:
        step = next(steps)
        while True:
            answer: Any = None
            try:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                else:
                    answer = await store.run(step)
            except HoldfastError as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        value: R = end.value
        return value
