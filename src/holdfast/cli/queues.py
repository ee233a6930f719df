"""`holdfast queues`: how the lines stand; pause, resume and limit them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holdfast.cli.choosing import database_options, opened
from holdfast.cli.groups import Group
from holdfast.cli.listing import Column, Listing, ago, json_option, show, watch_options

if TYPE_CHECKING:
    from holdfast.console.views import Queues

COLUMNS = (
    Column("queue", gives_way=True),
    Column("due", right=True),
    Column("delayed", right=True, left_out=2),
    Column("blocked", right=True, left_out=1),
    Column("held", right=True),
    Column("limit", right=True, left_out=3),
    Column("dead", right=True),
    Column("waits", right=True),
    Column("paused", right=True),
)


MOST = 2**31 - 1


@click.group(name="queues", cls=Group)
def command() -> None:
    """List queues, pause, resume and limit them."""


@command.command(name="list")
@click.option("--limit", type=click.IntRange(min=1), default=1000, show_default=True, help="At most so many.")
@json_option
@watch_options
@database_options
def list_queues(
    limit: int, as_json: bool, watch: bool, every: float, database_url: str | None, schema: str
) -> None:
    """Print every queue that has a live job, is paused or has a limit.

    DUE jobs could run now, DELAYED ones later, BLOCKED ones wait for others; WAITS is how long the first of
    the due has waited; LIMIT is the most that may be held at once. Numbers are counted up to 10,000.
    """
    from holdfast.console import run
    from holdfast.console.views import queues

    with opened(database_url, schema) as app:
        show(lambda: listing(run(app, queues()), limit), as_json=as_json, watch=watch, every=every)


@command.command()
@click.argument("queue")
@database_options
def pause(queue: str, database_url: str | None, schema: str) -> None:
    """Let no job of a queue be claimed until it is resumed; running ones go on."""
    with opened(database_url, schema) as app:
        new = app.stores.blocking().pause_queue(queue)
    click.echo(f'Queue "{queue}" {"is paused" if new else "was paused already"}.', err=True)


@command.command()
@click.argument("queue")
@database_options
def resume(queue: str, database_url: str | None, schema: str) -> None:
    """Let the jobs of a queue be claimed again."""
    with opened(database_url, schema) as app:
        was_paused = app.stores.blocking().resume_queue(queue)
    click.echo(f'Queue "{queue}" {"goes on" if was_paused else "was not paused"}.', err=True)


def _limit(_: click.Context, __: click.Parameter, value: str) -> int | None:
    if value == "none":
        return None
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= MOST:
        raise click.BadParameter(f"{value!r} is neither a whole number from 1 nor none")
    return int(value)


@command.command()
@click.argument("queue")
@click.argument("most", callback=_limit, metavar="N|none")
@database_options
def limit(queue: str, most: int | None, database_url: str | None, schema: str) -> None:
    """Let at most N jobs of a queue be held at once, over all workers; `none` takes the limit away.

    What is held already stays held.
    """
    with opened(database_url, schema) as app:
        app.stores.blocking().set_queue_limit(queue, most)
    if most is None:
        click.echo(f'Queue "{queue}" has no limit.', err=True)
    else:
        jobs = "job" if most == 1 else "jobs"
        click.echo(f'At most {most:,} {jobs} of queue "{queue}" may be held at once.', err=True)


def listing(seen: Queues, limit: int) -> Listing:
    """The queues as a table and as JSON."""
    from holdfast.console import shapes

    shown = seen.queues[:limit]
    rows: list[tuple[str, ...]] = []
    for queue in shown:
        waiting = seen.is_capped(queue.due_jobs + queue.delayed_jobs)
        rows.append(
            (
                queue.queue,
                _number(queue.due_jobs, waiting),
                _number(queue.delayed_jobs, waiting and queue.delayed_jobs > 0),
                _number(queue.blocked_jobs, seen.is_capped(queue.blocked_jobs)),
                _number(queue.held_jobs),
                "" if queue.max_running is None else _number(queue.max_running),
                _number(queue.dead_jobs, seen.is_capped(queue.dead_jobs)),
                ago(queue.oldest_due_at, seen.at),
                ago(queue.paused_at, seen.at),
            )
        )
    lines = [shapes.encode(shapes.queue(seen, queue)) for queue in shown]
    notes = [] if rows else ["No queue has a live job, and none is paused or limited."]
    if len(shown) < len(seen.queues):
        notes.append(f"{len(seen.queues) - len(shown)} more: --limit {len(seen.queues)} shows them.")
    return Listing(COLUMNS, rows, lines, notes)


def _number(count: int, capped: bool = False) -> str:
    return f"{count:,}{'+' if capped else ''}"
