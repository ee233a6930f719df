"""`make gauntlet`: run it, say what came of it, and exit with 1 if anything is wrong."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import SystemRandom

from rich.console import Console

from gauntlet import report
from gauntlet.arena.arena import Size
from gauntlet.arena.server import Server
from gauntlet.faults import FAULTS
from gauntlet.planted import PLANTED, plant
from gauntlet.planted.runner import Catch, catches, control
from gauntlet.run import Outcome, Plan, go

MINUTES = 15.0
JOBS_PER_S = 270.0
FAULTS_PER_S = 1.9
LONG_ENOUGH = 10.0
"""Minutes from which on the planted mistakes are part of a run unless somebody says otherwise."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Do what the command line says."""
    options = _options(arguments)
    # Ended like an interrupt, so that no process, disk or namespace is left behind.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    console = Console(stderr=options.json)
    if options.list:
        for name, fault in FAULTS.items():
            console.print(f"{name}: {fault.does}; undone: {fault.undone}", highlight=False)
        return
    outcome, first, caught = _run(options, console)
    if first is not None:
        report.show_catches(console, first, caught)
    print(report.line(outcome, first, caught))
    wrong = report.shortcomings(outcome, first, caught)
    for each in wrong:
        console.print(f"[red]{each}[/red]")
    sys.exit(1 if wrong and not options.plant else 0)


def _run(options: argparse.Namespace, console: Console) -> tuple[Outcome | None, Catch | None, list[Catch]]:
    outcome: Outcome | None = None
    first: Catch | None = None
    caught: list[Catch] = []
    say = partial(console.print, highlight=False, markup=False)
    with _server(_jobs(options)) as server:
        if not options.planted_only:
            plan = plan_for(options)
            mistake = PLANTED[options.plant] if options.plant else None
            outcome = go(
                server,
                plan,
                say,
                plant=None if mistake is None else lambda conn: plant(conn, mistake),
                keep=options.keep,
            )
            report.show(console, outcome)
        if options.planted_only or options.planted:
            first = control(server, options.seed, say)
            caught = list(catches(server, PLANTED, options.seed, say))
    return outcome, first, caught


def plan_for(options: argparse.Namespace) -> Plan:
    """How much of everything fits into the time."""
    seconds = options.minutes * 60
    faults = options.faults if options.faults is not None else int(seconds * FAULTS_PER_S)
    kinds = [name.strip() for name in options.only.split(",")] if options.only else ()
    return Plan(
        options.seed,
        seconds,
        options.jobs or 0,
        faults,
        Size(rate=_jobs(options) / (seconds * 0.9)),
        kinds,
        kills=max(2, min(12, int(options.minutes * 2))),
        restarts=1 if options.minutes < 4 else 3,
    )


def _jobs(options: argparse.Namespace) -> int:
    return int(options.jobs or options.minutes * 60 * JOBS_PER_S * 0.9)


@contextmanager
def _server(jobs: int) -> Generator[Server]:
    server = Server(Path(tempfile.mkdtemp(prefix="gauntlet-server-")), jobs=jobs)
    try:
        yield server
    finally:
        server.close()


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gauntlet", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=None, help=f"how long; {MINUTES:.0f} unless jobs are named"
    )
    parser.add_argument("--jobs", type=int, default=None, help="how many jobs at least, as in 1_000_000")
    parser.add_argument("--faults", type=int, default=None, help="how many faults, about; 0: none")
    parser.add_argument("--seed", type=int, default=None, help="the same faults and jobs again")
    parser.add_argument("--only", metavar="FAULT,…", help="only these kinds of faults; see --list")
    parser.add_argument(
        "--plant", choices=sorted(PLANTED), metavar="NAME", help="with this mistake in the engine"
    )
    parser.add_argument(
        "--planted",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="and a short run for every mistake there is",
    )
    parser.add_argument("--planted-only", action="store_true", help="nothing but those")
    parser.add_argument("--json", action="store_true", help="nothing on stdout but one line of JSON")
    parser.add_argument("--keep", action="store_true", help="keep journals and logs of a run that passed")
    parser.add_argument("--list", action="store_true", help="list the kinds of faults")
    options = parser.parse_args(arguments)
    if options.minutes is None:
        options.minutes = MINUTES if options.jobs is None else max(2.0, options.jobs / JOBS_PER_S / 60)
    if options.seed is None:
        options.seed = SystemRandom().randrange(1_000_000)
    if options.planted is None:
        options.planted = options.minutes >= LONG_ENOUGH and not options.plant
    return options


if __name__ == "__main__":
    main()
