"""Find the app whose handlers a child runs."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from holdfast.domain.job import JsonValue
from holdfast.worker.children.capture import message_of
from holdfast.worker.children.context import ChildContext
from holdfast.worker.loading import loading


class Runner(Protocol):
    """What a target must be able to do."""

    def execute(self, task: str, payload: JsonValue, context: ChildContext) -> object:
        """Run the handler of a task and return its result as JSON can say it, or a coroutine that does.

        Called in the main thread. Whatever is raised, by this or by the coroutine, is the handler's error.
        """
        ...


class Untargetable(Exception):
    """The target of a child cannot be found, or is none."""


def resolve(target: str) -> Runner:
    """Import `package.module:attribute`; raise Untargetable that says which part of it failed, and why."""
    module_name, _, path = target.partition(":")
    if not module_name or not path:
        raise Untargetable(f'"{target}" is no target: it must look like package.module:attribute')
    try:
        with loading(module_name):
            found: object = import_module(module_name)
    except BaseException as error:  # a module may exit, or do anything else, when it is imported
        raise Untargetable(
            f'cannot import "{module_name}": {type(error).__name__}: {message_of(error)}'
        ) from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError as error:
            raise Untargetable(f'"{module_name}" has no "{path}" for a child to run: {error}') from error
    if not callable(getattr(found, "execute", None)):
        raise Untargetable(f'"{target}" is no Holdfast app: {type(found).__name__} has no execute()')
    return cast("Runner", found)
