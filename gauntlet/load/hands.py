"""Streams by hand: reads jobs from streams of the queue API and says what became of them.

python -m gauntlet.load.hands NAME '{"seed": 1, "lease": 2}'
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from random import Random
from typing import Any

from gauntlet.history import OK, UNKNOWN
from gauntlet.journal import journal
from gauntlet.load.told import TROUBLE, said_by
from holdfast import Job, Queue

CAPACITIES = (1, 3, 8)


class Hand:
    """One stream after the other, each with a capacity of its own."""

    def __init__(self, name: str, number: int, queue: Queue, rng: Random) -> None:
        self._who = f"{name}-{os.getpid()}-{number}"
        self._capacity = CAPACITIES[number % len(CAPACITIES)]
        self._queue = queue
        self._rng = rng
        self._journal = journal(name)
        self._answers: set[asyncio.Task[None]] = set()
        self.over = asyncio.Event()

    async def run(self) -> None:
        while not self.over.is_set():
            try:
                await self._read_a_stream()
            except TROUBLE:
                await asyncio.sleep(0.2)

    async def _read_a_stream(self) -> None:
        self._journal.write("opened", assignee=self._who, capacity=self._capacity)
        stream = self._queue.stream_jobs(self._who, max_assigned_jobs=self._capacity, queues=["hand"])
        async with stream:
            stream.on_cancel(self._cancelled)
            for _ in range(self._rng.randint(5, 60)):
                if self.over.is_set():
                    return
                try:
                    batch = await asyncio.wait_for(anext(stream), 1.0)
                except TimeoutError:
                    continue
                except StopAsyncIteration:
                    return
                for job in batch:
                    self._journal.write("delivered", job=job.id, lease=job.lease_id, assignee=self._who)
                    await self._settle(job)

    def _cancelled(self, job_id: str) -> None:
        task = asyncio.ensure_future(self._answer_cancellation(job_id))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _settle(self, job: Job) -> None:
        dice = self._rng.random()
        guard = {"lease_id": job.lease_id}
        if dice < 0.70:
            await self._say("complete_job", job, {"by": self._who}, **guard)
        elif dice < 0.86:
            await self._say("fail_job", job, "no luck", delay=0.05, **guard)
        elif dice < 0.94:
            await asyncio.sleep(self._rng.uniform(0, 0.1))
            await self._say("complete_job", job, None, **guard)
        else:
            await self._say("stop_job", job, "enough", **guard)

    async def _answer_cancellation(self, job_id: str) -> None:
        number = self._journal.call("acknowledge_cancellation", [job_id])
        try:
            await self._queue.acknowledge_cancellation(job_id, True)
            said = OK
        except TROUBLE as error:
            said = said_by(error)
        self._journal.reply(number, said)

    async def _say(self, verb: str, job: Job, *args: Any, **options: Any) -> None:
        """Until somebody answers: what a stream delivered is kept for its reader until it is settled."""
        said = UNKNOWN
        while said == UNKNOWN and not self.over.is_set():
            number = self._journal.call(verb, [job.id], lease=job.lease_id)
            try:
                await getattr(self._queue, verb)(job.id, *args, **options)
                said = OK
            except TROUBLE as error:
                said = said_by(error)
            self._journal.reply(number, said)
            if said == UNKNOWN:
                await asyncio.sleep(0.2)


async def serve(name: str, seed: int, lease: float) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    queue = Queue(lease=lease, poll=1.0)
    while not over.is_set():
        try:
            await queue.open()
            break
        except TROUBLE:
            await asyncio.sleep(0.3)
    rng = Random(f"{seed} {name} {os.getpid()}")
    hands = [Hand(name, number, queue, Random(rng.random())) for number in range(3)]
    tasks = [asyncio.create_task(hand.run()) for hand in hands]
    print("ready", flush=True)
    await over.wait()
    for hand in hands:
        hand.over.set()
    await asyncio.wait(tasks, timeout=15)
    await queue.close()


def main() -> None:
    asyncio.run(serve(sys.argv[1], **json.loads(sys.argv[2])))


if __name__ == "__main__":
    main()
