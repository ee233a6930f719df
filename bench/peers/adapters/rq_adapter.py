"""RQ on Redis, without a process a job."""

from common import REDIS_URL, SETTINGS, Adapter, chunks, fork_safe_recorder, main
from redis import Redis
from rq import Queue, SimpleWorker

record = fork_safe_recorder()


def noop(number: int) -> None:
    record(number)


class RqAdapter(Adapter):
    def open(self) -> None:
        self.queue = Queue(connection=Redis.from_url(REDIS_URL))

    def bulk(self, numbers: range) -> None:
        for chunk in chunks(numbers, SETTINGS["bulk_batch"]):
            self.queue.enqueue_many([Queue.prepare_data(noop, (number,), result_ttl=0) for number in chunk])

    def one(self, number: int) -> None:
        self.queue.enqueue(noop, number, result_ttl=0)

    def work(self, processes: int) -> None:
        connection = Redis.from_url(REDIS_URL)
        worker = SimpleWorker([Queue(connection=connection)], connection=connection)
        worker.work(logging_level="WARNING")


if __name__ == "__main__":
    import rq_adapter  # functions are found by module, which must not be __main__

    main(rq_adapter.RqAdapter())
