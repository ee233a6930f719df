"""One process of the load: threads on a `SyncQueue` and tasks on a `Queue`, both at random from a seed.

    python -m tests.queue.stress.load '{"dsn": …, "journal": …, "process": 0, "seed": 1, "jobs": 1000, …}'

Says "ready" when all is open; "drain" on its input ends the random part, "finish" ends it all.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from holdfast import Job, Queue, SyncQueue, Verdict
from holdfast.errors import DatabaseUnavailable, HoldfastError, JobNotFound, QueueClosed
from holdfast.queue.faces import Stream, SyncStream
from tests.queue.stress import plan
from tests.queue.stress.history import Journal, Said
from tests.queue.stress.plan import Do, Look, Next, Open, Pause, World

LEASE_S = 15.0
POLL_S = 1.0
TIRED_S = 0.2
"""After so long without a batch a task gives up waiting, and loses nothing by it."""


class Load:
    """All actors of this process."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.journal = Journal(Path(config["journal"]))
        self.world = World(config["process"], config["jobs"])
        self.streams: dict[str, SyncStream] = {}
        self.troubles: list[str] = []

    def actors(self, face: str, count: int) -> list[tuple[str, plan.Actor]]:
        """Of ten, two enqueue, two meddle and six read streams."""
        actors: list[tuple[str, plan.Actor]] = []
        for number in range(count):
            who = f"p{self.world.process}-{face}{number}"
            rng = Random(f"{self.config['seed']} {who}")
            match number % 10:
                case 0 | 1:
                    actor = plan.producer(self.world, rng, self.config["enqueue_pause_s"])
                case 2 | 3:
                    actor = plan.meddler(self.world, rng, self.config["meddle_pause_s"])
                case _:
                    actor = plan.consumer(self.world, rng, who)
            actors.append((who, actor))
        return actors

    def begin(self, who: str, step: Do) -> int:
        return self.journal.call(who, step.verb, list(step.items))

    def end(self, number: int, step: Do, answer: Any) -> tuple[list[Said], Any]:
        said = _said(step, answer)
        self.journal.reply(number, said)
        return said, answer

    def fail(self, number: int, step: Do, error: HoldfastError) -> tuple[list[Said], None]:
        unknown = isinstance(error, DatabaseUnavailable)
        said = [Said.UNKNOWN if unknown else Said.NO] * len(step.items)
        self.journal.reply(number, said)
        return said, None

    def delivered(self, who: str, assignee: str, batch: list[Job]) -> list[Job]:
        self.journal.delivered(who, assignee, [(job.id, job.lease_id or "") for job in batch])
        return batch


def _said(step: Do, answer: Any) -> list[Said]:
    match answer:
        case bool() if step.verb in ("release", "retry_later"):
            return [Said.OK if answer else Said.NO]
        case [Verdict(), *_]:
            return [_verdict(each) for each in answer]
        case (list() as cancelled, list()) if step.verb == "cancel_jobs":
            return [Said.OK if job in cancelled else Said.NO for job, _ in step.items]
        case _:
            return [Said.OK] * len(step.items)


def _verdict(verdict: Verdict) -> Said:
    if verdict.reason == "already":
        return Said.ALREADY
    return Said.OK if verdict.ok else Said.NO


# Threads


class ThreadHand:
    """Takes the steps of one actor, blocking."""

    def __init__(self, load: Load, queue: SyncQueue, who: str) -> None:
        self._load = load
        self._queue = queue
        self._who = who
        self._assignee = ""
        self._stream: SyncStream | None = None
        self._pause = threading.Event()

    def run(self, actor: plan.Actor) -> None:
        try:
            answer: Any = None
            while True:
                answer = self._take(actor.send(answer))
        except StopIteration:
            pass
        except BaseException as error:
            self._load.troubles.append(f"{self._who}: {error!r}")
            raise
        finally:
            if self._stream is not None:
                self._stream.close()

    def _take(self, step: plan.Step) -> Any:
        match step:
            case Do():
                number = self._load.begin(self._who, step)
                try:
                    answer = getattr(self._queue, step.method or step.verb)(*step.args, **step.options)
                except HoldfastError as error:
                    return self._load.fail(number, step, error)
                return self._load.end(number, step, answer)
            case Look():
                try:
                    return self._queue.get_job(step.job)
                except JobNotFound:
                    return None
            case Open():
                self._open(step)
            case Next():
                assert self._stream is not None
                with suppress(StopIteration):
                    return self._load.delivered(self._who, self._assignee, next(self._stream))
            case Pause():
                self._pause.wait(step.seconds)
        return None

    def _open(self, step: Open) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._load.world.finished:
            return
        self._load.journal.opened(step.assignee, step.capacity)
        self._assignee = step.assignee
        self._stream = self._queue.stream_jobs(step.assignee, None, step.capacity)
        self._stream.on_cancel(step.cancelled.append)
        self._load.streams[self._who] = self._stream


def run_threads(load: Load, queue: SyncQueue) -> list[threading.Thread]:
    threads = [
        threading.Thread(target=ThreadHand(load, queue, who).run, args=[actor], name=who)
        for who, actor in load.actors("thread", load.config["threads"])
    ]
    for thread in threads:
        thread.start()
    return threads


# Tasks


class TaskHand:
    """Takes the steps of one actor, on the loop."""

    def __init__(self, load: Load, queue: Queue, who: str) -> None:
        self._load = load
        self._queue = queue
        self._who = who
        self._assignee = ""
        self._stream: Stream | None = None

    async def run(self, actor: plan.Actor) -> None:
        try:
            answer: Any = None
            while True:
                try:
                    step = actor.send(answer)
                except StopIteration:
                    return
                answer = await self._take(step)
        except BaseException as error:
            self._load.troubles.append(f"{self._who}: {error!r}")
            raise
        finally:
            if self._stream is not None:
                await self._stream.aclose()

    async def _take(self, step: plan.Step) -> Any:
        match step:
            case Do():
                number = self._load.begin(self._who, step)
                try:
                    answer = await getattr(self._queue, step.method or step.verb)(*step.args, **step.options)
                except HoldfastError as error:
                    return self._load.fail(number, step, error)
                return self._load.end(number, step, answer)
            case Look():
                try:
                    return await self._queue.get_job(step.job)
                except JobNotFound:
                    return None
            case Open():
                await self._open(step)
            case Next():
                return await self._next()
            case Pause():
                await asyncio.sleep(step.seconds)
        return None

    async def _next(self) -> list[Job] | None:
        assert self._stream is not None
        try:
            batch = await asyncio.wait_for(anext(self._stream), TIRED_S)
        except StopAsyncIteration:
            return None
        except TimeoutError:
            return []
        return self._load.delivered(self._who, self._assignee, batch)

    async def _open(self, step: Open) -> None:
        if self._stream is not None:
            await self._stream.aclose()
        if self._load.world.finished:
            return
        self._load.journal.opened(step.assignee, step.capacity)
        self._assignee = step.assignee
        self._stream = self._queue.stream_jobs(step.assignee, None, step.capacity)
        self._stream.on_cancel(step.cancelled.append)


async def run_tasks(load: Load, ready: Callable[[], None]) -> None:
    async with Queue(load.config["dsn"], lease=LEASE_S, poll=POLL_S) as queue, asyncio.TaskGroup() as tasks:
        ready()
        for who, actor in load.actors("task", load.config["tasks"]):
            tasks.create_task(TaskHand(load, queue, who).run(actor), name=who)


def main() -> None:
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    load = Load(json.loads(sys.argv[1]))
    opened = threading.Event()
    with SyncQueue(load.config["dsn"], lease=LEASE_S, poll=POLL_S) as queue:
        loop = threading.Thread(target=lambda: asyncio.run(run_tasks(load, opened.set)), name="tasks")
        loop.start()
        opened.wait()
        threads = run_threads(load, queue)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for line in sys.stdin:
            load.world.draining = True
            load.world.finished = load.world.finished or line.strip() == "finish"
            if load.world.finished:
                break
            _end_streams(load)
        load.world.draining = load.world.finished = True
        while any(thread.is_alive() for thread in threads):
            _end_streams(load)
            for thread in threads:
                thread.join(0.05)
        loop.join()
    load.journal.close()
    sys.exit("\n".join(load.troubles) or 0)


def _end_streams(load: Load) -> None:
    """A thread that waits for jobs knows nothing of the end: its stream is closed, from here."""
    for stream in list(load.streams.values()):
        with suppress(QueueClosed):
            stream.close()


if __name__ == "__main__":
    main()
