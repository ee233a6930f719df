"""Huey on Redis."""

import os
import sys
from pathlib import Path

from common import REDIS_URL, SETTINGS, Adapter, fork_safe_recorder, main
from huey import RedisHuey

huey = RedisHuey("peers", url=REDIS_URL, results=False)
record = fork_safe_recorder()


@huey.task(name="noop")
def noop(number: int) -> None:
    record(number)


class HueyAdapter(Adapter):
    def bulk(self, numbers: range) -> None:
        for number in numbers:
            noop(number)

    def one(self, number: int) -> None:
        noop(number)

    def work(self, processes: int) -> None:
        os.chdir(Path(__file__).parent)
        options = [
            "--workers",
            str(SETTINGS["workers"]),
            "--worker-type",
            SETTINGS["worker_type"],
            "--no-periodic",
        ]
        program = Path(sys.executable).with_name("huey_consumer")
        os.execv(program, ["huey_consumer", "huey_adapter.huey", *options, "--quiet"])


if __name__ == "__main__":
    import huey_adapter  # tasks are found by module, which must not be __main__

    main(huey_adapter.HueyAdapter())
