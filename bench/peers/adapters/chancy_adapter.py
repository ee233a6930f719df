"""Chancy: the asyncio executor, and completions written more often than once a second."""

import logging

from chancy import Chancy, Queue, Worker, job
from common import DSN, SETTINGS, AsyncAdapter, main, recorder

# It logs a line a job unless told not to.
QUIET = logging.getLogger("chancy")
QUIET.setLevel(logging.WARNING)


def record(number: int) -> None:
    """Replaced in workers, which import this file a second time to find the task."""


@job(queue="default")
async def noop(*, number: int) -> None:
    record(number)


class ChancyAdapter(AsyncAdapter):
    async def setup(self) -> None:
        async with Chancy(DSN, log=QUIET) as chancy:
            await chancy.migrate()
            await chancy.declare(
                Queue(
                    "default",
                    concurrency=SETTINGS["concurrency"],
                    executor=Chancy.Executor.Async,
                    polling_interval=SETTINGS["polling_interval"],
                    eager_polling=SETTINGS["eager_polling"],
                )
            )

    async def open(self) -> None:
        self.chancy = Chancy(DSN, log=QUIET)
        await self.chancy.__aenter__()

    async def bulk(self, numbers: range) -> None:
        jobs = [noop.job.with_kwargs(number=number) for number in numbers]
        async for _ in self.chancy.push_many(jobs, batch_size=SETTINGS["bulk_batch"]):
            pass

    async def one(self, number: int) -> None:
        await self.chancy.push(noop.job.with_kwargs(number=number))

    async def close(self) -> None:
        await self.chancy.__aexit__(None, None, None)

    async def work(self, processes: int) -> None:
        import chancy_adapter

        chancy_adapter.record = recorder()
        async with Chancy(DSN, log=QUIET) as chancy, Worker(chancy) as worker:
            worker.send_outgoing_interval = SETTINGS["send_outgoing_interval"]
            await worker.wait_for_shutdown()


if __name__ == "__main__":
    import chancy_adapter  # jobs name their function by module, which must not be __main__

    main(chancy_adapter.ChancyAdapter())
