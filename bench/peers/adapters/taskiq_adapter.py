"""taskiq on a Redis list."""

import asyncio
import os
import sys
from pathlib import Path

from common import REDIS_URL, SETTINGS, AsyncAdapter, chunks, fork_safe_recorder, main
from taskiq_redis import ListQueueBroker

broker = ListQueueBroker(REDIS_URL)
record = fork_safe_recorder()


@broker.task(task_name="noop")
async def noop(number: int) -> None:
    record(number)


class TaskiqAdapter(AsyncAdapter):
    async def open(self) -> None:
        await broker.startup()

    async def bulk(self, numbers: range) -> None:
        for chunk in chunks(numbers, SETTINGS["bulk_batch"]):
            await asyncio.gather(*(noop.kiq(number) for number in chunk))

    async def one(self, number: int) -> None:
        await noop.kiq(number)

    async def close(self) -> None:
        await broker.shutdown()

    async def work(self, processes: int) -> None:
        os.chdir(Path(__file__).parent)
        options = ["--workers", str(processes), "--max-async-tasks", str(SETTINGS["max_async_tasks"])]
        command = [sys.executable, "-m", "taskiq", "worker", "taskiq_adapter:broker", *options]
        os.execv(
            sys.executable,
            [*command, "--max-prefetch", str(SETTINGS["max_prefetch"]), "--log-level", "WARNING"],
        )


if __name__ == "__main__":
    main(TaskiqAdapter())
