"""`holdfast dev`: database, worker and dashboard in one command, started anew whenever a file is saved."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from holdfast.cli.choosing import database_options
from holdfast.config import DATABASE_URL_VARIABLES, SCHEMA_VARIABLE

if TYPE_CHECKING:
    from holdfast.app import Holdfast

AT_A_TIME: Final = 10
"""Jobs of each queue: enough to see them run beside each other."""

STOP_S: Final = 3.0
"""How long handlers may go on after a file was saved."""


@click.command(name="dev")
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option("--starter", is_flag=True, help="Where there is no app, write a first one without asking.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8420,
    show_default=True,
    envvar="HOLDFAST_WEB_PORT",
    show_envvar=True,
    help="Of the dashboard; if it is taken, a free one.",
)
@click.option("--only-worker", is_flag=True, hidden=True)
@database_options
def command(
    target: str | None, starter: bool, port: int, only_worker: bool, database_url: str | None, schema: str
) -> None:
    """Run an app while you write it: the database, a worker for all its queues, and the dashboard.

    The worker starts anew whenever a source below this folder is saved. Without MODULE:APP the app is the one
    in tasks.py; where there is none, it offers to write a first one. The schema is installed or brought up to
    date. Not for production: that is `holdfast worker` and `holdfast web`.
    """
    if only_worker:
        sys.exit(_work(target or ""))
    target = target or _found_or_written(Path.cwd(), starter)
    from holdfast.bench.scratch import ended_in_order
    from holdfast.dev.session import Session
    from holdfast.dev.watching import Sources
    from holdfast.embedded import database_or_embedded
    from holdfast.engine import installer
    from holdfast.engine.connect import connect
    from holdfast.web.beside import serving
    from holdfast.web.settings import WebSettings

    sources = Sources(Path.cwd())
    with ended_in_order(), database_or_embedded(database_url, log=_say) as database:
        with connect(database.dsn, "holdfast dev") as conn:
            installer.install(conn, schema)
        os.environ.update({DATABASE_URL_VARIABLES[0]: database.dsn, SCHEMA_VARIABLE: schema})
        with serving(WebSettings(database.dsn, schema, port=port)) as address:
            _say(f"The dashboard is at {address}")
            _say(f"The worker runs {target}, and starts anew when a file is saved. Ctrl-C stops everything.")
            with suppress(KeyboardInterrupt):
                Session(_worker_command(target), sources, _say).run()


def _worker_command(target: str) -> list[str]:
    return [sys.executable, "-m", "holdfast", "dev", target, "--only-worker"]


def _work(target: str) -> int:
    from holdfast.cli.target import load_app
    from holdfast.worker import logs, program

    logs.set_up(None, "info")
    try:
        app = load_app(target)
    except click.UsageError as error:
        # Not wrong usage of the command: a file that is being written.
        click.echo(error.format_message(), err=True)
        return program.FAILED
    return program.run(app.worker(_queues(app), shutdown_timeout=STOP_S), is_last=True)


def _queues(app: Holdfast) -> dict[str, int]:
    """Every queue its tasks name, and the one of those that name none."""
    names = {"default", *(task.queue for task in app.registry)}
    return dict.fromkeys(sorted(names), AT_A_TIME)


def _found_or_written(folder: Path, starter: bool) -> str:
    """The app in tasks.py; where there is no such file, one is written if somebody says so."""
    from holdfast.dev.starter import NAME, TARGET, write

    if (folder / NAME).is_file():
        return NAME.removesuffix(".py")
    if not starter:
        asked = f"There is no {NAME} in {folder}. Write a first one?"
        if not sys.stdin.isatty() or not click.confirm(asked, default=True, err=True):
            raise click.UsageError(
                f"there is no {NAME} here: name your app, as in holdfast dev shop.tasks:hf, "
                "or let --starter write a first one"
            )
    _say(
        f"Wrote {write(folder).name}, with one task: try `python {NAME}`, "
        "or `holdfast enqueue tasks.greet name=ada`."
    )
    return TARGET


def _say(message: str) -> None:
    click.echo(message, err=True)
