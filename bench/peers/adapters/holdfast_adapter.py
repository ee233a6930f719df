"""Holdfast through its public API: `enqueue_many`, `enqueue`, and the command `holdfast worker`."""

import os
import sys
from pathlib import Path

from common import DSN, SETTINGS, Adapter, chunks, main, recorder

from holdfast import Holdfast

hf = Holdfast(DSN)


@hf.task(name="noop")
async def noop(number: int) -> None:
    record(number)


class HoldfastAdapter(Adapter):
    def setup(self) -> None:
        os.execv(Path(sys.executable).with_name("holdfast"), ["holdfast", "migrate", "up", "--dsn", DSN])

    def open(self) -> None:
        hf.database()

    def bulk(self, numbers: range) -> None:
        for chunk in chunks(numbers, SETTINGS["bulk_batch"]):
            hf.enqueue_many((noop.job(number) for number in chunk), returning=False)

    def one(self, number: int) -> None:
        noop.enqueue(number)

    def close(self) -> None:
        hf.close()

    def work(self, processes: int) -> None:
        os.chdir(Path(__file__).parent)
        os.execv(
            Path(sys.executable).with_name("holdfast"),
            [
                "holdfast",
                "worker",
                "holdfast_adapter:hf",
                "--processes",
                str(processes),
                "--queue",
                f"default={SETTINGS['concurrency']}",
            ],
        )


if __name__ == "__main__":
    main(HoldfastAdapter())
else:
    record = recorder()
