"""awa: queue storage, direct COPY, several claimers."""

import asyncio
from dataclasses import dataclass

from awa import AsyncClient
from common import DSN, SETTINGS, AsyncAdapter, chunks, main, recorder

# Its driver wants a host in the URL even where a socket is named.
URL = DSN.replace("@/", "@localhost/")


@dataclass
class Noop:
    number: int


class AwaAdapter(AsyncAdapter):
    async def setup(self) -> None:
        await self.open()
        await self.client.migrate()
        await self.client.install_queue_storage()
        await self.close()

    async def open(self) -> None:
        self.client = AsyncClient(URL, max_connections=SETTINGS["max_connections"])

    async def bulk(self, numbers: range) -> None:
        for chunk in chunks(numbers, SETTINGS["bulk_batch"]):
            await self.client.enqueue_many_copy([Noop(number) for number in chunk], queue="default")

    async def one(self, number: int) -> None:
        await self.client.insert(Noop(number), queue="default")

    async def close(self) -> None:
        await self.client.close()

    async def work(self, processes: int) -> None:
        record = recorder()
        client = AsyncClient(URL, max_connections=SETTINGS["max_connections"])

        @client.task(Noop, queue="default")
        async def noop(job) -> None:
            record(job.args.number)

        queue = {
            "name": "default",
            "max_workers": SETTINGS["max_workers"],
            "claimers": SETTINGS["claimers"],
            "claim_batch_size": SETTINGS["claim_batch_size"],
        }
        await client.start([queue], poll_interval_ms=SETTINGS["poll_interval_ms"])
        await asyncio.Event().wait()


if __name__ == "__main__":
    main(AwaAdapter())
