"""Finding the app that a command line names: `package.module:hf`, or a module with one app in it.

Whatever is wrong is said in a sentence with the next step; wrong usage, exit code 2.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import click

import holdfast

if TYPE_CHECKING:
    from holdfast.app import Holdfast

EXAMPLE = "package.module:hf"


def load_app(target: str) -> Holdfast:
    """The app a target names, with the current directory on the path; raise click.UsageError."""
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module_name, colon, name = target.partition(":")
    if not module_name or (colon and not name):
        raise click.UsageError(f'"{target}" names no app: write {EXAMPLE}')
    if module_name.endswith(".py") or "/" in module_name:
        guess = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise click.UsageError(
            f'"{target}" is a file: name the module as for import, {guess}{colon or ":"}{name or "hf"}'
        )
    module = _import(module_name)
    return _named(module, name) if name else _only(module)


def _import(name: str) -> ModuleType:
    from holdfast.worker.loading import loading

    try:
        with loading(name):
            return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise click.UsageError(_broken(name, error)) from None
        raise click.UsageError(_missing(name, error.name)) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: a script that takes its arguments apart, for one
        raise click.UsageError(_broken(name, error)) from None


def _missing(name: str, missing: str) -> str:
    where = f'"{missing}"' if missing == name else f'"{missing}", and so no "{name}"'
    return (
        f"there is no module {where} in {os.getcwd()} or on Python's path: "
        f"run this where {missing.partition('.')[0]} can be imported, and name the app as {EXAMPLE}"
    )


def _broken(name: str, error: BaseException) -> str:
    """What a module raised while it was imported, with the frames that are its own."""
    from holdfast.worker.logs import scrub

    shown = traceback.TracebackException.from_exception(error, limit=None)
    ours = str(Path(holdfast.__file__).parent)
    frames = [
        frame
        for frame in shown.stack
        if not frame.filename.startswith(("<frozen importlib", ours)) and "/importlib/" not in frame.filename
    ]
    lines = "".join([*traceback.format_list(frames), *shown.format_exception_only()])
    return scrub(f'module "{name}" cannot be imported:\n{lines}'.rstrip())


def _named(module: ModuleType, name: str) -> Holdfast:
    from holdfast.app import Holdfast

    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise click.UsageError(f'module "{module.__name__}" has no "{name}"; {_apps_in(module)}')
        found = getattr(found, part)
    if not isinstance(found, Holdfast):
        raise click.UsageError(
            f'"{module.__name__}:{name}" is not a Holdfast app but of type {type(found).__name__}; '
            f"{_apps_in(module)}"
        )
    return found


def _only(module: ModuleType) -> Holdfast:
    apps = _apps(module)
    if len({id(app) for app in apps.values()}) == 1:
        return next(iter(apps.values()))
    if apps:
        choices = ", ".join(f"{module.__name__}:{name}" for name in apps)
        raise click.UsageError(f'module "{module.__name__}" has several apps: name one of {choices}')
    raise click.UsageError(f'in module "{module.__name__}" {_apps_in(module)}')


def _apps(module: ModuleType) -> dict[str, Holdfast]:
    from holdfast.app import Holdfast

    return {name: value for name, value in vars(module).items() if isinstance(value, Holdfast)}


def _apps_in(module: ModuleType) -> str:
    if apps := _apps(module):
        return "it has " + ", ".join(f"{module.__name__}:{name}" for name in apps)
    return "there is no app: make one with hf = Holdfast()"
