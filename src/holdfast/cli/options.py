"""Options that several commands share, and the connection they lead to."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from holdfast import config
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from psycopg import Connection


def _schema(ctx: click.Context, param: click.Parameter, value: str) -> str:
    try:
        return config.schema_name(value)
    except InvalidArgument as error:
        raise click.BadParameter(str(error)) from error


schema_option = click.option(
    "--schema",
    default=config.DEFAULT_SCHEMA,
    show_default=True,
    envvar=config.SCHEMA_VARIABLE,
    show_envvar=True,
    callback=_schema,
    help="Schema of the installation.",
)

database_option = click.option(
    "--database-url",
    "--dsn",
    "database_url",
    metavar="URL",
    help=f"Database. Default: ${', $'.join(config.DATABASE_URL_VARIABLES)}, else the embedded one.",
)


@contextmanager
def connection(database_url: str | None) -> Generator[Connection[Any]]:
    """Connect to the user's database, or to the embedded one, which runs as long as somebody uses it."""
    from holdfast.embedded import database_or_embedded
    from holdfast.engine.connect import connect

    with database_or_embedded(database_url, log=_say) as database, connect(database.dsn) as conn:
        yield conn


def _say(message: str) -> None:
    click.echo(message, err=True)
