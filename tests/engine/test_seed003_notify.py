"""Signals are hints: one per statement and queue, never data; polling alone is enough."""

from __future__ import annotations

import pytest

from tests.clock import Clock
from tests.conftest import Connect
from tests.engine.sql import (
    Connection,
    call,
    claim,
    claim_one,
    column,
    listen,
    settle,
    signals,
    submit,
    submit_and_claim,
    submit_many,
    value,
)

Signals = list[tuple[str, str]]


@pytest.fixture
def listener(database: str, connect: Connect) -> Connection:
    """A session that listens on the queues these tests use."""
    listening = connect(database)
    listen(listening, "q", "a", "b")
    return listening


def need(queue: str, payload: str = "") -> tuple[str, str]:
    return (f"holdfast.need.{queue}", payload)


FREED = ("holdfast.freed", "")


def test_a_single_submission_signals_its_queue_with_the_jobs_id(
    conn: Connection, listener: Connection
) -> None:
    submit(conn, "job", queue="a")
    (generated,) = call(conn, "submit_jobs", p_queues=["b"])

    assert signals(listener) == [need("a", "job"), need("b", generated["job_id"])]


def test_a_submission_of_many_signals_each_queue_once_and_names_a_job_only_if_it_is_the_only_one(
    conn: Connection, listener: Connection
) -> None:
    call(conn, "submit_jobs", p_job_ids=["a1", "a2", "b1", "a3"], p_queues=["a", "a", "b", "a"])

    assert sorted(signals(listener)) == [need("a"), need("b", "b1")]


def test_a_settle_of_many_signals_each_queue_once(conn: Connection, listener: Connection) -> None:
    submit_many(conn, ["a1", "a2", "a3"], queue="a")
    submit_many(conn, ["b1", "b2"], queue="b")
    submit(conn, "child", queue="a", p_wait_for=["b1"])
    submit(conn, "lonely", queue="q", p_wait_for=["b2"])
    leases = {row["job_id"]: row["lease_id"] for queue in "ab" for row in claim(conn, queue, limit=9)}
    signals(listener)

    call(
        conn,
        "settle_jobs",
        p_job_ids=list(leases),
        p_operations=["fail", "reschedule", "requeue", "complete", "complete"],
        p_lease_ids=list(leases.values()),
        p_messages=["said"] * 5,
    )

    assert sorted(signals(listener)) == [need("a"), need("q", "lonely")]


@pytest.mark.parametrize("operation", ["fail", "requeue", "reschedule", "release"])
def test_a_job_that_goes_back_in_line_signals_its_queue(
    conn: Connection, listener: Connection, operation: str
) -> None:
    lease = submit_and_claim(conn, "job")
    signals(listener)
    settle(conn, "job", operation, lease, p_messages=["said"])

    assert signals(listener) == [need("q", "job")]


def test_a_lapse_a_revival_a_cleared_concern_and_a_resumed_queue_signal(
    conn: Connection, clock: Clock, listener: Connection
) -> None:
    value(conn, "set_crash_concern_threshold", p_threshold=1)
    submit_and_claim(conn, "lapsed", queue="a")
    settle(conn, "dead", "fail", submit_and_claim(conn, "dead"), p_messages=["x"], p_permanent=[True])
    value(conn, "pause_queue", p_queue="b")
    signals(listener)

    clock.advance(31)
    call(conn, "lapse_leases")
    assert signals(listener) == [need("a", "lapsed")]
    value(conn, "clear_crash_concern", p_job_id="lapsed", p_worker_id="w")
    assert signals(listener) == [need("a", "lapsed")]
    value(conn, "revive_job", p_job_id="dead")
    assert signals(listener) == [need("q", "dead")]
    value(conn, "resume_queue", p_queue="b")
    assert signals(listener) == [need("b")]
    value(conn, "resume_queue", p_queue="b")
    assert signals(listener) == []


def test_a_completion_signals_the_children_it_releases_and_no_others(
    conn: Connection, listener: Connection
) -> None:
    lease = submit_and_claim(conn, "parent")
    submit(conn, "other", queue="elsewhere")
    submit(conn, "free", queue="a", p_wait_for=["parent"])
    submit(conn, "blocked", queue="b", p_wait_for=["parent", "other"])
    signals(listener)
    settle(conn, "parent", "complete", lease)

    assert signals(listener) == [need("a", "free")]


def test_claims_extensions_and_completions_without_children_are_silent(
    conn: Connection, listener: Connection
) -> None:
    submit(conn, "job")
    signals(listener)
    lease = claim_one(conn, "job")
    call(conn, "extend_leases", p_job_ids=["job"], p_lease_ids=[lease], p_seconds=60)
    settle(conn, "job", "complete", lease)

    assert signals(listener) == []


def test_with_notify_off_nothing_is_signalled_and_polling_finds_everything(
    conn: Connection, listener: Connection
) -> None:
    assert value(conn, "set_notify", p_enabled=False) is False
    assert value(conn, "is_notify_enabled") is False
    submit(conn, "parent")
    submit(conn, "child", p_wait_for=["parent"])
    value(conn, "pause_queue", p_queue="a")
    value(conn, "resume_queue", p_queue="a")
    settle(conn, "parent", "complete", claim_one(conn, "parent", p_stream_id=1))
    claim_one(conn, "child")

    assert signals(listener) == []


def listening_on(conn: Connection) -> list[str]:
    return sorted(column(conn, "select pg_listening_channels()"))


def test_get_work_that_finds_nothing_leaves_the_session_listening_on_its_caps(
    conn: Connection, database: str, connect: Connect
) -> None:
    worker = connect(database)
    assert call(worker, "get_work", p_worker_id="w", p_worker_caps=["a", 'odd "name"; --']) == []

    assert listening_on(worker) == ["holdfast.need.a", 'holdfast.need.odd "name"; --']
    submit(conn, "job", queue='odd "name"; --')
    assert signals(worker) == [('holdfast.need.odd "name"; --', "job")]


def test_get_work_that_finds_something_or_with_notify_off_leaves_no_session_listening(
    conn: Connection, database: str, connect: Connect
) -> None:
    worker = connect(database)
    submit(conn, "job")
    assert len(call(worker, "get_work", p_worker_id="w", p_worker_caps=["q"])) == 1
    assert listening_on(worker) == []

    value(conn, "set_notify", p_enabled=False)
    assert call(worker, "get_work", p_worker_id="w", p_worker_caps=["q"]) == []
    assert listening_on(worker) == []


def test_the_functions_of_workers_never_leave_a_session_listening(conn: Connection) -> None:
    assert claim(conn) == []
    call(
        conn,
        "settle_and_claim",
        p_job_ids=[],
        p_operations=[],
        p_lease_ids=[],
        p_worker_id="w",
        p_queues=["q"],
        p_limit=1,
    )

    assert listening_on(conn) == []


def freed_by(conn: Connection, listener: Connection, operation: str, settler: int | None) -> Signals:
    """The signals of settling a job that belongs to stream 7."""
    name = f"{operation} by {settler}"
    submit(conn, name, queue=name)
    lease = claim_one(conn, name, queue=name, p_stream_id=7)
    assert settle(conn, name, operation, lease, p_messages=["said"], p_stream_id=settler)["ok"]
    return signals(listener)


def test_a_stream_hears_of_a_freed_slot_only_when_somebody_else_ended_its_job(
    conn: Connection, listener: Connection
) -> None:
    for operation in ("complete", "fail", "stop", "reschedule", "release"):
        assert freed_by(conn, listener, operation, settler=7) == []
        assert freed_by(conn, listener, operation, settler=8) == [FREED]
        assert freed_by(conn, listener, operation, settler=None) == [FREED]


def test_a_stream_hears_of_a_slot_freed_by_a_lapse(
    conn: Connection, clock: Clock, listener: Connection
) -> None:
    submit(conn, "job", queue="elsewhere")
    claim_one(conn, "job", queue="elsewhere", p_stream_id=7)
    clock.advance(31)
    call(conn, "lapse_leases")
    assert signals(listener) == [FREED]


def test_a_job_of_no_stream_frees_none(conn: Connection, listener: Connection) -> None:
    settle(conn, "job", "complete", submit_and_claim(conn, "job", queue="elsewhere"))

    assert signals(listener) == []


def test_a_late_result_does_not_free_the_slot_a_second_time(
    conn: Connection, clock: Clock, listener: Connection
) -> None:
    submit(conn, "job", queue="elsewhere")
    lease = claim_one(conn, "job", queue="elsewhere", p_stream_id=7)
    clock.advance(31)
    call(conn, "lapse_leases")
    signals(listener)
    settle(conn, "job", "complete", lease)

    assert signals(listener) == []


def test_the_longest_names_fit_a_channel(conn: Connection) -> None:
    queue = "q" * 40
    conn.execute(f'listen "holdfast.need.{queue}"')
    submit(conn, "job", queue=queue)

    assert signals(conn) == [need(queue, "job")]
