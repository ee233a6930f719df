"""Put together what a run left behind: journals, the witness and the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from gauntlet import journal
from gauntlet.arena import witness
from gauntlet.history import UNKNOWN, Call, History, Run


def history_of(conn: psycopg.Connection[Any], journals: Path) -> History:
    """Everything but what only the harness knows: leaks, deadlocks, and how long it took."""
    calls, runs, capacities = read_journals(journals)
    return History(
        changes=witness.changes(conn),
        holds=witness.holds(conn),
        calls=calls,
        runs=runs,
        capacities=capacities,
        places=witness.counted(conn, witness.PLACES),
        errors=witness.counted(conn, witness.ERRORS),
        waits=witness.counted(conn, witness.WAITS),
        set_aside=frozenset(witness.listed(conn, witness.SET_ASIDE)),
        ledger=witness.counted(conn, "select job, count(*) from public.ledger group by 1"),
        orders=frozenset(witness.listed(conn, "select job from public.orders")),
        held_at_end=witness.listed(conn, witness.HELD),
        untraced=witness.listed(conn, witness.UNTRACED),
    )


def read_journals(directory: Path) -> tuple[list[Call], list[Run], dict[str, int]]:
    """All calls, all executions, and the capacities of streams by hand."""
    calls: list[Call] = []
    runs: list[Run] = []
    capacities: dict[str, int] = {}
    for path in sorted(directory.glob("*.jsonl")):
        open_calls: dict[int, dict[str, Any]] = {}
        open_runs: dict[int, dict[str, Any]] = {}
        for line in journal.read(path):
            match line["what"]:
                case "call":
                    open_calls[line["n"]] = line
                case "reply":
                    calls += _calls(path.stem, open_calls.pop(line["n"]), line["at"], line["said"])
                case "begin":
                    open_runs[line["run"]] = line
                case "end":
                    begun = open_runs.pop(line["run"])
                    runs.append(
                        Run(path.stem, begun["job"], begun["attempt"], begun["at"], line["at"], line["how"])
                    )
                case "opened":
                    capacities[line["assignee"]] = line["capacity"]
                case _:
                    pass
        for call in open_calls.values():
            calls += _calls(path.stem, call, float("inf"), UNKNOWN)
        for begun in open_runs.values():
            runs.append(Run(path.stem, begun["job"], begun["attempt"], begun["at"], float("inf"), None))
    return calls, runs, capacities


def _calls(who: str, line: dict[str, Any], ended: float, said: str | list[str]) -> Iterator[Call]:
    items: list[Any] = line["items"]
    for place, item in enumerate(items):
        told = said if isinstance(said, str) else said[place]
        job, lease, spec = _item(line, item)
        yield Call(who, line["op"], job, told, line["at"], ended, lease, spec)


def _item(line: dict[str, Any], item: Any) -> tuple[str, str | None, dict[str, Any]]:
    """A job, what a caller named as its lease, and what else it said."""
    if isinstance(item, str):
        return item, line.get("lease"), {}
    match line["op"]:
        case "zombie":
            return item[0], item[1], {"verb": item[2]}
        case _:
            return item[0], None, {**item[1], "order": bool(line.get("order"))}
