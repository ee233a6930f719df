"""A pooler between the processes and the database that restarts, or has next to no sessions to give."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.pgbouncer import PgBouncer
from tests.queue.processes.parent import Actor, Crew, wait_until

Pooler = Callable[..., PgBouncer]


@pytest.fixture
def pooler(server_dsn: str, open_directory: Path) -> Generator[Pooler]:
    """A pgbouncer in transaction mode for one test."""
    running: list[PgBouncer] = []

    def start(**settings: object) -> PgBouncer:
        running.append(PgBouncer(open_directory, server_dsn, **settings))  # type: ignore[arg-type]
        return running[-1]

    yield start
    for each in running:
        each.stop()


@pytest.fixture
def people(crew: Crew) -> Generator[Crew]:
    yield crew
    crew.dismiss()


def hire(crew: Crew, dsn: str, face: str, lease: float = 60.0) -> Actor:
    return crew.hire(dsn, face, lease=lease, poll=0.1)


def test_a_stream_survives_that_the_pooler_restarts_and_keeps_what_it_holds(
    people: Crew, pooler: Pooler, database: str
) -> None:
    pgbouncer = pooler()
    streamer = hire(people, pgbouncer.dsn(database), "async")
    producer = hire(people, database, "sync")
    streamer.stream("B", None, 2)
    producer.enqueue("held")
    leases = streamer.given(["held"])
    pgbouncer.stop()
    producer.enqueue("meanwhile")
    pgbouncer.start()
    streamer.given(["meanwhile"])
    streamer.do("complete_job", "held", "done", lease_id=leases["held"])
    assert streamer.do("get_job", "held")["lease_id"] is None
    # Both slots are there: the claim that found nobody home cost none.
    streamer.do("complete_job", "meanwhile")
    producer.enqueue("a")
    streamer.given(["a"])
    producer.enqueue("b")
    streamer.given(["b"])


def test_processes_share_a_pooler_with_two_sessions_without_waiting_for_each_other(
    people: Crew, pooler: Pooler, database: str
) -> None:
    dsn = pooler(default_pool_size=2).dsn(database)
    producer, settler = hire(people, dsn, "sync"), hire(people, dsn, "async")
    streamers = [hire(people, dsn, face, lease=3.0) for face in ("sync", "async")]
    for streamer in streamers:
        streamer.stream("B", None, 3)
    job_ids = [f"job-{number}" for number in range(12)]
    producer.enqueue(*job_ids)
    seen: list[str] = []
    while len(seen) < len(job_ids):
        wait_until(
            lambda: any(each.heard_any(event="batch") for each in streamers), "more jobs are delivered"
        )
        for streamer in streamers:
            while streamer.heard_any(event="batch"):
                batch = streamer.batch()
                settler.do("complete_jobs", [[job_id, None, lease] for job_id, lease in batch.items()])
                seen += batch
    assert sorted(seen) == sorted(job_ids)
