"""Is all well? One sentence for people who look in passing, and what there is to say beyond it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from holdfast.console import views
from holdfast.console.doctor import Finding, Level, of_queues
from holdfast.domain.states import JobState
from holdfast.store.calls import reading
from holdfast.store.steps import Steps, ask

BEHIND_S: Final = 60.0
"""A line whose first has waited so long is behind."""

LATELY_S: Final = 600.0
MOST_DIED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Health:
    """How it goes. It is not ok as soon as something needs doing."""

    ok: bool
    sentence: str
    findings: tuple[Finding, ...]


def health() -> Steps[Health]:
    """How it goes, from a few quick looks; the doctor looks closer."""
    lines = yield from views.queues(views.MOST_GLANCED)
    holders = yield from views.workers()
    ended = yield from ask(reading.count_ended_jobs(LATELY_S, MOST_DIED))
    return judge(lines, holders, ended.get(JobState.DEAD, 0))


def judge(lines: views.Queues, holders: views.Workers, died: int) -> Health:
    """The same as a decision."""
    findings = of_queues(lines)
    lost = [worker.worker_id for worker in holders.workers if worker.lapsed or worker.status == "lost"]
    if lost:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        says = f"{', '.join(lost[:3])}{more} can no longer be heard"
        fix = "look whether they still run; others take back what they held as soon as its leases lapse"
        findings.append(Finding(Level.PROBLEM, "workers", says, fix))
    behind = [
        f"{line.queue} is {_length(waits)} behind"
        for line in lines.queues
        if line.paused_at is None and (waits := _since(line.oldest_due_at, lines.at)) > BEHIND_S
    ]
    troubles = [
        *behind[:3],
        *([f"{len(behind) - 3} more queues are behind"] if len(behind) > 3 else []),
        *([f"{_jobs(died)} died in the last {_length(LATELY_S)}"] if died else []),
        *([f"{len(lost)} {'worker is' if len(lost) == 1 else 'workers are'} lost"] if lost else []),
    ]
    ok = not any(finding.level is Level.PROBLEM for finding in findings)
    return Health(ok, _sentence(lines, troubles), tuple(findings))


def _sentence(lines: views.Queues, troubles: Sequence[str]) -> str:
    if troubles:
        said = "; ".join(troubles)
        return f"{said[0].upper()}{said[1:]}."
    held = sum(line.held_jobs for line in lines.queues)
    paused = sum(line.paused_at is not None for line in lines.queues)
    queues = "1 queue" if len(lines.queues) == 1 else f"{len(lines.queues)} queues"
    stopped = f", {paused} paused" if paused else ""
    return f"All is well: {queues}{stopped}, {_jobs(held)} running, nobody waits long."


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count:,} jobs"


def _since(moment: datetime | None, now: datetime) -> float:
    return 0.0 if moment is None else (now - moment).total_seconds()


def _length(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
