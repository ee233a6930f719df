"""Procrastinate: psycopg pool, asyncio worker."""

from common import DSN, SETTINGS, AsyncAdapter, chunks, main, recorder
from procrastinate import App, PsycopgConnector

app = App(connector=PsycopgConnector(conninfo=DSN, min_size=4, max_size=SETTINGS["pool"]))


@app.task(name="noop", queue="default")
async def noop(number: int) -> None:
    record(number)


class ProcrastinateAdapter(AsyncAdapter):
    async def setup(self) -> None:
        await app.open_async()
        await app.schema_manager.apply_schema_async()
        await app.close_async()

    async def open(self) -> None:
        await app.open_async()

    async def bulk(self, numbers: range) -> None:
        for chunk in chunks(numbers, SETTINGS["bulk_batch"]):
            await noop.batch_defer_async(*({"number": number} for number in chunk))

    async def one(self, number: int) -> None:
        await noop.defer_async(number=number)

    async def close(self) -> None:
        await app.close_async()

    async def work(self, processes: int) -> None:
        global record
        record = recorder()
        async with app.open_async():
            await app.run_worker_async(queues=["default"], concurrency=SETTINGS["concurrency"])


if __name__ == "__main__":
    main(ProcrastinateAdapter())
