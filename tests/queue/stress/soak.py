"""One process that streams very many jobs, and says what it costs in memory.

    python -m tests.queue.stress.soak '{"dsn": …, "face": "sync", "jobs": 1000000, "reports": 10}'

Prints a line of JSON for each report, {"done": …, "rss": bytes, "blocks": …}, and at the end what is left:
{"left": {"class": how many}}, once when all is settled and once when the queue is closed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from resource import getpagesize
from typing import Any

from holdfast import Job, Queue, SyncQueue

BATCH = 1000
CAPACITY = 500
KEPT_S = 5.0
OURS = ("holdfast.queue", "holdfast.store.signals", "holdfast.store.subscriptions", "holdfast.store.line")


@dataclass(slots=True)
class Soak:
    """How far it has come."""

    jobs: int
    every: int
    enqueued: int = 0
    done: int = 0
    reported: int = 0

    def next_jobs(self) -> list[Job]:
        """The next to be enqueued, so that there is always something in line, and never much.

        At a report there is nothing: what is alive then is not alive for a job under way.
        """
        count = min(BATCH, self.jobs - self.enqueued, self.reported + self.every - self.enqueued)
        if count <= 0 or self.enqueued - self.done > 2 * BATCH:
            return []
        first = self.enqueued
        self.enqueued += count
        return [Job(f"soak-{number}", "soak", {"n": number}) for number in range(first, first + count)]

    def settled(self, count: int) -> bool:
        """Count jobs; whether it is time to tidy up and report."""
        self.done += count
        return self.done - self.reported >= self.every

    def report(self) -> None:
        self.reported = self.done
        gc.collect()
        say(done=self.done, rss=rss(), blocks=sys.getallocatedblocks())


def rss() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def say_what_is_left() -> None:
    """Everything of the queue and its signals that is alive, counted by class, and threads."""
    gc.collect()
    kinds = [type(each) for each in gc.get_objects()]
    left = Counter(
        kind.__name__
        for kind in kinds
        if str(kind.__module__).startswith(OURS) and not issubclass(kind, Enum)
    )
    left["threads"] = sum(thread.name.startswith("holdfast") for thread in threading.enumerate())
    say(left=left)


def run_sync(dsn: str, soak: Soak) -> None:
    with SyncQueue(dsn) as queue:
        with queue.stream_jobs("soak", None, CAPACITY) as stream:
            queue.enqueue_jobs(soak.next_jobs())
            for batch in stream:
                queue.complete_jobs([(job.id, None, job.lease_id) for job in batch])
                if soak.settled(len(batch)):
                    queue.cleanup_expired_jobs(KEPT_S)
                    soak.report()
                if soak.done == soak.jobs:
                    break
                queue.enqueue_jobs(soak.next_jobs())
        del stream, batch
        say_what_is_left()


async def run_async(dsn: str, soak: Soak) -> None:
    async with Queue(dsn) as queue:
        async with queue.stream_jobs("soak", None, CAPACITY) as stream:
            await queue.enqueue_jobs(soak.next_jobs())
            async for batch in stream:
                await queue.complete_jobs([(job.id, None, job.lease_id) for job in batch])
                if soak.settled(len(batch)):
                    await queue.cleanup_expired_jobs(KEPT_S)
                    soak.report()
                if soak.done == soak.jobs:
                    break
                await queue.enqueue_jobs(soak.next_jobs())
        del stream, batch
        say_what_is_left()


def main() -> None:
    config = json.loads(sys.argv[1])
    soak = Soak(config["jobs"], config["jobs"] // config["reports"])
    if config["face"] == "sync":
        run_sync(config["dsn"], soak)
    else:
        asyncio.run(run_async(config["dsn"], soak))
    say_what_is_left()


if __name__ == "__main__":
    main()
