"""DBOS: workflows without steps on a queue."""

import os
import signal

from common import DSN, SETTINGS, Adapter, chunks, main, recorder
from dbos import DBOS, DBOSClient
from sqlalchemy import create_engine


@DBOS.workflow(name="noop")
async def noop(number: int) -> None:
    record(number)


OPTIONS = {"queue_name": "default", "workflow_name": "noop", "app_version": "1"}


def _launch() -> None:
    config = {
        "name": "peers",
        "system_database_url": DSN,
        "application_version": "1",
        "executor_id": str(os.getpid()),
        "sys_db_pool_size": SETTINGS["sys_db_pool_size"],
        "log_level": "WARNING",
    }
    DBOS(config=config)
    DBOS.launch()
    DBOS.register_queue(
        "default",
        worker_concurrency=SETTINGS["worker_concurrency"],
        polling_interval_sec=SETTINGS["polling_interval_sec"],
    )


class DbosAdapter(Adapter):
    def setup(self) -> None:
        _launch()
        DBOS.destroy()

    def open(self) -> None:
        self.client = DBOSClient(system_database_url=DSN)
        self.engine = create_engine(DSN.replace("postgresql://", "postgresql+psycopg://"))

    def bulk(self, numbers: range) -> None:
        for chunk in chunks(numbers, SETTINGS["bulk_batch"]):
            with self.engine.begin() as conn:
                for number in chunk:
                    self.client.enqueue_in_transaction(conn, OPTIONS, number)

    def one(self, number: int) -> None:
        self.client.enqueue(OPTIONS, number)

    def close(self) -> None:
        self.client.destroy()

    def work(self, processes: int) -> None:
        global record
        record = recorder()
        _launch()
        signal.pause()


if __name__ == "__main__":
    main(DbosAdapter())
