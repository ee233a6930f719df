"""A worker that begins to wait while somebody submits: no order of events leaves a job to the long poll."""

from __future__ import annotations

from tests.concurrency.sessions import Session
from tests.engine.sql import Connection, Rows, call, listen, signals, submit_many

BUSY, OURS = 1, 2


def look(conn: Connection, listener: int) -> list[str]:
    found: Rows = call(
        conn,
        "settle_and_claim",
        p_job_ids=[],
        p_operations=[],
        p_lease_ids=[],
        p_worker_id="w",
        p_queues=["q"],
        p_limit=1,
        p_listener=listener,
        p_waits_seconds=10.0,
        p_present_seconds=10.0,
    )
    return [row["job_id"] for row in found if row["kind"] == "claimed"]


def somebody_is_busy(conn: Connection) -> None:
    submit_many(conn, ["first"])
    assert look(conn, BUSY) == ["first"]


def submit(conn: Connection, *, own_transaction: bool = True) -> None:
    call(conn, "submit_jobs", p_job_ids=["job"], p_queues=["q"], p_own_transaction=own_transaction)


def test_a_job_committed_before_the_mark_is_found_by_the_look_after_it(
    conn: Connection, first: Session, second: Session
) -> None:
    """Look and mark are one transaction: the job came after its look and before its end."""
    somebody_is_busy(conn)
    listen(second.conn, "q")
    second.begin()
    assert look(second.conn, OURS) == []
    submit(first.conn)  # sees no mark, because that is not committed
    second.commit()

    assert signals(second.conn) == []
    assert look(second.conn, OURS) == ["job"]


def test_a_job_submitted_before_the_mark_and_committed_after_the_look_is_left_to_the_short_polls(
    conn: Connection, first: Session, second: Session
) -> None:
    """The commit of a call that is its own transaction takes as long as the disk, not longer."""
    somebody_is_busy(conn)
    listen(second.conn, "q")
    first.begin()
    submit(first.conn)
    assert look(second.conn, OURS) == []
    assert look(second.conn, OURS) == []
    first.commit()

    assert signals(second.conn) == []
    assert look(second.conn, OURS) == ["job"]


def test_a_job_submitted_in_a_transaction_that_lasts_is_signalled_whoever_was_busy_then(
    conn: Connection, first: Session, second: Session
) -> None:
    somebody_is_busy(conn)
    listen(second.conn, "q")
    first.begin()
    submit(first.conn, own_transaction=False)
    assert look(second.conn, OURS) == []
    first.commit()

    assert signals(second.conn) == [("holdfast.need.q", "job")]


def test_a_job_submitted_after_the_mark_is_signalled(
    conn: Connection, first: Session, second: Session
) -> None:
    somebody_is_busy(conn)
    listen(second.conn, "q")
    assert look(second.conn, OURS) == []
    submit(first.conn)

    assert signals(second.conn) == [("holdfast.need.q", "job")]


def test_a_mark_that_is_renewed_has_no_gap(conn: Connection, first: Session, second: Session) -> None:
    somebody_is_busy(conn)
    assert look(second.conn, OURS) == []
    listen(second.conn, "q")
    second.begin()
    assert look(second.conn, OURS) == []
    with first.impatient():
        submit(first.conn)
    second.commit()

    assert signals(second.conn) == [("holdfast.need.q", "job")]


def test_marks_make_nobody_wait(conn: Connection, first: Session, second: Session) -> None:
    first.begin()
    assert look(first.conn, BUSY) == []
    with second.impatient():
        assert look(second.conn, OURS) == []
        submit(second.conn)
