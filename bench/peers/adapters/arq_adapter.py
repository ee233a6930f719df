"""arq on Redis."""

import asyncio

from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func
from common import REDIS_URL, SETTINGS, AsyncAdapter, chunks, main, recorder


class ArqAdapter(AsyncAdapter):
    async def open(self) -> None:
        self.pool = await create_pool(RedisSettings.from_dsn(REDIS_URL))

    async def bulk(self, numbers: range) -> None:
        for chunk in chunks(numbers, SETTINGS["bulk_batch"]):
            await asyncio.gather(*(self.one(number) for number in chunk))

    async def one(self, number: int) -> None:
        await self.pool.enqueue_job("noop", number)

    async def close(self) -> None:
        await self.pool.aclose()

    async def work(self, processes: int) -> None:
        record = recorder()

        async def noop(ctx, number: int) -> None:
            record(number)

        worker = Worker(
            functions=[func(noop, name="noop", keep_result=0)],
            redis_settings=RedisSettings.from_dsn(REDIS_URL),
            max_jobs=SETTINGS["max_jobs"],
            poll_delay=SETTINGS["poll_delay"],
        )
        await worker.async_run()


if __name__ == "__main__":
    main(ArqAdapter())
