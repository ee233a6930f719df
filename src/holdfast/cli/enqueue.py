"""`holdfast enqueue`: put a job in line from a shell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from holdfast.cli.choosing import database_options, opened
from holdfast.cli.listing import echo_id
from holdfast.domain.search import lengths

if TYPE_CHECKING:
    from holdfast.domain.job import JsonValue


class Seconds(click.ParamType[float]):
    """A duration: seconds, or as in 90s, 5m, 1h30m, 2d."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        text = str(value)
        found = lengths.read(text if text[-1:].isalpha() else f"{text}s")
        if found is None:
            self.fail(f'"{text}" is no duration: write seconds, or as in 90s, 5m, 1h30m, 2d', param, ctx)
        return found / 1000


@click.command(name="enqueue")
@click.argument("task")
@click.argument("arguments", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--args", "args_json", metavar="JSON", help="Arguments: a list, or an object by name.")
@click.option("--payload", "payload_json", metavar="JSON", help="Instead of arguments: the payload as it is.")
@click.option("--queue", default="default", show_default=True, help="The line it stands in.")
@click.option("--id", "job_id", metavar="ID", help="An id of your own. Default: a generated one.")
@click.option("--delay", type=Seconds(), help="Not before this time has passed, as in 90s or 5m.")
@click.option("--priority", type=int, default=0, show_default=True, help="Larger is sooner.")
@click.option("--tag", "tags", multiple=True, help="A tag; can be repeated.")
@click.option("--wait-for", "wait_for", multiple=True, metavar="ID", help="A job that must complete first.")
@click.option("--key", "singleton_key", help="Singleton key: no two jobs with it run at once.")
@click.option("--resource", "resource_keys", multiple=True, help="A resource it needs; can be repeated.")
@click.option("--max-attempts", type=click.IntRange(min=1), help="Dead after so many failures.")
@click.option("--timeout", type=Seconds(), help="How long the handler may take.")
@database_options
def command(
    task: str,
    arguments: Sequence[str],
    args_json: str | None,
    payload_json: str | None,
    queue: str,
    job_id: str | None,
    delay: float | None,
    priority: int,
    tags: Sequence[str],
    wait_for: Sequence[str],
    singleton_key: str | None,
    resource_keys: Sequence[str],
    max_attempts: int | None,
    timeout: float | None,
    database_url: str | None,
    schema: str,
) -> None:
    """Put a job in line, and print its id.

    \b
      holdfast enqueue shop.send to=ada copies=2
      holdfast enqueue shop.send --args '["ada"]' --queue mail --delay 5m

    TASK is the name a worker knows it by, module and function. A VALUE that is JSON is taken as such,
    anything else is text; to send a number as text write name='"42"'. The options of the task itself (its
    queue, its retries) are not known here.
    """
    from holdfast.domain.job import NewJob

    payload = _payload(arguments, args_json, payload_json)
    job = NewJob(
        job_id=job_id,
        queue=queue,
        task=task,
        payload=payload,
        priority=priority,
        tags=tags,
        delay_s=delay,
        max_attempts=max_attempts,
        resource_keys=resource_keys,
        singleton_key=singleton_key,
        wait_for=wait_for,
        timeout_s=timeout,
    )
    with opened(database_url, schema) as app:
        (made,) = app.stores.blocking().submit_jobs([job])
    echo_id(made)


def _payload(arguments: Sequence[str], args_json: str | None, payload_json: str | None) -> JsonValue:
    if payload_json is not None:
        if arguments or args_json is not None:
            raise click.UsageError("--payload is all a job carries: leave --args and NAME=VALUE out")
        payload: JsonValue = _json(payload_json, "--payload")
        return payload
    by_place: list[JsonValue] = []
    by_name: dict[str, JsonValue] = {}
    if args_json is not None:
        given = _json(args_json, "--args")
        if isinstance(given, list):
            by_place = cast("list[JsonValue]", given)
        elif isinstance(given, dict):
            by_name = cast("dict[str, JsonValue]", given)
        else:
            raise click.UsageError('--args is a list or an object: \'["ada", 2]\' or \'{"to": "ada"}\'')
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not equals or not name:
            raise click.UsageError(f'"{argument}" is no argument: write NAME=VALUE, or --args JSON')
        if name in by_name:
            raise click.UsageError(f'argument "{name}" is given twice')
        by_name[name] = _value(value)
    return {"args": by_place, "kwargs": by_name}


def _value(text: str) -> JsonValue:
    try:
        found: JsonValue = json.loads(text, parse_constant=_refuse)
    except ValueError:
        return text
    return found


def _json(text: str, option: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        raise click.UsageError(f"{option} is not JSON: {error}") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
