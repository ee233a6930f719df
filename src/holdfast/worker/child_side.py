"""What an app does in a child process: find the handler, give it its context, and tell what it returned."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.domain.content import storable_text
from holdfast.domain.job import JsonValue
from holdfast.errors import JobCancelled
from holdfast.store.calls.settling import storable_content
from holdfast.tasks.context import JobContext, running
from holdfast.tasks.registry import Registry
from holdfast.tasks.task import Task, decode_arguments, encode_result, unstorable
from holdfast.worker.children.context import ChildContext

BYTES: Final = "bytes"
JSON: Final = "json"
UNSTORABLE: Final = "unstorable"
"""What kind of result comes through the pipe: bytes in base64, JSON as its text, or what is wrong with it."""


class _Context(JobContext):
    """The job in hand, in a child."""

    def __init__(self, child: ChildContext) -> None:
        self.job_id = child.job_id
        self.attempt = child.attempt
        self.tags = tuple(str(tag) for tag in child.meta.get("tags", ()))  # type: ignore[union-attr]
        seconds = child.deadline_s
        self.deadline = None if seconds is None else datetime.now(UTC) + timedelta(seconds=seconds)
        self._child = child

    def cancelled(self) -> bool:
        return self._child.cancelled()

    def shutting_down(self) -> bool:
        return self._child.shutting_down()

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        self._child.progress(done, total, message)

    def log(self, message: str, **fields: Any) -> None:
        self._child.log(message, **fields)


def execute(registry: Registry, name: str, payload: JsonValue, child: ChildContext) -> object:
    """Run the handler of a task; its kind of result and the result, or a coroutine that brings both."""
    task = registry.find(name)
    context = _Context(child)
    args, kwargs = decode_arguments(task, payload)
    if task.wants_context:
        args = [context, *args]
    if task.is_async:
        return _awaited(task, context, args, kwargs)
    with running(context):
        return _told(task, task.fn(*args, **kwargs))


def _awaited(
    task: Task[..., Any], context: JobContext, args: list[Any], kwargs: dict[str, Any]
) -> Coroutine[Any, Any, object]:
    async def run() -> object:
        with running(context):
            return _told(task, await task.fn(*args, **kwargs))

    return run()


def _told(task: Task[..., Any], value: object) -> list[object]:
    """What goes over the pipe: storable, all of it, so that a result ends a job here as it does elsewhere."""
    try:
        text, raw = storable_content(encode_result(task, value))
    except JobCancelled:  # the stop came just now; it is not about the result
        raise
    except BaseException as error:  # it may be of a class that fights back
        return [UNSTORABLE, storable_text(unstorable(value, error))]
    return [JSON, text] if raw is None else [BYTES, b64encode(raw).decode()]
