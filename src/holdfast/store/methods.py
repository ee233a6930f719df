"""Described calls into methods, without writing any signature twice."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from holdfast.store.call import Call

if TYPE_CHECKING:
    from holdfast.store.async_calls import AsyncCalls
    from holdfast.store.sync_calls import SyncCalls

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


def asynchronous(
    describe: Callable[P, Call[R]],
) -> Callable[Concatenate[AsyncCalls, P], Coroutine[Any, Any, R]]:
    """Make a coroutine method that describes a call and runs it."""

    @wraps(describe)
    async def method(self: AsyncCalls, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.run(describe(*args, **kwargs))

    return _shown_as(describe, method)


def blocking(describe: Callable[P, Call[R]]) -> Callable[Concatenate[SyncCalls, P], R]:
    """Make a method that describes a call and runs it."""

    @wraps(describe)
    def method(self: SyncCalls, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.run(describe(*args, **kwargs))

    return _shown_as(describe, method)


def _shown_as(describe: Callable[..., Call[Any]], method: F) -> F:
    """For `help` and for editors: the parameters of what describes the call, and what the method returns."""
    described = signature(describe)
    itself = Parameter("self", Parameter.POSITIONAL_ONLY)
    answer = str(described.return_annotation).removeprefix("Call[").removesuffix("]")
    shown = described.replace(parameters=[itself, *described.parameters.values()], return_annotation=answer)
    method.__signature__ = shown  # type: ignore[attr-defined]
    return method
