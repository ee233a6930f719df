"""`holdfast web`: the HTTP API and the dashboard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from holdfast.cli.choosing import database_options
from holdfast.cli.speaking import log_options
from holdfast.errors import InvalidArgument

if TYPE_CHECKING:
    from holdfast.web.settings import Token

PASSWORD_VARIABLE: Final = "HOLDFAST_WEB_PASSWORD"  # noqa: S105
TOKENS_VARIABLE: Final = "HOLDFAST_WEB_TOKENS"


@click.command(name="web")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    envvar="HOLDFAST_WEB_HOST",
    show_envvar=True,
    metavar="ADDRESS",
    help="Where to listen; anywhere but on loopback needs a token or a password.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8420,
    show_default=True,
    envvar="HOLDFAST_WEB_PORT",
    show_envvar=True,
    help="0 takes a free one.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    envvar="HOLDFAST_WEB_TOKEN_FILE",
    show_envvar=True,
    help="Lines of role:name:secret; the roles are viewer, operator and admin.",
)
@click.option(
    "--allow-host",
    "allow_hosts",
    multiple=True,
    envvar="HOLDFAST_WEB_ALLOW_HOSTS",
    show_envvar=True,
    metavar="NAME",
    help="A name by which the server may be called, behind a proxy say; can be repeated.",
)
@click.option(
    "--redact",
    default="pass|secret|token|key|authorization|cookie",
    show_default=True,
    envvar="HOLDFAST_WEB_REDACT",
    show_envvar=True,
    metavar="REGEX",
    help="Names under which payloads and results hide their values; empty: none.",
)
@log_options
@database_options
def command(
    host: str,
    port: int,
    token_file: Path | None,
    allow_hosts: Sequence[str],
    redact: str,
    log_format: str | None,
    log_level: str,
    database_url: str | None,
    schema: str,
) -> None:
    """Serve the HTTP API and the dashboard until Ctrl-C.

    On 127.0.0.1 whoever reaches it may do everything, unless tokens are set. Elsewhere it does not start
    without: HOLDFAST_WEB_PASSWORD for one admin, HOLDFAST_WEB_TOKENS or --token-file for several people and
    programs. A token is sent as Authorization: Bearer SECRET, or by name and secret, as a browser asks for.
    """
    from holdfast.web.settings import WebSettings

    try:
        settings = WebSettings(
            dsn=database_url,
            schema=schema,
            host=host,
            port=port,
            tokens=_tokens(token_file),
            allow_hosts=tuple(allow_hosts),
            redact=redact,
        )
    except InvalidArgument as error:
        raise click.UsageError(str(error)) from error
    from holdfast.web.serving import serve
    from holdfast.worker import logs

    logs.set_up(log_format, log_level)
    serve(settings, ready=lambda address: click.echo(f"Holdfast is at {address}", err=True))


def _tokens(file: Path | None) -> tuple[Token, ...]:
    from holdfast.web.settings import read_tokens

    words = os.environ.get(TOKENS_VARIABLE, "").split()
    if file is not None:
        lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
        words += [line for line in lines if line and not line.startswith("#")]
    if password := os.environ.get(PASSWORD_VARIABLE):
        words.append(f"admin:admin:{password}")
    return read_tokens(words)
