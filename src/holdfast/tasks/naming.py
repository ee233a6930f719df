"""What a task is called in the database: so that a worker, which imports its module, finds it there."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from holdfast.errors import InvalidArgument

_MAIN: Final = ("__main__", "__mp_main__")
"""A script that was started, and the same in a child of multiprocessing."""


def task_name(fn: Callable[..., Any]) -> str:
    """`module.qualname`; for a script that was started, by the module name a worker would import."""
    qualname = getattr(fn, "__qualname__", None)
    if not isinstance(qualname, str):
        raise InvalidArgument(f"{fn!r} has no name of its own: give one, @hf.task(name=...)")
    if "<lambda>" in qualname:
        raise InvalidArgument("a lambda has no name a worker could find: write a def, or give name=")
    return f"{module_name(fn.__module__)}.{qualname}"


def module_name(name: str) -> str:
    """The name under which others import this module.

    A script is `python shop.py` to whoever starts it, and `shop` to a worker; `python -m shop.main` is
    `shop.main`. In a notebook or at a prompt there is nothing to import: the name stays `__main__`, and only
    a worker in the same process can run its tasks.
    """
    if name not in _MAIN:
        return name
    module = sys.modules.get("__main__")
    return (module and (_name_in_spec(module) or _name_of_file(module))) or "__main__"


def is_interactive(name: str) -> bool:
    """Whether the module is a notebook or a prompt, where functions are defined over and over."""
    return name in _MAIN and module_name(name) == "__main__"


def _name_in_spec(module: ModuleType) -> str | None:
    spec = getattr(module, "__spec__", None)
    name = getattr(spec, "name", None)
    return name if name and name not in _MAIN else None


def _name_of_file(module: ModuleType) -> str | None:
    file = getattr(module, "__file__", None)
    if not file:
        return None
    path = Path(file).resolve()
    parts = [path.stem]
    for directory in path.parents:
        # A file within a package is imported by way of the package.
        if not (directory / "__init__.py").is_file():
            break
        parts.insert(0, directory.name)
    return ".".join(parts)
