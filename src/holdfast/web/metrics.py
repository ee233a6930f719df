"""Figures for Prometheus. What only the database can tell is asked for when somebody scrapes, in few words.

Gauges are counted up to a limit. Counters begin with the server and grow by what happened since the last
scrape; every server of one database counts the same, so take the largest of them and not the sum.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime, timedelta
from importlib.metadata import version
from typing import Any, Final

from holdfast.console import views
from holdfast.store.calls import counting
from holdfast.store.calls.counting import BOUNDS_S, Ended, Events
from holdfast.store.signals import Mode, Signals
from holdfast.store.steps import Steps, ask

MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

FRESH_S: Final = 1.0
"""Who scrapes more often gets the same again."""

LAG_S: Final = 3.0
"""How long the end of a job may take to be committed and still be counted."""

MOST_QUEUES: Final = 1000

Read = Callable[[Steps[Any]], Awaitable[Any]]


class Histogram:
    """How long something took, by queue."""

    def __init__(self) -> None:
        self.buckets: Counter[tuple[str, int]] = Counter()
        self.sums: defaultdict[str, float] = defaultdict(float)

    def add(self, queue: str, bucket: int | None, jobs: int, seconds: float | None) -> None:
        if bucket is not None and seconds is not None:
            self.buckets[queue, bucket] += jobs
            self.sums[queue] += seconds

    def lines(self, name: str) -> Iterator[str]:
        for queue in sorted(self.sums):
            seen = 0
            for place, bound in enumerate((*BOUNDS_S, "+Inf")):
                seen += self.buckets[queue, place]
                yield line(f"{name}_bucket", seen, queue=queue, le=str(bound))
            yield line(f"{name}_sum", self.sums[queue], queue=queue)
            yield line(f"{name}_count", seen, queue=queue)


class Totals:
    """What happened since the server began to count."""

    def __init__(self) -> None:
        self.ended: Counter[tuple[str, str]] = Counter()
        self.waits = Histogram()
        self.runs = Histogram()
        self.events: Counter[str] = Counter()

    def add_ends(self, found: Iterable[Ended]) -> None:
        for each in found:
            self.ended[each.queue, each.state] += each.jobs
            self.waits.add(each.queue, each.wait_bucket, each.jobs, each.wait_s)
            self.runs.add(each.queue, each.run_bucket, each.jobs, each.run_s)

    def add_events(self, found: Iterable[Events]) -> None:
        for each in found:
            self.events[each.event] += each.times
            if each.event == "reschedule_job" and each.reason == "resource_busy":
                self.events["resource_busy"] += each.times


class Scraper:
    """Asks the database, adds up, and writes the page; one at a time, whoever scrapes."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self._alone = asyncio.Lock()
        self._totals = Totals()
        self._ended_until: datetime | None = None
        self._last_event: int | None = None
        self._page = ""
        self._made_at = -FRESH_S

    async def scrape(self, watchers: int) -> str:
        """The page; raise DatabaseUnavailable if there is nothing to be had."""
        async with self._alone:
            if time.monotonic() - self._made_at >= FRESH_S:
                lines = await self._read(views.queues())
                workers = await self._read(views.workers())
                await self._count(lines.at)
                self._page = "\n".join(_page(lines, workers, self._totals, watchers)) + "\n"
                self._made_at = time.monotonic()
            return self._page

    async def _count(self, now: datetime) -> None:
        """Add what happened since the last scrape. What could not be counted in time is not tried again."""
        until = now - timedelta(seconds=LAG_S)
        since, self._ended_until = self._ended_until, until
        if since is not None and since < until:
            self._totals.add_ends(await self._read(ask(counting.count_ends(since, until))))
        if self._last_event is None:
            last: int = await self._read(ask(counting.last_event()))
            self._last_event = last
        seen = self._last_event
        found: list[Events] = await self._read(ask(counting.count_events(seen)))
        self._totals.add_events(found)
        self._last_event = max([seen, *(each.last for each in found)])


def _page(lines: views.Queues, workers: views.Workers, totals: Totals, watchers: int) -> Iterator[str]:
    yield from about("holdfast_info", "gauge", "This server.")
    yield line("holdfast_info", 1, version=version("holdfast"))
    yield from _queues(lines)
    yield from about("holdfast_workers", "gauge", "Workers by whether they are busy, idle or lost.")
    statuses = Counter(worker.status for worker in workers.workers)
    for status in ("busy", "idle", "lost"):
        yield line("holdfast_workers", statuses[status], status=status)
    yield from about("holdfast_jobs_ended_total", "counter", "Jobs that ended, by how.")
    for (queue, state), jobs in sorted(totals.ended.items()):
        yield line("holdfast_jobs_ended_total", jobs, queue=queue, state=state)
    yield from about("holdfast_job_wait_seconds", "histogram", "From being due to the last claim.")
    yield from totals.waits.lines("holdfast_job_wait_seconds")
    yield from about("holdfast_job_run_seconds", "histogram", "From the last claim to the end.")
    yield from totals.runs.lines("holdfast_job_run_seconds")
    for name, event, says in _TRACED:
        yield from about(name, "counter", f"{says}, as far as they are traced.")
        yield line(name, sum(totals.events[each] for each in event))
    yield from about("holdfast_listeners", "gauge", "Connections of this process that hear signals, by mode.")
    modes = Counter(Signals.modes())
    for mode in Mode:
        yield line("holdfast_listeners", modes[mode], mode=mode)
    yield from about("holdfast_web_watchers", "gauge", "Browsers that watch live.")
    yield line("holdfast_web_watchers", watchers)


_TRACED: Final = (
    ("holdfast_job_failures_total", ("job_failed", "job_dead"), "Attempts that failed"),
    ("holdfast_leases_lapsed_total", ("lease_expired",), "Leases that lapsed"),
    (
        "holdfast_jobs_rescheduled_resource_busy_total",
        ("resource_busy",),
        "Jobs put back because their resource was busy",
    ),
)


def _queues(lines: views.Queues) -> Iterator[str]:
    shown = lines.queues[:MOST_QUEUES]
    limit = f"counted up to {lines.counted_to}"
    yield from about("holdfast_queue_depth", "gauge", f"Jobs of a queue by how they stand, {limit}.")
    for each in shown:
        for state in ("due", "delayed", "blocked", "held", "dead"):
            yield line("holdfast_queue_depth", getattr(each, f"{state}_jobs"), queue=each.queue, state=state)
    yield from about("holdfast_queue_oldest_seconds", "gauge", "How long the first of a queue has been due.")
    for each in shown:
        waits = (lines.at - each.oldest_due_at).total_seconds() if each.oldest_due_at else 0.0
        yield line("holdfast_queue_oldest_seconds", max(0.0, waits), queue=each.queue)
    yield from about("holdfast_queue_paused", "gauge", "1 if a queue is paused.")
    for each in shown:
        yield line("holdfast_queue_paused", int(each.paused_at is not None), queue=each.queue)


def about(name: str, kind: str, says: str) -> Iterator[str]:
    yield f"# HELP {name} {says}"
    yield f"# TYPE {name} {kind}"


def line(name: str, value: float, **labels: str) -> str:
    """One sample; labels may be any text."""
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{shown}}} {value:.15g}" if shown else f"{name} {value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
