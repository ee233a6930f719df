"""`holdfast bench`: measure on your own server, against a bare queue on the same server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from holdfast.bench.claim import Report
    from holdfast.bench.drain import Report as DrainReport
    from holdfast.bench.stream import Report as StreamReport


def _numbers(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in value.split(",")))
    except ValueError:
        raise click.BadParameter("expected whole numbers separated by commas, like 1,10,100") from None
    if min(numbers) < 1:
        raise click.BadParameter("every number must be at least 1")
    return numbers


@click.group(name="bench")
def command() -> None:
    """Measure Holdfast against a bare queue on the same server."""


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.option("--jobs", default=4_000, show_default=True, type=click.IntRange(1), help="Backlog of a run.")
@click.option(
    "--batches", default="1,10,100,1000", show_default=True, callback=_numbers, help="Jobs a claim."
)
@click.option("--clients", default="1,2", show_default=True, callback=_numbers, help="Sessions at once.")
@click.option("--rounds", type=click.IntRange(1), help="Default: as many as fit in a minute.")
@click.option("--dsn", "--database-url", "dsn", metavar="URL", help="Server. Default: the embedded one.")
def claim(
    as_json: bool,
    jobs: int,
    batches: tuple[int, ...],
    clients: tuple[int, ...],
    rounds: int | None,
    dsn: str | None,
) -> None:
    """Claim and settle jobs through pgbench; prints jobs per second.

    Works in a scratch database, made on the server and dropped at the end; your jobs are not touched.
    """
    from holdfast.bench.claim import Plan, measure

    report = measure(Plan(batches, clients, jobs, rounds), dsn, _say)
    if as_json:
        click.echo(json.dumps(report.facts()))
    else:
        _show(report)


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.option("--jobs", default=50_000, show_default=True, type=click.IntRange(1), help="Jobs to stream.")
@click.option("--capacity", default=500, show_default=True, type=click.IntRange(1), help="Of the stream.")
@click.option(
    "--latency-jobs", default=200, show_default=True, type=click.IntRange(1), help="Jobs for an idle stream."
)
@click.option("--dsn", "--database-url", "dsn", metavar="URL", help="Server. Default: the embedded one.")
def stream(as_json: bool, jobs: int, capacity: int, latency_jobs: int, dsn: str | None) -> None:
    """Stream jobs through one Python process; prints jobs per second and the latency when idle.

    Works in a scratch database, made on the server and dropped at the end; your jobs are not touched.
    """
    from holdfast.bench.stream import measure

    report = measure(jobs, capacity, latency_jobs, dsn, _say)
    if as_json:
        click.echo(json.dumps(report.facts()))
    else:
        _show_stream(report)


def _show_stream(report: StreamReport) -> None:
    from holdfast.bench.claim import percentile

    _show_figures(
        "A stream in one Python process",
        {
            "streamed and completed, jobs per second": f"{report.jobs_per_s:,.0f}",
            "engine alone, claim + settle by pgbench": f"{report.reference_jobs_per_s:,.0f}",
            "ratio": f"{report.ratio:.2f}",
            "jobs in a batch": f"{report.jobs / report.batches:,.0f}",
            "idle latency at p50": f"{percentile(report.latency_ms, 50):.2f} ms",
            "idle latency at p99": f"{percentile(report.latency_ms, 99):.2f} ms",
        },
        report,
    )


def _show_figures(title: str, figures: dict[str, str], report: StreamReport | DrainReport) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False)
    for name, figure in figures.items():
        table.add_row(name, figure)
    console = Console(highlight=False, soft_wrap=True)
    console.print(table)
    once = "each exactly once" if report.exactly_once else "NOT each exactly once"
    durable = "commits on disk" if report.durable else "commits NOT on disk"
    console.print(
        f"PostgreSQL {report.server_version}, {durable}; {report.jobs:,} jobs, {once}; {report.seconds:.0f} s"
    )


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")
@click.option("--jobs", default=100_000, show_default=True, type=click.IntRange(1), help="Jobs to drain.")
@click.option("--concurrency", default=500, show_default=True, type=click.IntRange(1), help="Of the worker.")
@click.option(
    "--latency-jobs", default=200, show_default=True, type=click.IntRange(1), help="Jobs for an idle worker."
)
@click.option("--dsn", "--database-url", "dsn", metavar="URL", help="Server. Default: the embedded one.")
def drain(as_json: bool, jobs: int, concurrency: int, latency_jobs: int, dsn: str | None) -> None:
    """Drain jobs that do nothing with one worker process; prints jobs per second and the latency when idle.

    Works in a scratch database, made on the server and dropped at the end; your jobs are not touched.
    """
    from holdfast.bench.drain import measure

    report = measure(jobs, concurrency, latency_jobs, dsn, _say)
    if as_json:
        click.echo(json.dumps(report.facts()))
    else:
        _show_drain(report)


def _show_drain(report: DrainReport) -> None:
    from holdfast.bench.claim import percentile

    _show_figures(
        "One worker process",
        {
            "drained, jobs per second": f"{report.jobs_per_s:,.0f}",
            "the same SQL by pgbench, one client": f"{report.reference_jobs_per_s:,.0f}",
            "ratio": f"{report.ratio:.2f}",
            "a claim at p99": f"{report.claim_p99_ms:.2f} ms",
            "enqueue to start, idle, at p50": f"{percentile(report.latency_ms, 50):.2f} ms",
            "enqueue to start, idle, at p99": f"{percentile(report.latency_ms, 99):.2f} ms",
            "peak memory": f"{report.rss_mb:.0f} MB",
        },
        report,
    )


def _show(report: Report) -> None:
    from rich.console import Console

    from holdfast.bench.claim import percentile

    console = Console(highlight=False, soft_wrap=True)
    console.print(_table(report))
    engine, bare = report.claim_ms["engine"], report.claim_ms["bare"]
    wal = report.wal_bytes_per_job
    once = "each exactly once" if report.exactly_once else "NOT each exactly once"
    durable = "commits on disk" if report.durable else "commits NOT on disk"
    console.print(
        f"A claim of one job: {percentile(engine, 50):.2f} ms at p50, {percentile(engine, 99):.2f} at p99 "
        f"(bare {percentile(bare, 50):.2f} and {percentile(bare, 99):.2f}); "
        f"{percentile(report.claim_without_disk_ms, 50):.2f} at p50 without the disk\n"
        f"WAL per job at {report.headline}: engine {wal['engine']:.0f} bytes, "
        f"one call {wal['one_call']:.0f}, bare {wal['bare']:.0f}\n"
        f"PostgreSQL {report.server_version}, {durable}; {report.jobs:,} jobs, {once}; "
        f"{report.rounds} rounds, {report.seconds:.0f} s"
    )


def _table(report: Report) -> Table:
    from rich.table import Table

    table = Table(title="Claim + settle, jobs per second (median of the rounds)", title_justify="left")
    for heading in ("batch", "clients", "bare", "two calls", "ratio", "one call", "ratio", "spread"):
        table.add_column(heading, justify="right", no_wrap=True)
    for setting, figure in report.figures.items():
        table.add_row(
            f"{setting.batch:,}",
            str(setting.clients),
            f"{figure.bare:,.0f}",
            f"{figure.engine:,.0f}",
            f"{figure.ratio:.2f}",
            f"{figure.one_call:,.0f}",
            f"{figure.one_call_ratio:.2f}",
            f"{figure.spread:.0%}",
        )
    return table


def _say(message: str) -> None:
    click.echo(message, err=True)
