"""The little shop of the demo: its jobs, what they do, and the pretend workers that do them."""

from __future__ import annotations

import hashlib
import queue
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.domain.job import Job, NewJob
from holdfast.domain.outcome import Completed, Failed
from holdfast.domain.states import FINISHED, JobState
from holdfast.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from holdfast.domain.job import ClaimedJob, Content
    from holdfast.domain.outcome import Outcome
    from holdfast.store import SyncStore

QUEUES = ("orders", "mail", "money", "stock", "reports")
WORKERS = ("worker-1", "worker-2")
VANISHING = "worker-3"

SHORT_LEASE_S = 0.5
LEASE_S = 10.0
RETRY_DELAY_S = 0.3
LIMIT_S = 30.0
"""How long nothing may happen before the demo gives up; what it waits for takes half a second."""


@dataclass(frozen=True, slots=True)
class Event:
    """What became of a job just now; the worker is None if nobody held it."""

    job_id: str
    state: JobState
    worker_id: str | None = None


def new_jobs() -> list[NewJob]:
    """Five orders with a mail each, a charge that fails for good, an invoice, stock counts, a report."""
    numbers = range(1001, 1006)
    orders = [NewJob(job_id=f"order-{n}", queue="orders", task="order.pack", payload=n) for n in numbers]
    mails = [
        NewJob(job_id=f"mail-{n}", queue="mail", task="mail.send", payload=n, wait_for=[f"order-{n}"])
        for n in numbers
    ]
    stock = [
        NewJob(job_id=f"stock-{n}", queue="stock", task="stock.count", payload=n, singleton_key="stock")
        for n in (1, 2, 3)
    ]
    return [
        *orders,
        *mails,
        NewJob(job_id="charge-1006", queue="money", task="card.charge", payload=1006, max_attempts=2),
        NewJob(
            job_id="order-1006",
            queue="orders",
            task="order.pack",
            payload=1006,
            wait_for=["charge-1006"],
            if_parent_fails="cancel",
        ),
        NewJob(job_id="invoice-1001", queue="money", task="invoice.print", payload=1001, priority=1),
        *stock,
        NewJob(
            job_id="report",
            queue="reports",
            task="day.report",
            wait_for=[str(job.job_id) for job in (*orders, *mails)],
        ),
    ]


def run(store: SyncStore, watch: Callable[[Event], None]) -> list[Job]:
    """Submit the jobs, work until each has ended, and return them as they are then."""
    ids = store.submit_jobs(new_jobs())
    for lost in store.claim_jobs(VANISHING, ["money"], lease_s=SHORT_LEASE_S):
        watch(Event(lost.job_id, JobState.RUNNING, VANISHING))  # and that was the last we heard of it
    left = set(ids)
    with _working(store) as events:
        while left:
            event = _next(events)
            watch(event)
            if event.state in FINISHED:
                left.discard(event.job_id)
            if event.state is JobState.DEAD:
                left -= _followers(store, left, watch)
    return [job for job in map(store.get_job, ids) if job is not None]


class Bell:
    """Rings when something was settled: then there may be work for whoever waits."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self.rings = 0
        self.closed = False

    def ring(self, *, closing: bool = False) -> None:
        with self._condition:
            self.rings += 1
            self.closed |= closing
            self._condition.notify_all()

    def wait(self, heard: int, timeout_s: float) -> None:
        """Wait for a ring after the last one heard."""
        with self._condition:
            self._condition.wait_for(lambda: self.rings != heard, timeout_s)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker in a few lines: claim, perform, settle; with nothing to do, wait for what comes next."""

    worker_id: str
    store: SyncStore
    bell: Bell
    events: queue.SimpleQueue[Event | Exception]

    def work(self) -> None:
        try:
            while not self.bell.closed:
                heard = self.bell.rings
                claimed = self.store.claim_jobs(self.worker_id, QUEUES, limit=2, lease_s=LEASE_S)
                for job in claimed:
                    self.events.put(Event(job.job_id, JobState.RUNNING, self.worker_id))
                for job in claimed:
                    self._settle(job, _perform(job))
                if not claimed:
                    self.bell.wait(heard, self._until_due_s())
        except Exception as error:
            self.events.put(error)

    def _settle(self, job: ClaimedJob, outcome: Outcome) -> None:
        (verdict,) = self.store.settle_jobs([(job.job_id, job.lease_id, outcome)])
        if verdict.ok and verdict.status is not None:
            self.events.put(Event(job.job_id, verdict.status, self.worker_id))
        self.bell.ring()

    def _until_due_s(self) -> float:
        """Until a job becomes due or a lease lapses; a second at most, as clocks may differ."""
        due = self.store.next_due(QUEUES)
        return 1.0 if due is None else min(1.0, max(0.001, (due - datetime.now(UTC)).total_seconds()))


@contextmanager
def _working(store: SyncStore) -> Generator[queue.SimpleQueue[Event | Exception]]:
    bell = Bell()
    events: queue.SimpleQueue[Event | Exception] = queue.SimpleQueue()
    workers = [Worker(name, store, bell, events) for name in WORKERS]
    threads = [threading.Thread(target=worker.work, name=worker.worker_id) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield events
    finally:
        bell.ring(closing=True)
        for thread in threads:
            thread.join()


def _next(events: queue.SimpleQueue[Event | Exception]) -> Event:
    try:
        event = events.get(timeout=LIMIT_S)
    except queue.Empty:
        raise DatabaseUnavailable(f"nothing has happened for {LIMIT_S:.0f} s; the demo gives up") from None
    if isinstance(event, Exception):
        raise event
    return event


def _followers(store: SyncStore, left: set[str], watch: Callable[[Event], None]) -> set[str]:
    """Jobs that ended because one they waited for did: no worker tells of them."""
    jobs = [job for job in map(store.get_job, left) if job is not None and job.is_finished]
    for job in jobs:
        watch(Event(job.job_id, job.state))
    return {job.job_id for job in jobs}


def _perform(job: ClaimedJob) -> Outcome:
    try:
        return Completed(_handle(job))
    except ConnectionError as error:
        return Failed(str(error), delay_s=RETRY_DELAY_S)


def _handle(job: ClaimedJob) -> Content:
    # Real work, if not useful work: some ten milliseconds of arithmetic.
    seal = hashlib.pbkdf2_hmac("sha256", job.job_id.encode(), b"holdfast", 30_000).hex()[:8]
    match job.task, job.payload:
        case "mail.send", 1002 if job.attempts == 0:
            raise ConnectionError("the mail server hung up")
        case "card.charge", _:
            raise ConnectionError("the bank does not answer")
        case _:
            return {"seal": seal}
