"""The trace: three levels, one place that writes, exactly the events of each operation, never a payload."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg.types.json import Jsonb

from tests.clock import Clock
from tests.engine.sql import (
    Connection,
    call,
    claim_one,
    column,
    events,
    rows,
    settle,
    submit,
    submit_and_claim,
    trace,
    value,
)

HAPPY = {"job_submitted", "job_retrieved", "lease_extended", "job_finished"}
SECRET = "the-content-of-the-payload"


class Scene:
    """One job, named like its queue, and the lease it was claimed under."""

    def __init__(self, conn: Connection, clock: Clock, name: str) -> None:
        self.conn = conn
        self.clock = clock
        self.name = name
        payload = Jsonb({"secret": SECRET})
        self.lease = submit_and_claim(conn, name, queue=name, p_payload=payload, p_tags=[name])

    def call(self, function: str, **arguments: object) -> None:
        call(self.conn, function, p_job_id=self.name, **arguments)

    def leased(self, function: str, **arguments: object) -> None:
        self.call(function, p_lease_id=self.lease, p_worker_id="w", **arguments)

    def settle(self, operation: str, **more: object) -> None:
        result = [Jsonb({"secret": SECRET})]
        assert settle(self.conn, self.name, operation, self.lease, p_results=result, **more)["ok"]

    def lapse(self) -> None:
        self.clock.advance(31)
        call(self.conn, "lapse_leases")

    def die(self) -> None:
        self.settle("fail", p_messages=["boom"], p_permanent=[True])

    def cancel(self) -> None:
        self.call("cancel_job", p_worker_id="w")


Step = Callable[[Scene], None]


def doing(operation: str, **more: object) -> Step:
    return lambda it: it.settle(operation, **more)


def extend_as_keeper(it: Scene) -> None:
    call(it.conn, "extend_leases", p_job_ids=[it.name], p_lease_ids=[it.lease], p_seconds=9)


def delete(it: Scene) -> None:
    call(it.conn, "delete_jobs", p_tags=[it.name])


# What is done to a running job, and the events of it beyond those of its submission and its claim.
OPERATIONS: dict[str, tuple[list[Step], list[str]]] = {
    "extend_lease": ([lambda it: it.leased("extend_lease")], ["lease_extended"]),
    "extend_leases": ([extend_as_keeper], ["lease_extended"]),
    "complete_job": ([lambda it: it.leased("complete_job")], ["job_finished"]),
    "complete": ([doing("complete")], ["job_finished"]),
    "fail": ([doing("fail", p_messages=["boom"])], ["job_failed"]),
    "permanent": ([Scene.die], ["job_dead"]),
    "requeue": ([doing("requeue")], ["job_failed"]),
    "reschedule_job": ([lambda it: it.leased("reschedule_job", p_next_need=it.name)], ["reschedule_job"]),
    "reschedule": ([doing("reschedule")], ["reschedule_job"]),
    "retry_later": ([lambda it: it.call("retry_later")], ["reschedule_job"]),
    "undelivered": ([doing("undelivered")], ["reschedule_job"]),
    "undelivered_to_worker": ([doing("undelivered_to_worker")], ["reschedule_job"]),
    "release_job": ([lambda it: it.call("release_job")], ["job_released"]),
    "lapse": ([Scene.lapse], ["lease_expired"]),
    "stop": ([doing("stop")], ["job_cancelled"]),
    "mark_unknown_stopped": ([doing("mark_unknown_stopped")], ["job_cancelled"]),
    "cancel": ([Scene.cancel], ["job_cancel_requested"]),
    "cancel twice": ([Scene.cancel, Scene.cancel], ["job_cancel_requested"]),
    "acknowledge": ([Scene.cancel, doing("acknowledge")], ["job_cancel_requested", "job_cancelled"]),
    "acknowledge_not_executing": (
        [Scene.cancel, doing("acknowledge_not_executing")],
        ["job_cancel_requested", "job_cancelled"],
    ),
    "stop_with_retry": (
        [Scene.cancel, doing("stop_with_retry", p_messages=["boom"])],
        ["job_cancel_requested", "job_failed"],
    ),
    "lapse while cancelling": ([Scene.cancel, Scene.lapse], ["job_cancel_requested", "lease_expired"]),
    "complete while cancelling": (
        [Scene.cancel, doing("complete")],
        ["job_cancel_requested", "job_finished"],
    ),
    "complete late": (
        [Scene.cancel, Scene.lapse, doing("complete")],
        ["job_cancel_requested", "lease_expired", "job_finished"],
    ),
    "revive": ([Scene.die, lambda it: it.call("revive_job")], ["job_dead", "job_revived"]),
    "cancel dead": ([Scene.die, Scene.cancel], ["job_dead", "job_cancelled"]),
    "delete": ([doing("complete"), delete], ["job_finished", "job_deleted"]),
}


def play(conn: Connection, clock: Clock) -> dict[str, list[str]]:
    """Do every operation to a job of its own; return the events of each."""
    for name, (steps, _) in OPERATIONS.items():
        scene = Scene(conn, clock, name)
        for step in steps:
            step(scene)
        conn.execute("update holdfast.jobs set lease_expires_at = 'infinity' where lease_id is not null")
    return {name: events(conn, name) for name in OPERATIONS}


def test_at_level_all_each_operation_leaves_exactly_its_events(conn: Connection, clock: Clock) -> None:
    value(conn, "set_trace_level", p_level="all")

    expected = {name: ["job_submitted", "job_retrieved", *made] for name, (_, made) in OPERATIONS.items()}
    assert play(conn, clock) == expected


def test_at_level_exceptions_each_operation_leaves_what_is_not_the_happy_path(
    conn: Connection, clock: Clock
) -> None:
    assert value(conn, "trace_level") == "exceptions"  # the default

    expected = {
        name: [event for event in made if event not in HAPPY] for name, (_, made) in OPERATIONS.items()
    }
    assert play(conn, clock) == expected


def test_at_level_off_nothing_is_traced(conn: Connection, clock: Clock) -> None:
    value(conn, "set_trace", p_enabled=False)

    assert play(conn, clock) == {name: [] for name in OPERATIONS}


def test_the_input_of_every_leased_operation_holds_its_lease(conn: Connection, clock: Clock) -> None:
    value(conn, "set_trace", p_enabled=True)
    play(conn, clock)

    without_lease = column(
        conn, "select distinct event_type from holdfast.jobs_trace where not input_data ? 'lease_id'"
    )

    assert sorted(without_lease) == ["job_cancelled", "job_deleted", "job_revived", "job_submitted"]
    unleased = rows(
        conn,
        "select job_id from holdfast.jobs_trace"
        " where event_type = 'job_cancelled' and not input_data ? 'lease_id'",
    )
    assert unleased == [{"job_id": "cancel dead"}]  # a dead job is under no lease


def test_payloads_and_results_are_never_traced(conn: Connection, clock: Clock) -> None:
    value(conn, "set_trace", p_enabled=True)
    play(conn, clock)
    lease = submit_and_claim(conn, "rewritten")
    call(
        conn,
        "reschedule_job",
        p_job_id="rewritten",
        p_lease_id=lease,
        p_worker_id="w",
        p_next_need="q",
        p_payload=Jsonb({"secret": SECRET}),
    )

    traced = rows(conn, "select input_data::text || output_data::text as content from holdfast.jobs_trace")
    assert len(traced) > len(OPERATIONS)
    assert not any(SECRET in row["content"] for row in traced)


def test_a_cleared_crash_concern_is_traced(conn: Connection, clock: Clock) -> None:
    value(conn, "set_crash_concern_threshold", p_threshold=1)
    Scene(conn, clock, "job").lapse()
    value(conn, "clear_crash_concern", p_job_id="job", p_worker_id="person", p_reason="fixed the disk")

    cleared = trace(conn, "job", "crash_concern_cleared")
    assert cleared["worker_id"] == "person"
    assert cleared["input_data"] == {"reason": "fixed the disk"}


def test_the_children_a_cancellation_takes_along_are_traced_with_the_reason(conn: Connection) -> None:
    submit(conn, "parent")
    submit(conn, "child", p_wait_for=["parent"])
    call(conn, "cancel_job", p_job_id="parent", p_worker_id="person", p_reason="no longer wanted")

    assert trace(conn, "parent", "job_cancelled")["input_data"]["reason"] == "no longer wanted"
    assert trace(conn, "child", "job_cancelled")["input_data"]["reason"] == "parent"


@pytest.mark.parametrize("reason", ["resource_busy", "snooze", "shutdown"])
def test_a_reschedule_says_why(conn: Connection, reason: str) -> None:
    settle(conn, "a", "reschedule", submit_and_claim(conn, "a", queue="a"), p_messages=[reason])
    lease = submit_and_claim(conn, "b", queue="b")
    call(
        conn,
        "reschedule_job",
        p_job_id="b",
        p_lease_id=lease,
        p_worker_id="w",
        p_next_need="b",
        p_reason=reason,
    )
    submit_and_claim(conn, "c", queue="c")
    value(conn, "retry_later", p_job_id="c", p_reason=reason)

    for job_id in ("a", "b", "c"):
        assert trace(conn, job_id, "reschedule_job")["input_data"]["reason"] == reason


def test_a_reason_is_not_an_error_of_the_job(conn: Connection) -> None:
    settle(conn, "a", "reschedule", submit_and_claim(conn, "a"), p_messages=["resource_busy"])

    assert rows(conn, "select last_error, errors from holdfast.jobs_with_status") == [
        {"last_error": None, "errors": []}
    ]


def test_the_context_a_caller_gives_is_merged_into_the_input(conn: Connection) -> None:
    value(conn, "set_trace", p_enabled=True)
    lease = submit_and_claim(conn, "job")
    call(
        conn,
        "reschedule_job",
        p_job_id="job",
        p_lease_id=lease,
        p_worker_id="w",
        p_next_need="q",
        p_trace_context=Jsonb({"request": 7}),
    )
    rescheduled = trace(conn, "job", "reschedule_job")["input_data"]
    lease = claim_one(conn, "job")
    call(
        conn,
        "complete_job",
        p_job_id="job",
        p_lease_id=lease,
        p_worker_id="w",
        p_trace_context=Jsonb({"request": 8}),
    )

    assert rescheduled["request"] == 7
    assert trace(conn, "job", "job_finished")["input_data"] == {
        "operation": "complete",
        "lease_id": lease,
        "request": 8,
    }


def test_a_trace_row_names_the_worker(conn: Connection, clock: Clock) -> None:
    value(conn, "set_trace", p_enabled=True)
    lease = submit_and_claim(conn, "job", worker="alice")
    settle(conn, "job", "complete", lease)
    Scene(conn, clock, "lost").lapse()

    named = rows(conn, "select event_type, worker_id from holdfast.jobs_trace order by trace_id")
    assert [(row["event_type"], row["worker_id"]) for row in named] == [
        ("job_submitted", "tester"),
        ("job_retrieved", "alice"),
        ("job_finished", "alice"),
        ("job_submitted", "tester"),
        ("job_retrieved", "w"),
        ("lease_expired", "w"),
    ]


def test_the_switches_of_the_trace_and_their_readers_agree(conn: Connection) -> None:
    assert (value(conn, "trace_level"), value(conn, "is_trace_enabled")) == ("exceptions", True)
    for switch, level, enabled in [(True, "all", True), (False, "off", False)]:
        assert value(conn, "set_trace", p_enabled=switch) is switch
        assert (value(conn, "trace_level"), value(conn, "is_trace_enabled")) == (level, enabled)
    for level, enabled in [("off", False), ("exceptions", True), ("all", True)]:
        assert value(conn, "set_trace_level", p_level=level) == level
        assert (value(conn, "trace_level"), value(conn, "is_trace_enabled")) == (level, enabled)


def test_a_trace_row_has_the_columns_the_specification_names(conn: Connection) -> None:
    submit(conn, "job")
    call(conn, "cancel_job", p_job_id="job", p_worker_id="w")

    (row,) = rows(conn, "select * from holdfast.jobs_trace")
    assert list(row) == [
        "trace_id",
        "job_id",
        "event_type",
        "worker_id",
        "event_at",
        "input_data",
        "output_data",
    ]
