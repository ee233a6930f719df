"""Many coroutines that mostly end at once, in one task: a task for each would cost more than they do."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any

Work = Coroutine[Any, Any, None]
NewTask = Callable[[Work], object]


async def in_turn(works: Iterable[Work], new_task: NewTask) -> None:
    """Run coroutines one after the other in the task of the caller, which has nothing else to do.

    Each has a context of its own, as in a task of its own. One that waits keeps the task it has begun in, and
    those behind it get tasks of their own, so that nobody waits for another. So they do if somebody still
    knows the task when his coroutine has ended: what is done to it then must not meet the next.
    """
    await _in_turn(deque(works), new_task)


@types.coroutine
def _in_turn(line: deque[Work], new_task: NewTask) -> Generator[Any, Any, None]:
    me = asyncio.current_task()
    references = sys.getrefcount(me)
    while line:
        work, context = line.popleft(), contextvars.copy_context()
        try:
            awaited = context.run(work.send, None)
        except StopIteration:
            if sys.getrefcount(me) != references or (me and me.cancelling()):
                _begin_apart(line, new_task)
        else:
            _begin_apart(line, new_task)
            yield from _go_on(work, awaited, context)


def _begin_apart(line: deque[Work], new_task: NewTask) -> None:
    while line:
        new_task(line.popleft())


def _go_on(work: Work, awaited: Any, context: contextvars.Context) -> Generator[Any, Any, None]:
    """Take a coroutine that waits to its end."""
    try:
        while True:
            try:
                answer = yield awaited
            except GeneratorExit:
                context.run(work.close)
                raise
            except BaseException as error:
                awaited = context.run(work.throw, error)
            else:
                awaited = context.run(work.send, answer)
    except StopIteration:
        return
