"""From a function to a task: what `@hf.task` does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, overload

from holdfast.domain.measures import seconds
from holdfast.domain.retry import Retry, retry_from
from holdfast.errors import InvalidArgument
from holdfast.tasks.calls import CallShape
from holdfast.tasks.context import JobContext
from holdfast.tasks.naming import task_name
from holdfast.tasks.options import TaskOptions, refuse_unknown, run_in_of, terms_of, text, texts
from holdfast.tasks.registry import Registry
from holdfast.tasks.task import AsyncTask, Definition, Sender, SyncTask

P = ParamSpec("P")
R = TypeVar("R")

_STAYS_WITH_THE_TASK: Final = ("retry", "timeout", "run_in", "name", "aliases")


class TaskDecorator:
    """`@hf.task(...)` with its options, waiting for the function."""

    def __init__(self, sender: Sender, registry: Registry, options: Mapping[str, Any]) -> None:
        self._sender = sender
        self._registry = registry
        self._options = options

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]]) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[P, R]) -> SyncTask[P, R]: ...
    def __call__(self, fn: Callable[..., Any]) -> SyncTask[..., Any] | AsyncTask[..., Any]:
        return define(fn, self._sender, self._registry, self._options, context=False)


class ContextTaskDecorator:
    """`@hf.task(context=True, ...)` waiting for the function, whose first argument no caller passes."""

    def __init__(self, sender: Sender, registry: Registry, options: Mapping[str, Any]) -> None:
        self._sender = sender
        self._registry = registry
        self._options = options

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[Concatenate[JobContext, P], Coroutine[Any, Any, R]]
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[JobContext, P], R]) -> SyncTask[P, R]: ...
    def __call__(self, fn: Callable[..., Any]) -> SyncTask[..., Any] | AsyncTask[..., Any]:
        return define(fn, self._sender, self._registry, self._options, context=True)


def define(
    fn: Callable[..., Any],
    sender: Sender,
    registry: Registry,
    options: Mapping[str, Any],
    *,
    context: bool,
) -> SyncTask[..., Any] | AsyncTask[..., Any]:
    """Make a task of a function and register it; raise TypeError, InvalidArgument or TaskExists."""
    _refuse_what_is_no_handler(fn)
    refuse_unknown(options, TaskOptions.__annotations__, "@hf.task")
    name = text(options["name"], "name") if "name" in options else task_name(fn)
    is_async = inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004
    run_in = run_in_of(options.get("run_in"), is_async=is_async)
    if run_in == "process" and "<locals>" in getattr(fn, "__qualname__", ""):
        raise InvalidArgument(
            f'task {name}: run_in="process" needs a function at module level, for another process to import'
        )
    definition = Definition(
        fn=fn,
        name=name,
        aliases=texts(options.get("aliases", ()), "aliases"),
        sender=sender,
        shape=CallShape(fn, name, context=context),
        run_in=run_in,
        is_async=is_async,
        wants_context=context,
        retry=retry_from(options["retry"]) if "retry" in options else Retry(),
        timeout_s=seconds(options["timeout"], "timeout", positive=True) if "timeout" in options else None,
    )
    terms = terms_of(
        {key: value for key, value in options.items() if key not in _STAYS_WITH_THE_TASK}, "@hf.task"
    )
    kind: type[AsyncTask[..., Any]] | type[SyncTask[..., Any]] = AsyncTask if is_async else SyncTask
    task = kind(definition, terms)
    registry.add(task)
    return task


def _refuse_what_is_no_handler(fn: object) -> None:
    if isinstance(fn, SyncTask | AsyncTask):
        raise InvalidArgument(f"{fn!r} is a task already")
    if isinstance(fn, str):
        raise InvalidArgument(f"@hf.task({fn!r}): name what it is, @hf.task(queue={fn!r}) or name={fn!r}")
    if isinstance(fn, staticmethod | classmethod | type) or not callable(fn):
        raise InvalidArgument(f"@hf.task makes tasks of functions, not of {fn!r}")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise InvalidArgument(f"{fn!r} is a generator: a task returns one result; return a list")
