"""A busy line claims from where its last claim began, and nothing that stands before that is forgotten.

A long transaction keeps the dead rows of every job that ended since. A claim from the very beginning walks
over all of them.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import pytest

from holdfast import Job, SyncQueue
from holdfast.queue import base, feeding, lines
from holdfast.queue.streams import Streams
from holdfast.store.calls import settling
from holdfast.store.calls.claiming import Floor
from tests.queue.streaming import Table

LONG_AGO = datetime.now(UTC) - timedelta(hours=1)


@pytest.fixture
def floors(monkeypatch: pytest.MonkeyPatch) -> list[Floor | None]:
    """Where each claim began to look."""
    seen: list[Floor | None] = []
    describe = settling.settle_and_claim

    def listen(*args: Any, floor: Floor | None, **options: Any) -> Any:
        if args[2] > 0:
            seen.append(floor)
        return describe(*args, floor=floor, **options)

    monkeypatch.setattr(feeding, "settle_and_claim", listen)
    return seen


def _number(table: Table, job_id: str) -> int:
    row = table.conn.execute("select id from holdfast.job_names where name = %s", [job_id]).fetchone()
    assert row is not None
    number: int = row[0]
    return number


def test_a_busy_line_claims_from_where_its_last_claim_began(
    database: str, table: Table, floors: list[Floor | None]
) -> None:
    with SyncQueue(database, poll=600) as queue:
        queue.enqueue_jobs([Job(f"job {number}") for number in range(4)])
        with queue.stream_jobs("me") as stream:
            taken = []
            for _ in range(4):
                (job,) = next(stream)
                queue.complete_job(job.id, lease_id=job.lease_id)
                taken.append((job.priority, job.available_at, _number(table, job.id)))

    assert floors[0] is None
    assert floors[1:4] == taken[:3]


@pytest.mark.parametrize("capacity", [1, 2])
def test_a_busy_line_keeps_to_the_priorities_of_older_jobs(
    database: str, floors: list[Floor | None], capacity: int
) -> None:
    priorities = [10, 15, 11, 15, 7, 12, 12, 19]
    with SyncQueue(database, poll=600) as queue:
        for place, priority in enumerate(priorities):
            queue.enqueue_job(Job(f"job {place}", priority=priority))
        taken: list[int] = []
        with queue.stream_jobs("me", max_assigned_jobs=capacity) as stream:
            while len(taken) < len(priorities):
                batch = next(stream)
                taken += [job.priority for job in batch]
                queue.complete_jobs([(job.id, None) for job in batch])

    assert taken == sorted(priorities, reverse=True)
    assert any(floors), "no claim had a floor, so nothing was tested"


def test_what_stands_before_the_floor_is_found_though_the_line_stays_busy(
    database: str, floors: list[Floor | None]
) -> None:
    with SyncQueue(database, poll=600) as queue:
        queue.enqueue_jobs([Job(f"job {number}") for number in range(20_000)])
        with queue.stream_jobs("me", max_assigned_jobs=2) as stream:
            _take(queue, stream, 10)
            queue.enqueue_job(Job("old", created_at=LONG_AGO))
            began, ids = monotonic(), set[str]()
            while "old" not in ids:
                ids = _take(queue, stream, 1)
                assert monotonic() - began < 10
        left = queue.get_job_stats().pending_jobs

    assert left > 0, "the line was not busy any more: take more jobs"
    assert any(floors)


def test_what_stands_before_the_floor_is_found_at_once_when_a_claim_does_not_fill_its_room(
    database: str, table: Table, floors: list[Floor | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "FLOOR_S", 600.0)
    monkeypatch.setattr(
        base, "new_streams", lambda dsn, schema, poll_s: Streams(dsn, schema, poll_s=poll_s, active_s=poll_s)
    )
    with SyncQueue(database, poll=600) as queue:
        queue.enqueue_jobs([Job("a"), Job("b")])
        table.say("select holdfast.set_notify(false)")
        with queue.stream_jobs("me", max_assigned_jobs=2) as stream:
            first = next(stream)
            assert _ids(first) == {"a", "b"}
            queue.enqueue_job(Job("old", created_at=LONG_AGO))
            queue.complete_jobs([(job.id, None) for job in first])
            assert _ids(next(stream)) == {"old"}

    assert floors[1] is not None, "nothing stood before the floor"


def test_a_look_that_was_slow_once_does_not_hide_what_comes_back_in_line_for_long() -> None:
    """A worker whose claim had waited for a frozen server went 65 s without the jobs of a killed one."""
    assert lines.floor_for_s(0.001) == lines.FLOOR_S
    assert lines.floor_for_s(0.15) == pytest.approx(3.0)
    assert lines.floor_for_s(6.5) == lines.FLOOR_MOST_S


def _take(queue: SyncQueue, stream: Any, batches: int) -> set[str]:
    taken: set[str] = set()
    for _ in range(batches):
        batch = next(stream)
        queue.complete_jobs([(job.id, None) for job in batch])
        taken |= _ids(batch)
    return taken


def _ids(batch: list[Job]) -> set[str]:
    return {job.id for job in batch}
