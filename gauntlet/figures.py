"""What a run measured: recovery after a kill, throughput after a restart, zombies."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gauntlet.history import HELD, OK, UNKNOWN, Change, History, Story

WINDOW_S = 1.0
LATE_S = 0.5
"""How long after the end of a process something it had sent may be carried out."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart of the server, with nothing else going on."""

    down: float
    up: float


def recoveries(stories: Iterable[Story], kills: Sequence[tuple[float, int]]) -> list[float]:
    """How long after a kill each job of the killed worker was claimed again, or had ended."""
    by_pid: defaultdict[str, list[float]] = defaultdict(list)
    for at, pid in kills:
        by_pid[str(pid)].append(at)
    found: list[float] = []
    for story in stories:
        killed_at: float | None = None
        for before, change in story.steps():
            if before is None:
                continue
            if before.state in HELD and change.lapses > before.lapses:
                killed_at = _killed(before, change, by_pid)
                if killed_at is not None and change.state not in ("UNKNOWN_RETRY",):
                    found.append(change.at - killed_at)
                    killed_at = None
            elif killed_at is not None and change.state == "RUNNING":
                found.append(change.at - killed_at)
                killed_at = None
    return sorted(found)


def _killed(held: Change, lapsed: Change, by_pid: Mapping[str, Sequence[float]]) -> float | None:
    """When the holder was killed, if that was while it held the job. Numbers of processes are given again."""
    assignee = held.assignee or ""
    kills = by_pid.get(assignee.split(":")[1], ()) if assignee.count(":") == 2 else ()
    return next((at for at in kills if held.at - LATE_S < at < lapsed.at), None)


def percentile(values: Sequence[float], share: float) -> float | None:
    """Of sorted values; None if there are none."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else None


def completions(history: History) -> list[float]:
    return sorted(change.at for change in history.changes if change.state == "COMPLETED")


def rate(times: Sequence[float], begin: float, end: float) -> float:
    return (bisect_left(times, end) - bisect_left(times, begin)) / max(0.001, end - begin)


def after_restarts(times: Sequence[float], restarts: Sequence[Restart]) -> tuple[float | None, float | None]:
    """The worst share of the throughput before that was reached within 5 s, and the longest wait for it."""
    shares: list[float] = []
    waits: list[float] = []
    for restart in restarts:
        before = rate(times, restart.down - 6, restart.down)
        if before < 1:
            continue
        steps = [step / 10 for step in range(50)]
        rates = [rate(times, restart.up + step, restart.up + step + WINDOW_S) / before for step in steps]
        shares.append(max(rates))
        waits.append(next((step for step, reached in zip(steps, rates, strict=True) if reached >= 0.95), 5.0))
    return (min(shares), max(waits)) if shares else (None, None)


def zombies(history: History) -> tuple[int, int]:
    """Offered and answered; accepted."""
    answers = [call.said for call in history.calls if call.op == "zombie" and call.said != UNKNOWN]
    return len(answers), answers.count(OK)


def double_settled(history: History) -> int:
    """Leases under which more than one end was taken."""
    taken: dict[tuple[str, str | None], int] = {}
    for call in history.calls:
        if call.op in ("complete_job", "fail_job", "stop_job", "complete_with_effect") and call.said == OK:
            taken[call.job, call.lease] = taken.get((call.job, call.lease), 0) + 1
    return sum(1 for times in taken.values() if times > 1)
