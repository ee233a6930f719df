"""What each thread and task does, at random, written once: steps that either kind of queue can take."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeAlias

from holdfast import Job
from tests.queue.stress.history import Said

TAGS = 50


@dataclass(frozen=True, slots=True)
class Do:
    """Call a verb. Answers what was said of each item, and what the verb returned."""

    verb: str
    items: tuple[tuple[str, str | None], ...]
    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    method: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """Read a job. Answers it, or None."""

    job: str


@dataclass(frozen=True, slots=True)
class Open:
    """Open a stream, ending the last one."""

    assignee: str
    capacity: int
    cancelled: deque[str]


@dataclass(frozen=True, slots=True)
class Next:
    """Read a batch. Answers None if the stream has ended, an empty one if none came for a while."""


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Step: TypeAlias = Do | Look | Open | Next | Pause
Actor: TypeAlias = Generator[Step, Any, None]


@dataclass(slots=True)
class World:
    """What all threads and tasks of a process know."""

    process: int
    jobs: int
    """For this process to enqueue."""
    enqueued: int = 0
    draining: bool = False
    finished: bool = False
    assignees: list[str] = field(default_factory=list[str])
    recent: deque[str] = field(default_factory=lambda: deque[str](maxlen=40))
    """Jobs that were delivered here not long ago."""

    def name(self, number: int, process: int | None = None) -> str:
        return f"p{self.process if process is None else process}-{number}"

    def some_job(self, rng: Random) -> str:
        """A job that somebody is busy with, perhaps; of the other process one can only guess."""
        if self.recent and rng.random() < 0.5:
            return rng.choice(self.recent)
        oldest = max(0, self.enqueued - 300) if rng.random() < 0.7 else 0
        return self.name(rng.randint(oldest, max(0, self.enqueued - 1)), rng.randrange(2))


def producer(world: World, rng: Random, pause_s: float) -> Actor:
    """Enqueue the jobs of this process, one or many at a time."""
    while world.enqueued < world.jobs and not world.draining:
        count = min(rng.choice((1, 1, 5, 20, 50)), world.jobs - world.enqueued)
        first = world.enqueued
        world.enqueued += count
        jobs = [
            Job(
                world.name(number),
                "stress",
                {"number": number},
                [f"t{rng.randrange(TAGS)}"],
                priority=rng.choice((0, 0, 0, 5)),
                max_attempts=rng.choice((None, 2, 4)),
            )
            for number in range(first, first + count)
        ]
        items = tuple((job.id, None) for job in jobs)
        if count == 1:
            yield Do("enqueue_job", items, (jobs[0],))
        else:
            yield Do("enqueue_jobs", items, (jobs,))
        yield Pause(rng.uniform(0, 2 * pause_s * count))


def meddler(world: World, rng: Random, pause_s: float) -> Actor:
    """Cancel, settle and take away jobs that others hold, with and without knowing their leases."""
    while not world.draining:
        yield Pause(rng.uniform(0, 2 * pause_s))
        job = world.some_job(rng)
        dice = rng.random()
        if dice < 0.35:
            jobs = sorted({world.some_job(rng) for _ in range(rng.randint(1, 4))})
            yield Do("cancel_jobs", tuple((each, None) for each in jobs), (None, jobs))
        elif dice < 0.75:
            found = yield Look(job)
            if found is not None and found.lease_id is not None:
                yield settlement(job, found.lease_id, rng, cancelled=found.status == "CANCELLING")
        elif dice < 0.90:
            yield settlement(job, None, rng, cancelled=rng.random() < 0.2)
        elif dice < 0.94:
            yield Do("revive_job", ((job, None),), (job,))
        elif dice < 0.99 or not world.assignees:
            yield Do("release", ((job, None),), (job,))
        else:
            assignee = rng.choice(world.assignees)
            yield Do("mark_worker_unresponsive", ((assignee, None),), (assignee,))


def consumer(world: World, rng: Random, who: str) -> Actor:
    """Read jobs from a stream and say what became of them, at once or later; now and then open another."""
    hand: dict[str, str] = {}
    cancelled: deque[str] = deque()
    capacity = rng.choice((1, 2, 5, 10, 20))
    assignee = f"{who}-holds-{capacity}"
    world.assignees.append(assignee)
    while not world.finished:
        yield Open(assignee, capacity, cancelled)
        for _ in range(rng.randint(5, 60)):
            yield from _answer_cancellations(hand, cancelled, rng)
            if len(hand) >= capacity or world.draining:
                yield from _settle_all(hand, rng, draining=world.draining)
            batch = yield Next()
            if batch is None:
                break
            hand |= {job.id: job.lease_id for job in batch}
            world.recent += hand
            yield from _settle_some(hand, rng, world.draining)
        if rng.random() < 0.5:  # else it goes on with what it has in hand while another stream is open
            yield from _settle_all(hand, rng, draining=world.draining)
    yield from _settle_all(hand, rng, draining=True)


def _settle_some(hand: dict[str, str], rng: Random, draining: bool) -> Actor:
    some = [job for job in hand if draining or rng.random() < 0.7]
    together = [] if rng.random() < 0.7 else some[: len(some) // 2]
    if together:
        items = tuple((job, hand.pop(job)) for job in together)
        yield Do("complete_jobs", items, ([(job, None, lease) for job, lease in items],))
        some = some[len(together) :]
    for job in some:
        yield from _settle(job, hand.pop(job), rng, draining=draining)


def _settle_all(hand: dict[str, str], rng: Random, *, draining: bool) -> Actor:
    while hand:
        yield from _settle(*hand.popitem(), rng, draining=draining)


def _settle(job: str, lease: str, rng: Random, *, draining: bool) -> Actor:
    if not draining:
        guarded = rng.random() < 0.85
        (said,), _ = yield settlement(job, lease if guarded else None, rng)
        if said is not Said.NO:
            return
    # Perhaps it is being cancelled, and the verb was not one for that.
    yield Do("complete_job", ((job, lease),), (job,), {"lease_id": lease})


def _answer_cancellations(hand: dict[str, str], cancelled: deque[str], rng: Random) -> Actor:
    while cancelled:
        job = cancelled.popleft()
        lease = hand.pop(job, None)
        if lease is None:
            continue
        (said,), _ = yield settlement(job, lease, rng, cancelled=True)
        if said is Said.NO:
            yield Do("complete_job", ((job, lease),), (job,), {"lease_id": lease})


def settlement(job: str, lease: str | None, rng: Random, *, cancelled: bool = False) -> Do:
    """What became of a job, at random."""
    items, guard = ((job, lease),), {} if lease is None else {"lease_id": lease}
    dice = rng.random()
    if cancelled:
        if dice < 0.55:
            return Do("acknowledge_executing", items, (job, True), guard, "acknowledge_cancellation")
        if dice < 0.70:
            return Do("acknowledge_not_executing", items, (job, False), guard, "acknowledge_cancellation")
        if dice < 0.85:
            return Do("stop_job_with_retry", items, (job, "while it was cancelled"), guard)
        return Do("complete_job", items, (job, {"anyway": True}), guard)
    if dice < 0.55:
        return Do("complete_job", items, (job, {"by": "hand"}), guard)
    if dice < 0.67:
        return Do("fail_job", items, (job, "no luck"), {**guard, "delay": rng.choice((0, 0, 0.05))})
    if dice < 0.69:
        return Do("fail_job", items, (job, "never"), {**guard, "permanent": True})
    if dice < 0.76:
        return Do("requeue_job", items, (job, rng.choice((None, soon(rng)))), guard)
    if dice < 0.84:
        return Do("reschedule_job", items, (job, soon(rng)), guard)
    if dice < 0.88 and lease is None:
        return Do("retry_later", items, (job, soon(rng)))
    if dice < 0.92:
        return Do("stop_job", items, (job,), guard)
    if dice < 0.95:
        return Do("mark_job_unknown_stopped", items, (job, "who knows"), guard)
    if lease is None:
        return Do("release", items, (job,))
    return Do("fail_jobs", items, ([(job, "together", lease)],))


def soon(rng: Random) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=rng.uniform(0, 0.2))
