"""SAQ on PostgreSQL."""

import asyncio

from common import DSN, SETTINGS, AsyncAdapter, chunks, main, recorder
from saq import Queue, Worker


def _queue() -> Queue:
    return Queue.from_url(DSN, min_size=SETTINGS["pool"], max_size=SETTINGS["pool"])


class SaqAdapter(AsyncAdapter):
    async def setup(self) -> None:
        await self.open()
        await self.close()

    async def open(self) -> None:
        self.queue = _queue()
        await self.queue.connect()

    async def bulk(self, numbers: range) -> None:
        """There is no bulk call; many at a time is what the pool allows."""
        for chunk in chunks(numbers, SETTINGS["bulk_batch"]):
            await asyncio.gather(*(self.one(number) for number in chunk))

    async def one(self, number: int) -> None:
        await self.queue.enqueue("noop", number=number)

    async def close(self) -> None:
        await self.queue.disconnect()

    async def work(self, processes: int) -> None:
        record = recorder()

        async def noop(ctx, *, number: int) -> None:
            record(number)

        queue = _queue()
        await queue.connect()
        worker = Worker(
            queue,
            functions=[("noop", noop)],
            concurrency=SETTINGS["concurrency"],
            dequeue_timeout=SETTINGS["dequeue_timeout"],
        )
        await worker.start()


if __name__ == "__main__":
    main(SaqAdapter())
