"""Dramatiq on Redis."""

import os
import sys
from pathlib import Path

import dramatiq
from common import REDIS_URL, SETTINGS, Adapter, fork_safe_recorder, main
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(url=REDIS_URL)
dramatiq.set_broker(broker)
record = fork_safe_recorder()


@dramatiq.actor
def noop(number: int) -> None:
    record(number)


class DramatiqAdapter(Adapter):
    def bulk(self, numbers: range) -> None:
        for number in numbers:
            noop.send(number)

    def one(self, number: int) -> None:
        noop.send(number)

    def work(self, processes: int) -> None:
        os.chdir(Path(__file__).parent)
        os.environ["dramatiq_queue_prefetch"] = str(SETTINGS["dramatiq_queue_prefetch"])  # noqa: SIM112
        options = ["--processes", str(processes), "--threads", str(SETTINGS["threads"])]
        os.execv(sys.executable, [sys.executable, "-m", "dramatiq", "dramatiq_adapter", *options])


if __name__ == "__main__":
    main(DramatiqAdapter())
