"""`holdfast doctor`: is everything as it should be, and if not, what to do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from holdfast.cli.choosing import database_options, opened
from holdfast.cli.exits import FAILED
from holdfast.cli.listing import json_option
from holdfast.cli.options import connection
from holdfast.cli.safe import one_line

if TYPE_CHECKING:
    from holdfast.console.doctor import Finding

_COLOURS = {"OK": "green", "NOTE": "yellow", "PROBLEM": "red"}


@click.command(name="doctor")
@click.argument("target", metavar="[MODULE:APP]", required=False)
@json_option
@click.option("--quiet", is_flag=True, help="Leave out what is as it should be.")
@database_options
def command(target: str | None, as_json: bool, quiet: bool, database_url: str | None, schema: str) -> None:
    """Check the database, the installation and its jobs; exit 1 if something needs doing.

    Looks at the connection, the server, the schema, poolers, clocks, vacuum, open transactions, signals,
    workers, queues, stuck and set-aside jobs; with your app, also at tasks that nobody knows. Every finding
    says what to do. Nothing is changed.
    """
    from holdfast.console import shapes

    tasks = _tasks_of(target) if target else None
    found = _examine(database_url, schema, tasks)
    shown = [finding for finding in found if not quiet or finding.level != "OK"]
    for finding in shown:
        if as_json:
            click.echo(shapes.encode(shapes.finding(finding)))
        else:
            _print(finding)
    problems = sum(finding.level == "PROBLEM" for finding in found)
    if problems:
        click.echo(f"{problems} {'thing needs' if problems == 1 else 'things need'} doing.", err=True)
        raise SystemExit(FAILED)
    click.echo("Nothing needs doing.", err=True)


def _examine(database_url: str | None, schema: str, tasks: Sequence[str] | None) -> list[Finding]:
    from holdfast.console import run
    from holdfast.console.doctor import Level, checkup, of_connection, of_schema
    from holdfast.engine import installer

    with connection(database_url) as conn:
        found = of_connection(conn)
        found.append(of_schema(installer.status(conn, schema)))
        if found[-1].level is not Level.OK:
            return found
        with opened(database_url, schema) as app:
            return found + run(app, checkup(schema, tasks))


def _tasks_of(target: str) -> list[str]:
    from holdfast.cli.target import load_app

    return load_app(target).registry.names()


def _print(finding: Finding) -> None:
    level = (
        click.style(f"{finding.level:7}", fg=_COLOURS[finding.level])
        if sys.stdout.isatty()
        else f"{finding.level:7}"
    )
    click.echo(f"{level}  {finding.check:14}  {one_line(finding.says)}")
    if finding.fix is not None:
        click.echo(f"{'':7}  {'':14}  → {one_line(finding.fix)}")
