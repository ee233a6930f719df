"""wait_for: who waits for whom, and what becomes of a child when its parent ends."""

from __future__ import annotations

from itertools import pairwise

import pytest
from psycopg.types.json import Jsonb

from tests.clock import Clock
from tests.engine.sql import (
    Connection,
    call,
    claim,
    claim_one,
    contents,
    job,
    refusal,
    rows,
    settle,
    state,
    states,
    status,
    submit,
    submit_and_claim,
    submit_many,
    undone,
    value,
)

INVALID = "22023"


def complete(conn: Connection, job_id: str) -> None:
    settle(conn, job_id, "complete", submit_and_claim(conn, job_id, queue=f"for {job_id}"))


def cancel(conn: Connection, job_id: str) -> None:
    call(conn, "cancel_job", p_job_id=job_id, p_worker_id="person")


def reschedule(conn: Connection, job_id: str, lease: str, *parents: str | None) -> list[dict[str, object]]:
    return call(
        conn,
        "reschedule_job",
        p_job_id=job_id,
        p_lease_id=lease,
        p_worker_id="w",
        p_next_need="q",
        p_wait_for=list(parents),
    )


# Submitting


def test_a_child_is_not_leased_before_all_its_parents_completed(conn: Connection) -> None:
    leases = {job_id: submit_and_claim(conn, job_id) for job_id in ("a", "b")}
    submit(conn, "child", p_wait_for=["a", "b"])
    assert (status(conn, "child"), claim(conn)) == ("PENDING_JOBS", [])

    settle(conn, "a", "complete", leases["a"])
    assert (job(conn, "child")["wait_for"], claim(conn)) == (["b"], [])
    settle(conn, "b", "complete", leases["b"])

    assert (job(conn, "child")["wait_for"], status(conn, "child")) == ([], "READY")
    claim_one(conn, "child")


def test_an_unknown_parent_is_an_error_that_names_it(conn: Connection) -> None:
    submit(conn, "known")
    before = contents(conn)

    error = refusal(submit, conn, "child", p_wait_for=["known", "nobody"])

    assert (error.sqlstate, 'names job "nobody", which does not exist' in str(error)) == (INVALID, True)
    assert contents(conn) == before


def test_completed_parents_nulls_and_repetitions_drop_out_and_the_order_is_kept(conn: Connection) -> None:
    complete(conn, "done")
    submit_many(conn, ["a", "b", "c"])

    child = submit(conn, "child", p_wait_for=["c", None, "done", "a", "c", "b"])

    assert child["wait_for"] == job(conn, "child")["wait_for"] == ["c", "a", "b"]


def test_nulls_drop_out_of_the_batch_form_too(conn: Connection) -> None:
    submit(conn, "parent")

    call(conn, "submit_jobs", p_job_ids=["x", "y"], p_wait_for=[Jsonb(["parent", None]), Jsonb([None])])

    assert (job(conn, "x")["wait_for"], job(conn, "y")["wait_for"]) == (["parent"], [])


def test_a_child_of_completed_parents_only_is_ready_at_once(conn: Connection) -> None:
    complete(conn, "done")

    assert submit(conn, "child", p_wait_for=["done"])["wait_for"] == []
    assert status(conn, "child") == "READY"


def test_jobs_of_one_call_may_wait_for_each_other_in_any_order(conn: Connection) -> None:
    call(
        conn,
        "submit_jobs",
        p_job_ids=["last", "first", "middle"],
        p_wait_for=[Jsonb(["middle", "first"]), None, Jsonb(["first"])],
    )

    for job_id in ("first", "middle", "last"):
        settle(conn, job_id, "complete", claim_one(conn, job_id, queue="default"))
    assert states(conn, "first", "middle", "last") == ["COMPLETED"] * 3


def test_a_job_may_wait_for_one_with_a_generated_id(conn: Connection) -> None:
    (parent,) = call(conn, "submit_jobs", p_queues=["q"])

    assert submit(conn, "child", p_wait_for=[parent["job_id"]])["wait_for"] == [parent["job_id"]]


def test_an_id_of_the_generated_form_does_not_reach_a_job_with_a_name(conn: Connection) -> None:
    submit(conn, "named")
    (row,) = rows(conn, "select 'j' || id as id from holdfast.jobs")

    error = refusal(submit, conn, "child", p_wait_for=[row["id"]])

    assert "does not exist" in str(error)


def test_a_chain_runs_in_its_order(conn: Connection) -> None:
    names = [f"step-{number}" for number in range(6)]
    submit(conn, names[0])
    for before, after in pairwise(names):
        submit(conn, after, p_wait_for=[before])

    for name in names:
        (claimed,) = claim(conn, limit=9)
        assert claimed["job_id"] == name
        settle(conn, name, "complete", claimed["lease_id"])


# A parent that fails


def dead_parent(conn: Connection) -> None:
    lease = submit_and_claim(conn, "parent", queue="parents", p_max_attempts=1)
    settle(conn, "parent", "fail", lease, p_messages=["boom"])
    assert state(conn, "parent") == "DEAD"


def unscheduled_parent(conn: Connection) -> None:
    submit(conn, "parent", queue="parents")
    cancel(conn, "parent")
    assert state(conn, "parent") == "UNSCHEDULED"


def stopped_parent(conn: Connection) -> None:
    settle(conn, "parent", "stop", submit_and_claim(conn, "parent", queue="parents"))


def unknown_stopped_parent(conn: Connection) -> None:
    settle(conn, "parent", "mark_unknown_stopped", submit_and_claim(conn, "parent", queue="parents"))


FAILED = {
    "DEAD": dead_parent,
    "UNSCHEDULED": unscheduled_parent,
    "STOPPED": stopped_parent,
    "UNKNOWN_STOPPED": unknown_stopped_parent,
}
RULES = ["wait", "cancel", "run"]
STATUS_OF_CHILD = {"wait": "PENDING_JOBS", "cancel": "UNSCHEDULED", "run": "READY"}


def fail_in_front_of(conn: Connection, ending: str, rule: str | None) -> None:
    """Submit parent and child, then let the parent end so."""
    submit(conn, "parent", queue="parents", p_max_attempts=1)
    submit(conn, "child", p_wait_for=["parent"], p_if_parent_fails=rule)
    if ending == "UNSCHEDULED":
        cancel(conn, "parent")
        return
    lease = claim_one(conn, "parent", queue="parents")
    operation = {"DEAD": "fail", "STOPPED": "stop", "UNKNOWN_STOPPED": "mark_unknown_stopped"}[ending]
    settle(conn, "parent", operation, lease, p_messages=["boom"])
    assert state(conn, "parent") == ending


@pytest.mark.parametrize("ending", FAILED)
def test_a_child_waits_for_a_dead_parent_and_follows_a_cancelled_one(conn: Connection, ending: str) -> None:
    fail_in_front_of(conn, ending, None)

    assert status(conn, "child") == ("PENDING_JOBS" if ending == "DEAD" else "UNSCHEDULED")


@pytest.mark.parametrize("rule", RULES)
def test_if_parent_fails_says_what_a_child_does_whatever_way_its_parent_fails(
    conn: Connection, rule: str
) -> None:
    for ending in FAILED:
        with undone(conn):
            fail_in_front_of(conn, ending, rule)

            assert status(conn, "child") == STATUS_OF_CHILD[rule]
            assert len(claim(conn)) == (rule == "run")


@pytest.mark.parametrize("rule", RULES)
def test_if_parent_fails_holds_for_a_parent_that_failed_before_the_child_was_submitted(
    conn: Connection, rule: str
) -> None:
    for fail in FAILED.values():
        with undone(conn):
            fail(conn)

            submit(conn, "child", p_wait_for=["parent"], p_if_parent_fails=rule)

            assert status(conn, "child") == STATUS_OF_CHILD[rule]


@pytest.mark.parametrize("rule", RULES)
def test_if_parent_fails_holds_for_a_parent_that_failed_before_a_reschedule_named_it(
    conn: Connection, rule: str
) -> None:
    for fail in FAILED.values():
        with undone(conn):
            fail(conn)
            lease = submit_and_claim(conn, "child", p_if_parent_fails=rule)

            (answered,) = reschedule(conn, "child", lease, "parent")

            assert status(conn, "child") == {**STATUS_OF_CHILD, "cancel": "STOPPED"}[rule]
            assert answered["wait_for"] == (["parent"] if rule == "wait" else [])


@pytest.mark.parametrize("ending", ["UNSCHEDULED", "STOPPED", "UNKNOWN_STOPPED"])
def test_naming_an_already_cancelled_parent_without_a_rule_is_an_error(conn: Connection, ending: str) -> None:
    FAILED[ending](conn)
    lease = submit_and_claim(conn, "held")
    before = contents(conn)

    for error in (
        refusal(submit, conn, "child", p_wait_for=["parent"]),
        refusal(reschedule, conn, "held", lease, "parent"),
    ):
        assert error.sqlstate == INVALID
        assert f'names job "parent", which was cancelled ({ending})' in str(error)
        assert "if_parent_fails" in str(error)
    assert contents(conn) == before


def test_naming_a_dead_parent_means_to_wait_for_its_revival(conn: Connection) -> None:
    dead_parent(conn)
    submit(conn, "child", p_wait_for=["parent"])
    assert status(conn, "child") == "PENDING_JOBS"

    value(conn, "revive_job", p_job_id="parent")
    settle(conn, "parent", "complete", claim_one(conn, "parent", queue="parents"))

    assert status(conn, "child") == "READY"


def test_a_dead_parent_that_is_revived_and_completes_releases_its_child(conn: Connection) -> None:
    fail_in_front_of(conn, "DEAD", None)
    value(conn, "revive_job", p_job_id="parent")
    assert status(conn, "child") == "PENDING_JOBS"

    settle(conn, "parent", "complete", claim_one(conn, "parent", queue="parents"))

    assert status(conn, "child") == "READY"


def test_a_dead_parent_that_is_cancelled_takes_its_child_along(conn: Connection) -> None:
    fail_in_front_of(conn, "DEAD", None)

    cancel(conn, "parent")

    assert states(conn, "parent", "child") == ["STOPPED", "UNSCHEDULED"]


def test_an_unknown_stopped_parent_that_is_completed_later_releases_the_child_that_waited(
    conn: Connection,
) -> None:
    lease = submit_and_claim(conn, "parent")
    submit(conn, "waited", p_wait_for=["parent"], p_if_parent_fails="wait")
    submit(conn, "followed", p_wait_for=["parent"])
    settle(conn, "parent", "mark_unknown_stopped", lease)
    assert [status(conn, name) for name in ("waited", "followed")] == ["PENDING_JOBS", "UNSCHEDULED"]

    settle(conn, "parent", "complete", lease)

    assert [status(conn, name) for name in ("waited", "followed")] == ["READY", "UNSCHEDULED"]


def test_a_lapse_while_cancelling_takes_the_children_along(conn: Connection, clock: Clock) -> None:
    submit_and_claim(conn, "parent")
    submit(conn, "child", p_wait_for=["parent"])
    cancel(conn, "parent")
    assert state(conn, "child") == "INITIAL_PENDING"  # the worker has not said what it did
    clock.advance(31)

    call(conn, "lapse_leases")

    assert states(conn, "parent", "child") == ["UNKNOWN_STOPPED", "UNSCHEDULED"]


def test_the_children_of_cancelled_children_are_cancelled_too(conn: Connection) -> None:
    submit(conn, "root")
    submit(conn, "child", p_wait_for=["root"])
    submit(conn, "grandchild", p_wait_for=["child"])
    submit(conn, "stubborn", p_wait_for=["child"], p_if_parent_fails="run")
    submit(conn, "patient", p_wait_for=["grandchild"], p_if_parent_fails="wait")
    submit(conn, "last", p_wait_for=["grandchild", "stubborn"])

    cancel(conn, "root")

    assert states(conn, "root", "child", "grandchild", "last") == ["UNSCHEDULED"] * 4
    assert [status(conn, name) for name in ("stubborn", "patient")] == ["READY", "PENDING_JOBS"]
    assert (
        rows(conn, "select from holdfast.job_waits where child_id not in (select id from holdfast.jobs)")
        == []
    )


def test_a_child_cancelled_for_its_parent_says_so_and_shows_what_it_waited_for(conn: Connection) -> None:
    submit(conn, "other")
    fail_in_front_of(conn, "UNSCHEDULED", None)
    submit(conn, "second", p_wait_for=["other"], p_if_parent_fails="cancel")
    cancel(conn, "other")

    found = job(conn, "child")
    assert found["error_message"] == "cancelled because a job it waited for did not complete"
    assert found["wait_for"] == ["parent"]


def test_a_job_that_ran_and_then_waits_is_stopped_with_its_parent(conn: Connection) -> None:
    submit(conn, "parent", queue="parents")
    reschedule(conn, "child", submit_and_claim(conn, "child"), "parent")
    cancel(conn, "parent")

    assert state(conn, "child") == "STOPPED"


# Rescheduling


def test_a_reschedule_replaces_what_a_job_waits_for(conn: Connection) -> None:
    submit_many(conn, ["a", "b"], queue="parents")
    lease = submit_and_claim(conn, "job")

    reschedule(conn, "job", lease, "b", None, "a")
    assert job(conn, "job")["wait_for"] == ["b", "a"]
    for row in claim(conn, "parents", limit=2):
        settle(conn, row["job_id"], "complete", row["lease_id"])
    assert status(conn, "job") == "READY"


def test_a_wait_for_that_would_close_a_cycle_is_an_error_that_names_it(conn: Connection) -> None:
    lease = submit_and_claim(conn, "a")
    submit(conn, "b", p_wait_for=["a"])
    submit(conn, "c", p_wait_for=["b"])
    before = contents(conn)

    error = refusal(reschedule, conn, "a", lease, "c")

    assert error.sqlstate == INVALID
    assert "a waits for c, which waits for b, which waits for a" in str(error)
    assert contents(conn) == before


def test_a_job_cannot_be_rescheduled_to_wait_for_itself(conn: Connection) -> None:
    lease = submit_and_claim(conn, "a")

    error = refusal(reschedule, conn, "a", lease, "a")

    assert (error.sqlstate, "a waits for a" in str(error)) == (INVALID, True)


def test_a_cycle_is_found_when_nobody_holds_the_job_too(conn: Connection) -> None:
    submit(conn, "a")
    submit(conn, "b", p_wait_for=["a"])

    error = refusal(
        call,
        conn,
        "reschedule_unheld_job",
        p_job_id="a",
        p_worker_id="person",
        p_next_need="q",
        p_wait_for=["b"],
    )

    assert "a waits for b, which waits for a" in str(error)


# Deleting


def test_a_job_somebody_waits_for_is_not_deleted(conn: Connection) -> None:
    fail_in_front_of(conn, "DEAD", None)
    before = contents(conn)

    error = refusal(call, conn, "delete_jobs", p_job_ids=["parent"])

    assert (error.sqlstate, 'job "child" waits for job "parent"' in str(error)) == ("HF003", True)
    assert contents(conn) == before
