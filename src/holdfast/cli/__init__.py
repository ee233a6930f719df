"""The command `holdfast`. One file per command: name it in COMMANDS, define a click command `command` in it.

Results go to stdout, talk to stderr. Exit codes are in `exits`. Command modules import what is heavy (the
driver, rich) inside their functions: `--help` is to be quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from holdfast.cli.groups import Group
from holdfast.errors import HoldfastError

COMMANDS = {
    "bench": "Measure Holdfast against a reference in the same run.",
    "db": "Start, stop and look at the embedded PostgreSQL of this project.",
    "dead": "List dead jobs and bring them back.",
    "doctor": "Check the database, the installation and its jobs; exit 1 if something needs doing.",
    "demo": "Run a little shop's jobs with real workers, kill one of them, and show what happened.",
    "dev": "Run an app while you write it: the database, a worker for all its queues, and the dashboard.",
    "enqueue": "Put a job in line, and print its id.",
    "jobs": "List jobs, look at one, retry, cancel or delete them.",
    "migrate": "Install Holdfast in a database, or bring it up to date.",
    "queues": "List queues, pause, resume and limit them.",
    "resources": "Print resources and singleton keys that are held or wanted, the most wanted first.",
    "stats": "Print how many jobs wait, run, are dead, and ended lately.",
    "top": "Watch queues, workers and dead letters, until Ctrl-C.",
    "trace": "Print what happened to a job, in order.",
    "web": "Serve the HTTP API and the dashboard until Ctrl-C.",
    "worker": "Run the jobs of an app.",
    "workers": "Print the workers that are there, busy or idle, and those that are lost.",
}
"""Every command and what it is for, so that `--help` need not import them."""


class Commands(Group):
    """Load a command's module when it is asked for, and show our own errors as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"holdfast.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HoldfastError as error:
            from holdfast.cli.exits import failure

            raise failure(error) from error
        except KeyboardInterrupt:
            from holdfast.cli.exits import INTERRUPTED

            click.echo(err=True)
            raise SystemExit(INTERRUPTED) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdfast", message="%(prog)s %(version)s")
def main() -> None:
    """Durable jobs in your own PostgreSQL."""
