"""`holdfast bench`: measure on your own server, against a reference on the same server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from holdfast.bench.registry import SCENARIOS, Option, Scenario

SHARED = (
    click.Option(["--json", "as_json"], is_flag=True, help="Print one line of JSON."),
    click.Option(
        ["--dsn", "--database-url", "dsn"], metavar="URL", help="Server. Default: the embedded one."
    ),
    click.Option(
        ["--save"], type=click.Path(dir_okay=False, path_type=Path), help="Write the JSON to a file as well."
    ),
    click.Option(
        ["--compare"],
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Show what was saved beside what is found.",
    ),
)


class Bench(click.Group):
    """A command for every scenario of the registry, and `all`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*SCENARIOS, "all"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "all":
            return _command_for_all()
        scenario = SCENARIOS.get(cmd_name)
        return None if scenario is None else _command_for(scenario)


@click.group(name="bench", cls=Bench)
def command() -> None:
    """Measure Holdfast against a reference in the same run.

    Works in a scratch database, made on the server and dropped at the end; your jobs are not touched.
    """


def _command_for(scenario: Scenario) -> click.Command:
    def run(**given: Any) -> None:
        options = {option.name: given[_parameter(option)] for option in scenario.options}
        _run(scenario, given["jobs"], options, given)

    jobs = click.Option(
        ["--jobs"], default=scenario.jobs, show_default=True, type=click.IntRange(1), help="How many jobs."
    )
    return click.Command(
        scenario.name,
        callback=run,
        params=[jobs, *map(_option, scenario.options), *SHARED],
        help=f"{_sentence(scenario.line)}\n\nRatio: {scenario.merit}. Goal: {scenario.goal}.",
        short_help=scenario.line,
    )


def _command_for_all() -> click.Command:
    scale = click.Option(
        ["--jobs"], type=click.IntRange(1), help="How many jobs of each scenario. Default: its own."
    )
    return click.Command(
        "all", callback=_run_all, params=[scale, *SHARED], help="Every scenario, one after the other."
    )


def _option(option: Option) -> click.Option:
    numbers = option.kind == "numbers"
    return click.Option(
        [f"--{option.name}", _parameter(option)],
        default=option.default,
        show_default=option.default is not None,
        type=str if numbers else click.IntRange(1),
        callback=_numbers if numbers else None,
        help=option.help,
    )


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _parameter(option: Option) -> str:
    return option.name.replace("-", "_")


def _numbers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in value.split(",")))
    except ValueError:
        raise click.BadParameter("expected whole numbers separated by commas, like 1,10,100") from None
    if min(numbers) < 1:
        raise click.BadParameter("every number must be at least 1")
    return numbers


def _run(scenario: Scenario, jobs: int, options: dict[str, Any], given: dict[str, Any]) -> None:
    from holdfast.bench import show
    from holdfast.bench.arena import run

    old = show.read(given["compare"]).get(scenario.name) if given["compare"] else None
    report = run(scenario, jobs, options, given["dsn"], _say)
    facts = report.facts()
    if given["save"]:
        show.save(given["save"], facts)
    if given["as_json"]:
        compared = {} if old is None else {"compared": show.compare(old, facts)}
        click.echo(json.dumps(facts | compared))
        return
    show.show(report)
    if old is not None:
        show.show_comparison(old, facts)


def _run_all(
    jobs: int | None, as_json: bool, dsn: str | None, save: Path | None, compare: Path | None
) -> None:
    """Each in a process of its own: the memory of one is not to be seen in the figures of the next."""
    import sys

    shared = [
        *(["--jobs", str(jobs)] if jobs else []),
        *(["--json"] if as_json else []),
        *(["--dsn", dsn] if dsn else []),
        *(["--save", str(save)] if save else []),
        *(["--compare", str(compare)] if compare else []),
    ]
    failed = [
        name for name in SCENARIOS if _fails([sys.executable, "-m", "holdfast", "bench", name, *shared])
    ]
    if failed:
        raise click.ClickException(f"these did not end well: {', '.join(failed)}")


def _fails(command: Sequence[str]) -> bool:
    import subprocess

    return subprocess.run(command, check=False).returncode != 0


def _say(message: str) -> None:
    click.echo(message, err=True)
