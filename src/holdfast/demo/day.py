"""A day of the shop: two workers, one of which is killed, and everything is done in the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module, reload
from typing import TYPE_CHECKING, Any, Final

from holdfast.config import DATABASE_URL_VARIABLES, SCHEMA_VARIABLE
from holdfast.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from holdfast.app import Holdfast
    from holdfast.store import JobStats

ORDERS: Final = 40
SHELVES: Final = 10
PICTURES: Final = 6
CLICKS: Final = 3000
GROUPS: Final = ("orders", "mails", "stock", "pictures", "money", "clicks", "report")

LEASE_S: Final = 2.0
LOOK_S: Final = 0.15
LIMIT_S: Final = 90.0
"""A day takes some seconds; one that takes this long will not end."""

QUEUES: Final = ("orders=4", "mail=4", "stock=4", "pictures=2", "money=1", "clicks=200")

Watch = Callable[[Mapping[str, "JobStats"], str], None]
"""Shown how the groups of jobs stand, and what has just happened."""


@dataclass(frozen=True, slots=True)
class Day:
    """What came of a day."""

    stats: Mapping[str, JobStats]
    rescued: list[tuple[str, str, str]]
    """Jobs whose worker was killed: id, task, and the worker that did them instead."""
    retried: list[tuple[str, str, str]]
    """Jobs that failed and were done all the same: id, task, and the first error."""
    dead: list[tuple[str, str, str]]
    """Dead letters: id, task, and why."""
    seconds: float

    @property
    def jobs(self) -> int:
        return sum(stats.total_jobs for stats in self.stats.values())


def live(dsn: str, schema: str, watch: Watch, afterwards: Callable[[Day], None] = lambda day: None) -> Day:
    """Fill the queues, start two workers, kill one of them, and return when every job has ended.

    `afterwards` is called before the other worker goes home, so that it may be given more to do.
    """
    with _surroundings(dsn, schema), _shop() as shop:
        app: Holdfast = shop.hf
        total = _fill(app, shop)
        began_s = time.monotonic()
        with _worker("worker 1") as first, _worker("worker 2") as second:
            workers = {"worker 1": first, "worker 2": second}
            stats = _until(app, watch, workers, lambda seen: seen["orders"].completed_jobs >= ORDERS // 4)
            victim = _kill(app, second)
            watch(
                stats, f"worker 2 was killed with -9 while it ran {victim}; its leases end in {LEASE_S:g} s"
            )
            stats = _until(app, watch, {"worker 1": first}, lambda seen: _ended(seen) >= total)
            day = _account(app, stats, time.monotonic() - began_s)
            afterwards(day)
        return day


def _fill(app: Holdfast, shop: Any) -> int:
    app.resources["scanner"].capacity = 2
    orders = app.enqueue_many(shop.pack.using(job_id=f"order-{n}").job(n) for n in range(1, ORDERS + 1))
    mails = app.enqueue_many(
        shop.send_mail.using(job_id=f"mail-{n}", wait_for=[f"order-{n}"]).job(n) for n in range(1, ORDERS + 1)
    )
    shop.report.using(job_id="report", wait_for=[*orders, *mails]).enqueue(ORDERS)
    shop.charge.using(job_id="charge-1").enqueue("4711")
    app.enqueue_many(shop.count_stock.using(job_id=f"shelf-{n}").job(n) for n in range(1, SHELVES + 1))
    app.enqueue_many(shop.resize.using(job_id=f"picture-{n}").job(n) for n in range(1, PICTURES + 1))
    clicks = app.enqueue_many((shop.count_click.job(n) for n in range(CLICKS)), returning=False)
    return 2 * ORDERS + 1 + 1 + SHELVES + PICTURES + clicks


def _until(
    app: Holdfast,
    watch: Watch,
    workers: Mapping[str, subprocess.Popen[bytes]],
    done: Callable[[Mapping[str, JobStats]], bool],
) -> Mapping[str, JobStats]:
    until_s = time.monotonic() + LIMIT_S
    while True:
        stats = {group: app.stores.blocking().get_job_stats([group]) for group in GROUPS}
        watch(stats, "")
        if done(stats):
            return stats
        for name, worker in workers.items():
            if worker.poll() is not None:
                raise DatabaseUnavailable(
                    f"{name} of the demo ended by itself, with exit code {worker.returncode}"
                )
        if time.monotonic() > until_s:
            raise DatabaseUnavailable(f"the day of the demo did not end in {LIMIT_S:.0f} s")
        time.sleep(LOOK_S)


def _ended(stats: Mapping[str, JobStats]) -> int:
    dead = stats["money"].failed_jobs
    return sum(each.completed_jobs + each.stopped_jobs for each in stats.values()) + dead


def _kill(app: Holdfast, worker: subprocess.Popen[bytes]) -> str:
    """Kill a worker when it holds an order; the order."""
    until_s = time.monotonic() + LIMIT_S
    while time.monotonic() < until_s:
        for found in app.jobs.list(state="RUNNING", queue="orders"):
            if f":{worker.pid}:" in (found.job.assignee_id or ""):
                worker.send_signal(signal.SIGKILL)
                worker.wait()
                return found.job_id
    raise DatabaseUnavailable("the second worker of the demo never got an order")


def _account(app: Holdfast, stats: Mapping[str, JobStats], seconds: float) -> Day:
    jobs = [
        found.job
        for group in GROUPS
        if group != "clicks"
        for found in app.jobs.list(tags=[group], limit=1000)
    ]
    return Day(
        stats=stats,
        rescued=[(j.job_id, j.task or "", j.assignee_id or "") for j in jobs if j.lease_expiration_count],
        retried=[
            (j.job_id, j.task or "", j.errors[0].message)
            for j in jobs
            if j.errors and j.state.value == "COMPLETED"
        ],
        dead=[(j.job_id, j.task or "", j.errors[-1].message) for j in jobs if j.state.value == "DEAD"],
        seconds=seconds,
    )


@contextmanager
def _worker(name: str) -> Generator[subprocess.Popen[bytes]]:
    """A worker as people start it in production."""
    command = [sys.executable, "-m", "holdfast", "worker", "holdfast.demo.shop:hf", "--log-level", "error"]
    command += [part for queue in QUEUES for part in ("--queue", queue)]
    worker = subprocess.Popen([*command, "--lease", str(LEASE_S), "--shutdown-timeout", "5"])
    try:
        yield worker
    finally:
        if worker.poll() is None:
            worker.send_signal(signal.SIGTERM)
        try:
            worker.wait(15)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


@contextmanager
def _shop() -> Generator[Any]:
    """The shop, opened anew: its app belongs to the database of this day."""
    shop = reload(import_module("holdfast.demo.shop"))
    try:
        yield shop
    finally:
        shop.hf.close()


@contextmanager
def _surroundings(dsn: str, schema: str) -> Generator[None]:
    """Name the database where workers look for it."""
    wanted: dict[str, Any] = {DATABASE_URL_VARIABLES[0]: dsn, SCHEMA_VARIABLE: schema}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
