"""What a stream brings: what is there, what comes, which jobs, in which order, and in what state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast import Job, JobStatus
from tests.queue.streaming import Face, Table, jobs, numbered, until


def test_a_stream_begins_with_what_is_there(side: Face, database: str) -> None:
    queue = side.open(database)
    queue.enqueue_jobs(jobs("a", "b", "c"))

    reader = side.stream(queue, "me", max_assigned_jobs=10)

    assert sorted(job.id for job in reader.read()) == ["a", "b", "c"]


def test_jobs_are_assigned_at_the_call_and_ahead_of_the_reader(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database)
    queue.enqueue_jobs(jobs("a", "b", "c"))

    reader = side.stream(queue, "me", max_assigned_jobs=2)
    table.await_held(reader, 2)
    assert len(table.waiting()) == 1

    ours = reader.read_ids(2)
    queue.complete_job(ours[0])
    table.await_held(reader, 2)  # nobody has asked for it yet
    assert table.waiting() == []
    (last,) = reader.read()
    assert last.id not in ours


def test_a_backlog_larger_than_one_claim_is_found(side: Face, database: str, table: Table) -> None:
    queue = side.open(database)
    ids = numbered(2300)
    queue.enqueue_jobs(jobs(*ids))

    reader = side.stream(queue, "me", max_assigned_jobs=5000)

    assert sorted(reader.read_ids(2300)) == ids
    assert len(table.held(reader)) == 2300


def test_jobs_arrive_running_with_assignee_moment_and_lease(side: Face, database: str, table: Table) -> None:
    queue = side.open(database)
    before = datetime.now(UTC)
    queue.enqueue_job(Job("a", "send", {"to": "ada"}, ["x"], priority=3))

    (job,) = side.stream(queue, "me", lease=20).read()

    now = datetime.now(UTC)
    assert (job.id, job.job_type, job.job_definition, tuple(job.tags), job.priority) == (
        "a",
        "send",
        {"to": "ada"},
        ("x",),
        3,
    )
    assert (job.status, job.assignee_id, job.worker_id) == (JobStatus.RUNNING, "me", "me")
    assert job.assigned_at is not None
    assert before <= job.assigned_at <= now
    assert job.started_at == job.assigned_at
    assert job.lease_expires_at is not None
    assert job.lease_expires_at - job.assigned_at == timedelta(seconds=20)
    stored = queue.get_job("a")
    assert (stored.status, stored.assignee_id, stored.lease_id) == (JobStatus.RUNNING, "me", job.lease_id)
    assert stored.assigned_at == job.assigned_at


def test_the_lease_is_that_of_the_queue_unless_given(side: Face, database: str, table: Table) -> None:
    queue = side.open(database, lease=100)
    queue.enqueue_jobs(jobs("a", "b"))

    side.stream(queue).read()
    side.stream(queue, lease=timedelta(seconds=1000)).read()

    left = sorted(table.lease_left_s(job_id) for job_id in ("a", "b"))
    assert 50 < left[0] <= 100
    assert 900 < left[1] <= 1000


def test_an_assignee_may_be_a_number(side: Face, database: str) -> None:
    queue = side.open(database)
    queue.enqueue_job(Job("a"))

    (job,) = side.stream(queue, 0).read()

    assert (job.assignee_id, job.worker_id) == ("0", "0")


def test_a_job_must_have_every_tag_of_the_stream(side: Face, database: str) -> None:
    queue = side.open(database)
    queue.enqueue_jobs(
        [Job("none"), Job("red", tags=["red"]), Job("both", tags=["big", "red"]), Job("big", tags=["big"])]
    )

    reader = side.stream(queue, "me", ["red", "big", "red"], 10)

    assert reader.read_ids(1) == ["both"]
    assert reader.is_blocked()


def test_without_tags_a_stream_takes_all_jobs_of_its_queues_and_of_no_other(
    side: Face, database: str
) -> None:
    queue = side.open(database)
    queue.enqueue_jobs(
        [Job("a"), Job("b", tags=["t"]), Job("c", queue="mail"), Job("d", tags=["t"], queue="mail")]
    )

    default = side.stream(queue, "me", None, 10)
    mail = side.stream(queue, "me", (), 10, queues=["mail"])

    assert sorted(default.read_ids(2)) == ["a", "b"]
    assert sorted(mail.read_ids(2)) == ["c", "d"]


def test_a_stream_may_take_from_several_queues(side: Face, database: str) -> None:
    queue = side.open(database)
    reader = side.stream(queue, "me", None, 10, queues=["mail", "print", "mail"])
    assert reader.is_blocked(0.1)

    queue.enqueue_jobs([Job("a", queue="mail"), Job("b", queue="print"), Job("c")])

    assert sorted(reader.read_ids(2)) == ["a", "b"]
    assert reader.is_blocked()


def test_each_stream_has_its_own_tags_and_its_own_capacity(side: Face, database: str, table: Table) -> None:
    queue = side.open(database)
    red = side.stream(queue, "me", ["red"], 1)
    blue = side.stream(queue, "me", ["blue"], 2)

    queue.enqueue_jobs([Job(f"{tag} {n}", tags=[tag]) for tag in ("red", "blue") for n in range(3)])

    assert all(job.id.startswith("red") for job in red.read_jobs(1))
    assert all(job.id.startswith("blue") for job in blue.read_jobs(2))
    assert (len(table.held(red)), len(table.held(blue))) == (1, 2)
    assert red.is_blocked()
    assert blue.is_blocked(0.1)


def test_streams_of_one_assignee_with_the_same_tags_are_independent(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database)
    readers = [side.stream(queue, "me", None, 2) for _ in range(3)]

    queue.enqueue_jobs(jobs(*numbered(7)))

    got = [reader.read_ids(2) for reader in readers]
    assert len({job_id for ids in got for job_id in ids}) == 6
    assert [len(table.held(reader)) for reader in readers] == [2, 2, 2]
    queue.complete_job(got[1][0])
    assert len(readers[1].read_ids(1)) == 1
    assert readers[0].is_blocked(0.1)


def test_the_oldest_jobs_are_selected_and_a_retry_counts_from_its_retry(
    side: Face, database: str, table: Table
) -> None:
    queue = side.open(database)
    hour = timedelta(hours=1)
    now = datetime.now(UTC)
    queue.enqueue_jobs([Job(f"job {n}", created_at=now - n * hour) for n in range(5)])

    reader = side.stream(queue, "me", None, 2)
    assert sorted(reader.read_ids(2)) == ["job 3", "job 4"]
    queue.fail_job("job 4", "boom")
    assert reader.read_ids(1) == ["job 2"]  # not the one that has just failed
    queue.complete_job("job 3")
    assert reader.read_ids(1) == ["job 1"]


def test_higher_priorities_go_first(side: Face, database: str) -> None:
    queue = side.open(database)
    queue.enqueue_jobs([Job("low", priority=-1), Job("plain"), Job("high", priority=5)])

    reader = side.stream(queue, "me", None, 1)
    order: list[str] = []
    for _ in range(3):
        (job,) = reader.read()
        order.append(job.id)
        queue.complete_job(job.id)

    assert order == ["high", "plain", "low"]


def test_two_streams_never_get_the_same_job(side: Face, database: str) -> None:
    first, second = side.open(database), side.open(database)
    readers = [side.stream(queue, name, None, 50) for queue in (first, second) for name in ("a", "b")]

    ids = numbered(200)
    first.enqueue_jobs(jobs(*ids))
    until(lambda: sum(reader.held for reader in readers) == 200)

    got = [job_id for reader in readers for job_id in reader.read_ids(50)]
    assert sorted(got) == ids


def test_a_stream_says_whose_it_is_and_how_much_it_holds(side: Face, database: str) -> None:
    queue = side.open(database)
    queue.enqueue_jobs(jobs("a", "b"))
    reader = side.stream(queue, "me", None, 5)
    reader.read_jobs(2)

    assert reader.stream.assignee_id == "me"
    assert reader.stream.max_assigned_jobs == 5
    assert reader.stream.assigned_jobs == 2
    assert "2 of 5 assigned" in repr(reader.stream)
    reader.close()
    assert "ended" in repr(reader.stream)
