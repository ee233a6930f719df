"""`holdfast worker`: run the jobs of an app's queues until told to stop."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, cast

import click
from click.core import ParameterSource

from holdfast.cli.speaking import log_options
from holdfast.config import SCHEMA_VARIABLE, schema_name
from holdfast.errors import InvalidArgument
from holdfast.worker.settings import ENVIRONMENT, Settings, settings_from

logger: Final = logging.getLogger("holdfast.worker")

DEFAULT_QUEUES: Final = {"default": 10}

HELP: Final = {
    "lease": "Seconds a job is held between two signs of life of the worker; at least 1.",
    "shutdown_timeout": "Seconds a stop waits for handlers before it asks them to give up.",
    "resource_busy_delay": "Seconds after which a job whose resource was busy is tried again.",
    "poll_active": "Seconds of the shortest poll, after work was found.",
    "poll_idle": "Seconds of the longest poll, when there is none.",
    "kill_after": "Seconds a child process has between SIGTERM and SIGKILL.",
    "child_max_jobs": "Replace a child process after so many jobs.",
    "child_max_rss": "Replace a child process that uses more memory than this after a job, as in 512MB.",
}
"""What each setting of a worker is for; defaults and names are those of Settings."""


class QueueSize(click.ParamType[tuple[str, int]]):
    """`name=concurrency`, or a name alone."""

    name = "NAME=N"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        if isinstance(value, tuple):
            return cast("tuple[str, int]", value)
        name, equals, size = str(value).partition("=")
        if not name or (equals and not size):
            self.fail(
                f'"{value}" lacks a part: write --queue {name or "default"}=10, jobs at a time', param, ctx
            )
        if not size:
            return name, DEFAULT_QUEUES["default"]
        if not size.isdecimal() or int(size) < 1:
            self.fail(f'"{size}" is no number of jobs to run at a time: write --queue {name}=10', param, ctx)
        return name, int(size)


def _settings_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A flag for each setting, with its environment variable and default."""
    defaults = Settings()
    for name in reversed(HELP):
        default = getattr(defaults, name)
        command = click.option(
            f"--{name.replace('_', '-')}",
            name,
            type=str if name == "child_max_rss" else int if name == "child_max_jobs" else float,
            metavar="SIZE" if name == "child_max_rss" else "N" if name == "child_max_jobs" else "SECONDS",
            envvar=ENVIRONMENT + name.upper(),
            show_envvar=True,
            show_default="none" if default is None else f"{default:g}",
            help=HELP[name],
        )(command)
    return command


@click.command(name="worker", short_help="Run the jobs of an app.")
@click.argument("target", metavar="MODULE:APP")
@click.option(
    "--queue",
    "queues",
    type=QueueSize(),
    multiple=True,
    envvar="HOLDFAST_QUEUES",
    show_envvar=True,
    show_default="default=10",
    help="A queue to serve, and how many of its jobs to run at a time in each process. Can be repeated.",
)
@click.option(
    "--processes",
    type=click.IntRange(min=1),
    default=1,
    envvar="HOLDFAST_PROCESSES",
    show_envvar=True,
    show_default=True,
    help="Worker processes; this one supervises them if there are several.",
)
@click.option(
    "--tag", "tags", multiple=True, envvar="HOLDFAST_TAGS", show_envvar=True, help="Take only jobs with it."
)
@_settings_options
@log_options
@click.option(
    "--schema",
    envvar=SCHEMA_VARIABLE,
    show_envvar=True,
    show_default="what the app says, else holdfast",
    help="Schema of the installation, for an app that names none itself.",
)
def command(
    target: str,
    queues: Sequence[tuple[str, int]],
    processes: int,
    tags: Sequence[str],
    log_format: str | None,
    log_level: str,
    schema: str | None,
    **settings: Any,
) -> None:
    """Run the jobs of an app: holdfast worker shop.tasks:hf --queue default=10 --queue mail=2

    The current directory is on Python's path. A first SIGTERM or Ctrl-C stops in order, a second one at once.

    Exit codes: 0 everything was settled or handed back, 1 it could not be, 2 wrong usage, 69 no database.
    """
    from holdfast.worker import logs
    from holdfast.worker.leash import Leash

    leash = Leash.of()
    if leash is not None:
        leash.watch()
        processes = 1
    checked = _checked(settings)
    sizes = _sizes(queues)
    if schema is not None:
        os.environ[SCHEMA_VARIABLE] = _usage(schema_name, schema)
    # An app may overrule the environment, but not a flag without a word.
    source = click.get_current_context().get_parameter_source("schema")
    flag = schema if source is ParameterSource.COMMANDLINE else None
    logs.set_up(log_format, log_level)
    if processes > 1:
        from holdfast.worker.launching import supervise

        given = {**settings, "schema": flag}
        sys.exit(supervise(target, processes, sizes, tags, log_format, log_level, given, checked))
    sys.exit(_work(target, flag, sizes, tags, settings, leash.say_ready if leash else None))


def _work(
    target: str,
    schema: str | None,
    queues: dict[str, int],
    tags: Sequence[str],
    settings: dict[str, Any],
    on_ready: Callable[[], None] | None,
) -> int:
    from holdfast.cli.target import load_app

    with _leaving_on_signals():
        app = load_app(target)
    if schema is not None and app.schema != schema:
        raise click.UsageError(
            f'the app uses schema "{app.schema}", which its code names: --schema {schema} cannot change that'
        )
    if not len(app.registry):
        logger.warning("%s has no tasks: import the modules that define them where the app is", target)
    from holdfast.worker import program

    return program.run(
        _usage(lambda given: app.worker(queues, tags=tags, **given), settings),
        on_ready=on_ready,
        is_last=True,
    )


def _leave(number: int, frame: FrameType | None) -> None:
    os._exit(0)


@contextmanager
def _leaving_on_signals() -> Generator[None]:
    """While the app is imported nothing is claimed: whoever wants to stop can have it at once.

    It stays so until the worker takes the signals over.
    """
    before = {number: signal.signal(number, _leave) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except BaseException:
        for number, handler in before.items():
            signal.signal(number, handler)
        raise


def _sizes(queues: Sequence[tuple[str, int]]) -> dict[str, int]:
    sizes = dict(queues) or dict(DEFAULT_QUEUES)
    if len(sizes) < len(queues):
        twice = next(name for name, _ in queues if [each for each, _ in queues].count(name) > 1)
        raise click.UsageError(
            f'queue "{twice}" is named twice: say once how many of its jobs to run at a time'
        )
    return sizes


def _checked(settings: dict[str, Any]) -> Settings:
    found: Settings = _usage(settings_from, settings)
    return found


def _usage(check: Callable[[Any], Any], value: Any) -> Any:
    """The same, but what it refuses is wrong usage."""
    try:
        return check(value)
    except InvalidArgument as error:
        raise click.UsageError(str(error)) from error
