"""PgQueuer: asyncpg, large batches."""

import asyncpg
from common import DSN, SETTINGS, AsyncAdapter, chunks, main, recorder
from pgqueuer import AsyncpgDriver, PgQueuer, Queries


class PgQueuerAdapter(AsyncAdapter):
    async def setup(self) -> None:
        await self.open()
        await self.queries.install()
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
        pgq = PgQueuer(AsyncpgDriver(await asyncpg.connect(DSN)))

        @pgq.entrypoint("noop")
        async def noop(job) -> None:
            record(int(job.payload))

        await pgq.run(batch_size=SETTINGS["batch_size"])


if __name__ == "__main__":
    main(PgQueuerAdapter())
