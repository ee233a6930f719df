"""PgQueuer: asyncpg, large batches."""

from datetime import timedelta

import asyncpg
from common import DSN, SETTINGS, AsyncAdapter, chunks, main, recorder
from pgqueuer import AsyncpgDriver, AsyncpgPoolDriver, PgQueuer, Queries


class PgQueuerAdapter(AsyncAdapter):
    async def setup(self) -> None:
        await self.open()
        await self.queries.install()
        if SETTINGS["autovac"]:
            await self.queries.optimize_autovacuum()
        await self.close()

    async def open(self) -> None:
        self.conn = await asyncpg.connect(DSN)
        self.queries = Queries(AsyncpgDriver(self.conn))

    async def bulk(self, numbers: range) -> None:
        for chunk in chunks(numbers, SETTINGS["bulk_batch"]):
            payloads = [b"%d" % number for number in chunk]
            await self.queries.enqueue(["noop"] * len(chunk), payloads, [0] * len(chunk))

    async def one(self, number: int) -> None:
        await self.queries.enqueue("noop", b"%d" % number)

    async def close(self) -> None:
        await self.conn.close()

    async def work(self, processes: int) -> None:
        record = recorder()
        if SETTINGS["pool"]:
            driver = AsyncpgPoolDriver(await asyncpg.create_pool(DSN, min_size=5, max_size=SETTINGS["pool"]))
        else:
            driver = AsyncpgDriver(await asyncpg.connect(DSN))
        pgq = PgQueuer(driver)

        @pgq.entrypoint("noop")
        async def noop(job) -> None:
            record(int(job.payload))

        await pgq.run(
            batch_size=SETTINGS["batch_size"],
            log_aggregation_interval=timedelta(seconds=SETTINGS["log_aggregation_interval"]),
        )


if __name__ == "__main__":
    main(PgQueuerAdapter())
