"""`holdfast db`: the embedded PostgreSQL of this project."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import click

from holdfast.cli.exits import FAILED
from holdfast.cli.groups import Group
from holdfast.cli.listing import as_line

directory_option = click.option(
    "--directory", metavar="DIR", help="Where it lives. Default: the directory of the project you stand in."
)


@click.group(name="db", cls=Group)
def command() -> None:
    """Start, stop and look at the embedded PostgreSQL of this project.

    It is there for those who have no PostgreSQL, starts by itself where one is needed, and stops with its
    last user. A database named by DATABASE_URL is never touched by these commands.
    """


@command.command()
@directory_option
def start(directory: str | None) -> None:
    """Start it, to run until it is stopped, with Holdfast installed; prints its address."""
    from holdfast import embedded
    from holdfast.engine import installer
    from holdfast.engine.connect import connect

    with embedded.start(directory, keep=True, log=_say) as server:
        with connect(server.dsn) as conn:
            installer.install(conn)
        click.echo(server.dsn)


@command.command()
@directory_option
def stop(directory: str | None) -> None:
    """Stop it, whoever uses it."""
    from holdfast import embedded

    stopped = embedded.stop(directory)
    _say("Stopped." if stopped else "It was not running.")


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@directory_option
def status(as_json: bool, directory: str | None) -> None:
    """Say how it is doing; exit 1 if it does not run."""
    from holdfast import embedded

    found = embedded.status(directory)
    if as_json:
        click.echo(
            as_line(
                directory=found.directory,
                running=found.running,
                pid=found.pid,
                version=found.version,
                keep=found.keep,
                users=found.users,
                dsn=found.dsn,
            )
        )
    elif found.running:
        until = "until it is stopped" if found.keep else "as long as somebody uses it"
        click.echo(f"PostgreSQL {found.version} runs, process {found.pid}, {until}")
        click.echo(found.dsn)
    elif found.version is None:
        click.echo(f"There is none in {found.directory} yet")
    else:
        click.echo(f"PostgreSQL {found.version} in {found.directory} does not run")
    if not found.running:
        raise SystemExit(FAILED)


@command.command()
@directory_option
def path(directory: str | None) -> None:
    """Print the directory it lives in."""
    from holdfast import embedded

    click.echo(embedded.status(directory).directory)


@command.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@directory_option
def psql(arguments: Sequence[str], directory: str | None) -> None:
    """Open psql on it, starting it if need be. What follows goes to psql: holdfast db psql -c 'select 1'"""
    from holdfast import embedded

    with embedded.start(directory, log=_say) as server:
        program = server.bin_directory / "psql"
        if not program.exists():
            raise click.ClickException(
                f"there is no psql in {server.bin_directory}; yours can connect to {server.dsn}"
            )
        done = subprocess.run([program, server.dsn, *arguments])
    sys.exit(done.returncode)


def _say(message: str) -> None:
    click.echo(message, err=True)
