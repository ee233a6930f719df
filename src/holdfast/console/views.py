"""What there is to see beside lists of jobs: one job, queues, workers, resources, figures."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Final

from holdfast.client.waiting import read
from holdfast.domain.history import quantile_s
from holdfast.domain.job import Job
from holdfast.domain.states import JobState
from holdfast.store import HistoryStep, QueueStats
from holdfast.store.calls import operating, reading, searching, watching
from holdfast.store.calls.watching import HoldRow, TraceEvent, WorkerRow
from holdfast.store.steps import Steps, ask

MOST_COUNTED: Final = 10_000
"""No line is counted further than this."""

MOST_GLANCED: Final = 1000
"""The same, for whoever looks all the time."""

MOST_POINTS: Final = 240
"""A history has no more steps than this: each is as many minutes as that takes."""

MOST_TRACED: Final = 1000
MOST_RELATIVES: Final = 100
MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
MOST_ENDED: Final = 100_000


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened to a job, as far as it is traced: `level` says what is."""

    job: Job
    level: str
    events: tuple[TraceEvent, ...]


@dataclass(frozen=True, slots=True)
class JobView:
    """A job with all there is around it: what it waits for, what waits for it, what happened to it."""

    job: Job
    parents: tuple[Job, ...]
    children: tuple[Job, ...]
    """The first of them."""
    trace: Trace


@dataclass(frozen=True, slots=True)
class Queues:
    """Every queue that has a live job, is paused or has a limit, and the moment that was so."""

    at: datetime
    queues: tuple[QueueStats, ...]
    counted_to: int

    def is_capped(self, count: int) -> bool:
        """Whether counting ended at this number, so that there may be more."""
        return count >= self.counted_to


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers that are there, busy or idle, those that are lost, and the moment that was so."""

    at: datetime
    workers: tuple[WorkerRow, ...]


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource or a singleton key that is held, or wanted, or has a capacity of its own."""

    kind: str
    key: str
    capacity: int
    holders: tuple[HoldRow, ...]
    waiting: int
    """Among the latest 25,000 live jobs."""


@dataclass(frozen=True, slots=True)
class Stats:
    """An installation in figures. Those of the lines are counted up to a limit in each queue."""

    at: datetime
    due: int
    delayed: int
    blocked: int
    held: int
    dead: int
    oldest_due_at: datetime | None
    paused: tuple[str, ...]
    ended_last_minute: dict[JobState, int]
    ended_last_hour: dict[JobState, int]
    archived_about: int
    capped: bool
    """Some figure is only a least one."""


@dataclass(frozen=True, slots=True)
class Glance:
    """The least that tells how things go: cheap enough to be asked every other second."""

    queues: Queues
    ended_last_minute: dict[JobState, int]


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A step of the history, over all queues or of one. Times are read from buckets, to within a fifth."""

    at: datetime
    completed: int = 0
    dead: int = 0
    cancelled: int = 0
    expired: int = 0
    wait_p50_s: float | None = None
    """From due to claimed, for the last run of what ended."""
    wait_p95_s: float | None = None
    run_p50_s: float | None = None
    run_p95_s: float | None = None
    depth: int | None = None
    """The most jobs that were due when somebody looked, once a minute; None: nobody did."""
    oldest_s: float | None = None


@dataclass(frozen=True, slots=True)
class History:
    """How things went, a point for each step until now, also for those in which nothing happened."""

    at: datetime
    step_s: float
    points: tuple[HistoryPoint, ...]


def history(minutes: int = 60, queue: str | None = None) -> Steps[History]:
    """What the upkeep has counted in the last minutes, a week at most, in few enough points for a chart."""
    step = ceil(minutes / MOST_POINTS)
    found = yield from ask(reading.get_history(minutes, step, queue))
    at = yield from ask(watching.database_clock())
    known = {point.at: point for point in map(_point, found)}
    step_s = int(MINUTE_S) * step
    last_s = at.timestamp() // step_s * step_s
    every = [at.fromtimestamp(last_s - step_s * back, at.tzinfo) for back in range(ceil(minutes / step))]
    return History(at, step_s, tuple(known.get(each, HistoryPoint(each)) for each in reversed(every)))


def _point(step: HistoryStep) -> HistoryPoint:
    return HistoryPoint(
        step.at,
        step.completed,
        step.dead,
        step.cancelled,
        step.expired,
        quantile_s(step.waits, 0.5),
        quantile_s(step.waits, 0.95),
        quantile_s(step.runs, 0.5),
        quantile_s(step.runs, 0.95),
        step.depth,
        step.oldest_s,
    )


def glance(counted_to: int = MOST_GLANCED) -> Steps[Glance]:
    """How the lines stand and how many jobs end."""
    lines = yield from queues(counted_to)
    minute = yield from ask(reading.count_ended_jobs(MINUTE_S, MOST_ENDED))
    return Glance(lines, minute)


def job_view(job_id: str) -> Steps[JobView]:
    """One job and its surroundings; raise JobNotFound."""
    found = yield from trace(job_id)
    wanted = found.job.wait_for[:MOST_RELATIVES]
    numbers = (yield from ask(searching.numbers_of(wanted))) if wanted else []
    parents = (yield from ask(searching.details(numbers))) if numbers else []
    children = yield from ask(reading.list_waiting_jobs(job_id, MOST_RELATIVES))
    return JobView(found.job, tuple(parents), tuple(children), found)


def trace(job_id: str, limit: int = MOST_TRACED) -> Steps[Trace]:
    """What happened to a job; raise JobNotFound."""
    job = yield from read(job_id)
    events = yield from ask(watching.trace_of(job_id, limit))
    level = yield from ask(operating.trace_level())
    return Trace(job, level, tuple(events))


def queues(counted_to: int = MOST_COUNTED) -> Steps[Queues]:
    """How the queues stand."""
    found = yield from ask(reading.get_queue_stats(counted_to))
    at = yield from ask(watching.database_clock())
    return Queues(at, tuple(found), counted_to)


def workers(limit: int = 1000) -> Steps[Workers]:
    """Who works, and who is lost."""
    found = yield from ask(watching.list_workers(limit, watching.LOST_S))
    at = yield from ask(watching.database_clock())
    return Workers(at, tuple(found))


def resources(limit: int = 1000) -> Steps[list[Resource]]:
    """Resources and singleton keys: who holds them, how many want them."""
    holds = yield from ask(watching.list_holds(limit))
    capacities = yield from ask(watching.list_capacities())
    waiters = yield from ask(watching.count_waiters(limit))
    holders: defaultdict[tuple[str, str], list[HoldRow]] = defaultdict(list)
    for hold in holds:
        holders[hold.kind, hold.key].append(hold)
    keys = {*holders, *waiters, *(("resource", key) for key in capacities)}
    found = [
        Resource(
            kind,
            key,
            capacities.get(key, 1) if kind == "resource" else 1,
            tuple(holders.get((kind, key), ())),
            waiters.get((kind, key), 0),
        )
        for kind, key in sorted(keys)
    ]
    return sorted(found, key=lambda each: (-each.waiting, -len(each.holders)))[:limit]


def stats(counted_to: int = MOST_COUNTED) -> Steps[Stats]:
    """The installation in figures."""
    lines = yield from queues(counted_to)
    minute = yield from ask(reading.count_ended_jobs(MINUTE_S, MOST_ENDED))
    hour = yield from ask(reading.count_ended_jobs(HOUR_S, MOST_ENDED))
    archived = yield from ask(watching.archive_size())
    each = lines.queues
    waiting = [queue.oldest_due_at for queue in each if queue.oldest_due_at is not None]
    return Stats(
        at=lines.at,
        due=sum(queue.due_jobs for queue in each),
        delayed=sum(queue.delayed_jobs for queue in each),
        blocked=sum(queue.blocked_jobs for queue in each),
        held=sum(queue.held_jobs for queue in each),
        dead=sum(queue.dead_jobs for queue in each),
        oldest_due_at=min(waiting, default=None),
        paused=tuple(queue.queue for queue in each if queue.paused_at is not None),
        ended_last_minute=minute,
        ended_last_hour=hour,
        archived_about=archived,
        capped=sum(hour.values()) >= MOST_ENDED
        or any(
            lines.is_capped(most)
            for queue in each
            for most in (queue.due_jobs + queue.delayed_jobs, queue.blocked_jobs, queue.dead_jobs)
        ),
    )
