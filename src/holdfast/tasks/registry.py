"""The tasks an app knows, by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.errors import TaskExists, UnknownTask
from holdfast.tasks.naming import is_interactive

if TYPE_CHECKING:
    from holdfast.tasks.task import Task


class Registry:
    """Every task under its name, and under each name it had before."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any]] = {}

    def add(self, task: Task[..., Any]) -> None:
        """Take a task in; raise TaskExists if one of its names is another task's.

        A function that is defined anew from the same lines, as by a reload, or at a prompt, replaces itself.
        """
        names = (task.name, *task.aliases)
        for name in names:
            other = self._tasks.get(name)
            if other is not None and not _is_anew(other, task):
                raise TaskExists(
                    f'task name "{name}" is taken by {_place(other)}, and {_place(task)} wants it too: '
                    "give one of them another, @hf.task(name=...)"
                )
        for name in [name for name, other in self._tasks.items() if other.name == task.name]:
            del self._tasks[name]
        self._tasks.update(dict.fromkeys(names, task))

    def find(self, name: str) -> Task[..., Any]:
        """The task of this name; raise UnknownTask naming those there are."""
        task = self._tasks.get(name)
        if task is None:
            known = ", ".join(sorted(self._tasks)) or "none"
            raise UnknownTask(
                f'task "{name}" is not registered here (known: {known}). Import the module that defines it '
                "before the worker starts; if it was renamed, add its old name to the aliases of the new one"
            )
        return task

    def get(self, name: str | None) -> Task[..., Any] | None:
        """The task of this name, or None."""
        return None if name is None else self._tasks.get(name)

    def names(self) -> list[str]:
        """Every name there is, in order."""
        return sorted(self._tasks)

    def __iter__(self) -> Iterator[Task[..., Any]]:
        return iter(dict.fromkeys(self._tasks.values()))

    def __len__(self) -> int:
        return len(set(self._tasks.values()))


def _is_anew(old: Task[..., Any], new: Task[..., Any]) -> bool:
    if (old.name, _full_name(old)) != (new.name, _full_name(new)):
        return False
    return _place(old) == _place(new) or is_interactive(str(getattr(new.fn, "__module__", "")))


def _full_name(task: Task[..., Any]) -> tuple[str, str]:
    return str(getattr(task.fn, "__module__", "")), str(getattr(task.fn, "__qualname__", ""))


def _place(task: Task[..., Any]) -> str:
    code = getattr(task.fn, "__code__", None)
    module, name = _full_name(task)
    return f"{module}.{name} ({code.co_filename}:{code.co_firstlineno})" if code else f"{module}.{name}"
