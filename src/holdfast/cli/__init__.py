"""The command `holdfast`. One file per command: name it in COMMANDS, define a click command `command` in it.

Results go to stdout, talk to stderr. Exit codes: 0 done, 1 something needs doing or failed, 2 wrong usage.
Command modules import what is heavy (the driver, rich) inside their functions: `--help` is to be quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from holdfast.errors import HoldfastError

COMMANDS = ("bench", "dead", "demo", "jobs", "migrate", "worker")


class Commands(click.Group):
    """Load a command's module when it is asked for, and show our own errors as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"holdfast.cli.{cmd_name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HoldfastError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast", message="%(prog)s %(version)s")
def main() -> None:
    """Durable jobs in your own PostgreSQL."""
