"""Celery on Redis."""

import os
import sys
from pathlib import Path

from celery import Celery
from common import REDIS_URL, SETTINGS, Adapter, fork_safe_recorder, main

app = Celery("celery_adapter", broker=REDIS_URL)
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=SETTINGS.get("worker_prefetch_multiplier", 4),
    worker_disable_rate_limits=True,
    broker_connection_retry_on_startup=True,
)
record = fork_safe_recorder()


@app.task(name="noop")
def noop(number: int) -> None:
    record(number)


class CeleryAdapter(Adapter):
    def open(self) -> None:
        self.pool = app.producer_pool.acquire(block=True)

    def bulk(self, numbers: range) -> None:
        for number in numbers:
            self.one(number)

    def one(self, number: int) -> None:
        noop.apply_async((number,), producer=self.pool)

    def work(self, processes: int) -> None:
        os.chdir(Path(__file__).parent)
        options = [f"--concurrency={processes}", f"--pool={SETTINGS['pool']}", "--loglevel=WARNING"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        os.execv(
            sys.executable,
            [sys.executable, "-m", "celery", "-A", "celery_adapter", "worker", *options, *quiet],
        )


if __name__ == "__main__":
    main(CeleryAdapter())
