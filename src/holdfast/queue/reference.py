"""The reference page of the queue API, drawn from the docstrings: `python -m holdfast.queue.reference`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from holdfast import errors
from holdfast.queue.faces import Stream, SyncStream
from holdfast.queue.queue import Queue
from holdfast.queue.sync_queue import SyncQueue
from holdfast.queue.values import Job, JobStats, JobStatus, Verdict

_INTRODUCTION = """\
# Queue API reference

Drawn from the docstrings by `make schema`; change them there.
[Write your own worker](../guides/write-your-own-worker.md) shows how it is used.

`from holdfast import Job, JobStatus, JobStats, Queue, SyncQueue, Verdict`. Durations are seconds or a
`timedelta`; moments are aware datetimes and come back in UTC; every id is text.
"""

_SAME = """\
`SyncQueue` has the methods of `Queue` with the same parameters and answers; they block, and may be called
from any thread.
"""

_ERRORS = "All of them are in `holdfast.errors`."


def render() -> str:
    """The whole page."""
    parts = [_INTRODUCTION, *_described(Queue), "## SyncQueue", _doc(SyncQueue), _SAME]
    for kind in (Stream, SyncStream):
        parts += _described(kind)
    for value in (Job, JobStats, Verdict):
        parts += [f"## {value.__name__}", _doc(value), _fields(value)]
    parts += ["## JobStatus", _doc(JobStatus), ", ".join(f"`{state}`" for state in JobStatus) + "."]
    parts += ["## Errors", _ERRORS, f"```\n{_tree()}\n```"]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def public_methods(kind: type) -> dict[str, Any]:
    """What a class offers by name, in the order it is written down, its ancestors' own first."""
    found: dict[str, Any] = {}
    for ancestor in reversed(kind.__mro__[:-1]):
        for name, member in vars(ancestor).items():
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                found[name] = member
    return found


def _described(kind: type) -> Iterator[str]:
    yield f"## {kind.__name__}"
    yield (
        f"```python\n{kind.__name__}{_parameters(vars(kind)['__init__'])}\n```"
        if "Queue" in kind.__name__
        else ""
    )
    yield _doc(kind)
    for name, method in public_methods(kind).items():
        yield f"### {name}" if kind is Queue else f"### {kind.__name__}.{name}"
        if not isinstance(method, property):
            keyword = "async def" if inspect.iscoroutinefunction(method) else "def"
            yield f"```python\n{keyword} {name}{_parameters(method)}\n```"
        yield _doc(method)


def _parameters(function: Callable[..., Any]) -> str:
    """As it is written in the code: annotations are texts there, and stay so."""
    shown = inspect.signature(function)
    written: list[str] = []
    for each in shown.parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and "*" not in written:
            written.append("*")
        default = "" if each.default is each.empty else f" = {each.default!r}"
        written.append(f"{each.name}: {each.annotation}{default}")
    answer = "" if function.__name__ == "__init__" else f" -> {shown.return_annotation}"
    return f"({', '.join(written)}){answer}"


def _doc(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def _fields(value: type) -> str:
    names = getattr(value, "__dataclass_fields__", {})
    return "Fields: " + ", ".join(f"`{name}`" for name in names) + "."


def _tree() -> str:
    return (errors.__doc__ or "").split("\n\n", 1)[1].strip()


if __name__ == "__main__":
    print(render(), end="")
