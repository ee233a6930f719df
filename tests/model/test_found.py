"""Rare lives that were found by looking for them, one by one."""

from __future__ import annotations

from tests.clock import Clock
from tests.engine.sql import Connection, call, claim, claim_one, column, state, submit, value


def _let_wait(conn: Connection, child: str, parent: str, **more: object) -> None:
    """A child that ran once, vanished, and was told to wait for a parent then."""
    submit(conn, parent, "parents")
    submit(conn, child, "children", **more)
    claim_one(conn, child, "children")
    value(conn, "release_job", p_job_id=child)
    call(
        conn,
        "reschedule_unheld_job",
        p_job_id=child,
        p_worker_id="operator",
        p_next_need="children",
        p_wait_for=[parent],
    )


def test_a_deleted_job_waits_for_nobody(conn: Connection, clock: Clock) -> None:
    clock.freeze()
    _let_wait(conn, "child", "parent")
    value(conn, "fail_job", p_job_id="child", p_error="fatal", p_permanent=True)
    value(conn, "delete_jobs", p_job_ids=["child"])

    assert column(conn, "select parent from holdfast.job_waits") == []

    # Its wait would keep the parent from being swept for ever.
    claim(conn, "parents")
    call(conn, "cancel_job", p_job_id="parent", p_worker_id="operator")
    clock.advance(60)
    call(conn, "lapse_leases")
    assert state(conn, "parent") == "UNKNOWN_STOPPED"


def test_a_settled_job_is_what_the_verdict_says_when_its_parent_dies_in_the_same_call(
    conn: Connection,
) -> None:
    _let_wait(conn, "child", "parent", p_if_parent_fails="cancel")
    lease = claim_one(conn, "parent", "parents")

    verdicts = call(
        conn,
        "settle_jobs",
        p_job_ids=["parent", "child"],
        p_operations=["fail", "complete"],
        p_lease_ids=[lease, None],
        p_permanent=[True, False],
    )

    assert [(row["job_id"], row["state"]) for row in verdicts] == [
        ("parent", "DEAD"),
        ("child", state(conn, "child")),
    ]
