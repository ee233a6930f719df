"""What a command's exit code says. docs/reference/cli.md has the same table."""

from __future__ import annotations

from typing import Final

import click

from holdfast.cli.safe import one_line
from holdfast.errors import (
    BinariesNotFound,
    DatabaseUnavailable,
    DirectoryUnusable,
    HoldfastError,
    QueryError,
)

DONE: Final = 0
FAILED: Final = 1
USAGE: Final = 2
UNAVAILABLE: Final = 69
CONFIGURATION: Final = 78
INTERRUPTED: Final = 130

MEANING: Final = {
    DONE: "done",
    FAILED: "it failed, or something needs doing",
    USAGE: "wrong usage, or a query that cannot be read",
    UNAVAILABLE: "the database cannot be reached",
    CONFIGURATION: "no PostgreSQL programs, or a data directory that cannot be used",
    INTERRUPTED: "interrupted by Ctrl-C",
}


def failure(error: HoldfastError) -> click.ClickException:
    """The error in one line, with its exit code."""
    shown = click.ClickException(one_line(str(error)))
    vars(shown)["exit_code"] = code_of(error)  # which click declares for the class alone
    return shown


def code_of(error: HoldfastError) -> int:
    """The exit code of an error."""
    match error:
        case DatabaseUnavailable():
            return UNAVAILABLE
        case QueryError():
            return USAGE
        case BinariesNotFound() | DirectoryUnusable():
            return CONFIGURATION
        case _:
            return FAILED
