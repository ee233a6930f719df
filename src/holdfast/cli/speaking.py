"""The options of commands that run for long: how, and how much, they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from holdfast.worker.logs import FORMATS, LEVELS

_log_format = click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    envvar="HOLDFAST_LOG_FORMAT",
    show_envvar=True,
    show_default="text on a terminal, else json",
    help="Lines for people or for machines.",
)
_log_level = click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default="info",
    envvar="HOLDFAST_LOG_LEVEL",
    show_envvar=True,
    show_default=True,
    help="What is not logged: everything below.",
)


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add them to a command."""
    return _log_format(_log_level(command))
