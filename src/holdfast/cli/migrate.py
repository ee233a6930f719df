"""`holdfast migrate`: install the engine's SQL into a database and bring it up to date."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from holdfast.cli.options import connection, database_option, schema_option

if TYPE_CHECKING:
    from holdfast.engine.status import Status


@click.group(name="migrate")
def command() -> None:
    """Install Holdfast in a database, or bring it up to date."""


@command.command()
@database_option
@schema_option
def up(database_url: str | None, schema: str) -> None:
    """Apply what is missing; prints the name of each migration applied.

    Safe to run from many places at once, and while workers work.
    """
    from holdfast.engine import installer

    with connection(database_url) as conn:
        report = installer.install(conn, schema)
    for migration in report.applied:
        click.echo(migration.name)
    did = "functions and views renewed" if report.functions_changed else "nothing to do"
    click.echo(f'Schema "{schema}" is at version {report.version}: {did}.', err=True)


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@database_option
@schema_option
def status(database_url: str | None, schema: str, as_json: bool) -> None:
    """Say how the database stands to this Holdfast; exit 1 unless it is current."""
    from holdfast.engine import installer
    from holdfast.engine.status import obstacle

    with connection(database_url) as conn:
        found = installer.status(conn, schema)
    click.echo(json.dumps(_facts(found)) if as_json else found.state)
    if error := obstacle(found):
        click.echo(error, err=True)
        raise SystemExit(1)


@command.command()
@schema_option
def sql(schema: str) -> None:
    """Print the whole installation as a script for psql.

    For those who read before they run: `holdfast migrate sql | psql --no-psqlrc ...` does what `up` does.
    """
    from holdfast.engine import installer

    click.echo(installer.script(schema), nl=False)


def _facts(found: Status) -> dict[str, object]:
    return {
        "schema": found.schema,
        "state": found.state,
        "version": found.version,
        "code_version": found.code_version,
        "release": found.release,
        "code_release": found.code_release,
        "pending": [migration.name for migration in found.pending],
        "functions_current": found.functions_current,
    }
