"""What people read at the end, and the one line for machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from gauntlet.arena.arena import LEASE_S
from gauntlet.checker import INVARIANTS
from gauntlet.faults import FAULTS
from gauntlet.planted.runner import Catch
from gauntlet.run import CANNOT, Outcome

PROMISED_S = LEASE_S + 1.5
"""How long a job of a killed worker may wait for another one, at the 99th percentile."""
PROMISED_SHARE = 0.95
JUDGED_S = 600
"""A short run restarts the server once, beside whatever else the machine does: too little to judge by."""


def line(outcome: Outcome | None, control: Catch | None, catches: Sequence[Catch]) -> str:
    """One line of JSON with everything."""
    told: dict[str, Any] = dict(outcome.figures) if outcome is not None else {}
    told["planted"] = len(catches)
    told["caught"] = sum(catch.is_caught for catch in catches)
    if control is not None:
        told["clean_without_plant"] = not control.by
    told["not_tested"] = list(CANNOT)
    if outcome is not None:
        told["skipped"] = outcome.skipped
    return json.dumps(told)


def show(console: Console, outcome: Outcome) -> None:
    """Figures, invariants, faults, and what was left out."""
    figures = outcome.figures
    table = Table(title="The gauntlet", title_justify="left")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name, value in figures.items():
        if name != "violated":
            table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    console.print(table)
    table = Table(title="What must be true", title_justify="left")
    table.add_column("invariant")
    table.add_column("violations", justify="right")
    for name in INVARIANTS:
        found = outcome.verdict.counts.get(name, 0)
        table.add_row(name, f"[red]{found}[/red]" if found else "0")
    console.print(table)
    table = Table(title="Faults", title_justify="left")
    for heading in ("fault", "times", "what it does", "how it is undone"):
        table.add_column(heading)
    for name, fault in FAULTS.items():
        times = (
            f"skipped: {outcome.skipped[name]}"
            if name in outcome.skipped
            else str(outcome.faults.get(name, 0))
        )
        table.add_row(name, times, fault.does, fault.undone)
    console.print(table)
    for violation in outcome.verdict.violations:
        console.print(f"[red]{violation.invariant}[/red]: {violation.job}: {violation.why}", markup=True)
    for cannot in CANNOT:
        console.print(f"not tested here: {cannot}")


def show_catches(console: Console, control: Catch, catches: Sequence[Catch]) -> None:
    table = Table(title="Planted mistakes", title_justify="left")
    for heading in ("mistake", "caught", "seconds", "what it does", "seen by"):
        table.add_column(heading)
    for catch in (control, *catches):
        word = (
            ("clean" if not catch.by else "NOT clean")
            if catch is control
            else "yes"
            if catch.is_caught
            else "NO"
        )
        table.add_row(catch.name, word, f"{catch.seconds:.0f}", catch.does, ", ".join(catch.by))
    console.print(table)


def shortcomings(outcome: Outcome | None, control: Catch | None, catches: Sequence[Catch]) -> list[str]:
    """Why the run is not a pass; empty: it is one."""
    found = [f"{catch.name} was planted and not caught" for catch in catches if not catch.is_caught]
    if control is not None and control.by:
        found.append(f"violations where nothing was planted: {', '.join(control.by)}")
    if outcome is None:
        return found
    found += [f"{times} × not true: {name}" for name, times in outcome.verdict.counts.items()]
    recovery = outcome.figures["recovery_p99_s"]
    if recovery is not None and recovery > PROMISED_S:
        found.append(
            f"recovery from a kill took {recovery} s at the 99th percentile; {PROMISED_S} are promised"
        )
    share = outcome.figures["restart_throughput"]
    if share is not None and share < PROMISED_SHARE and outcome.figures["seconds"] >= JUDGED_S:
        found.append(
            f"within 5 s of a restart {share} of the throughput was reached; {PROMISED_SHARE} are promised"
        )
    return found
