"""Reports for people: a table of figures, and old figures beside new ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from holdfast.bench.registry import SCENARIOS
from holdfast.bench.report import Report
from holdfast.errors import InvalidArgument

Facts = Mapping[str, Any]


def show(report: Report) -> None:
    """Print a report as a table."""
    console = Console(highlight=False, soft_wrap=True)
    if grid := report.finding.grid:
        many = Table(title=grid.title, title_justify="left")
        for heading in grid.headings:
            many.add_column(heading, justify="right", no_wrap=True)
        for row in grid.rows:
            many.add_row(*row)
        console.print(many)
    table = Table(title=f"{report.scenario}: {SCENARIOS[report.scenario].line}", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right", no_wrap=True)
    for figure in report.figures:
        if figure.label:
            table.add_row(figure.label, figure.shown)
    console.print(table)
    once = "each exactly once" if report.finding.exactly_once else "NOT each exactly once"
    durable = "commits on disk" if report.durable else "commits NOT on disk"
    console.print(
        f"ratio: {SCENARIOS[report.scenario].merit}\n"
        f"PostgreSQL {report.server_version}, {durable}; {report.finding.jobs:,} jobs, {once}; "
        f"{report.seconds:.0f} s"
    )


def show_comparison(old: Facts, new: Facts) -> None:
    """Print old, new and their ratio, of every figure that both have."""
    table = Table(title=f"{new['scenario']}: then and now", title_justify="left")
    table.add_column("figure")
    for heading in ("old", "new", "new ÷ old"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, (before, now, ratio) in compare(old, new).items():
        table.add_row(name, f"{before:,g}", f"{now:,g}", "" if ratio is None else f"{ratio:.2f}")
    Console(highlight=False, soft_wrap=True).print(table)


def compare(old: Facts, new: Facts) -> dict[str, tuple[float, float, float | None]]:
    """Old, new and new ÷ old (None where old is 0) of every number that both have, by its name."""
    then = dict(_numbers(old))
    return {
        name: (then[name], now, round(now / then[name], 3) if then[name] else None)
        for name, now in _numbers(new)
        if name in then
    }


def _numbers(facts: Facts, prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _numbers(cast("Facts", value), f"{prefix}{name}.")
        elif isinstance(value, float | int) and not isinstance(value, bool):
            yield prefix + name, value


def save(path: Path, facts: Facts) -> None:
    """Write the facts into a file of one line per scenario, in place of the scenario's older ones."""
    kept = {**(read(path) if path.exists() else {}), facts["scenario"]: facts}
    path.write_text("".join(json.dumps(each) + "\n" for each in kept.values()))


def read(path: Path) -> dict[str, Facts]:
    """What `save` wrote, by scenario."""
    try:
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        return {facts["scenario"]: facts for facts in lines}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InvalidArgument(f"{path} holds no figures of `holdfast bench --save`: {error}") from None
