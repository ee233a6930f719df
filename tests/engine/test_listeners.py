"""No signal is sent while somebody takes jobs of a queue and nobody waits for one; otherwise it is."""

from __future__ import annotations

import pytest

from tests.clock import Clock
from tests.engine.sql import (
    Connection,
    Rows,
    call,
    claim,
    column,
    listen,
    refusal,
    rows,
    signals,
    submit_many,
    value,
)

ANN, BOB = 1, 2


def look(conn: Connection, listener: int = ANN, queue: str = "q", **more: object) -> Rows:
    """Look for a job as a stream does, and say what is to be written down."""
    given = {
        "p_job_ids": [],
        "p_operations": [],
        "p_lease_ids": [],
        "p_waits_seconds": 10.0,
        "p_present_seconds": 10.0,
    } | more
    return call(
        conn, "settle_and_claim", p_worker_id="w", p_queues=[queue], p_limit=1, p_listener=listener, **given
    )


def wait(conn: Connection, listener: int = ANN, queue: str = "q") -> None:
    (row,) = look(conn, listener, queue)
    assert row["kind"] == "next"


def be_busy(conn: Connection, listener: int = ANN, queue: str = "q") -> None:
    submit_many(conn, [f"of {listener} in {queue}"], queue)
    (row,) = look(conn, listener, queue)
    assert row["kind"] == "claimed"


def signalled(conn: Connection, *queues: str, own_transaction: bool = True, **more: object) -> list[str]:
    """The queues that a submit of a job to each of these signals."""
    listen(conn, *queues)
    signals(conn)
    call(conn, "submit_jobs", p_queues=list(queues), p_own_transaction=own_transaction, **more)
    return sorted(channel.removeprefix("holdfast.need.") for channel, _ in signals(conn))


def test_a_queue_of_which_nobody_is_known_is_signalled(conn: Connection) -> None:
    assert signalled(conn, "q") == ["q"]


def test_whoever_waits_is_signalled(conn: Connection) -> None:
    wait(conn)
    assert signalled(conn, "q") == ["q"]


def test_who_is_busy_is_not_signalled(conn: Connection) -> None:
    be_busy(conn)
    assert signalled(conn, "q") == []


def test_whoever_waits_beside_busy_ones_is_signalled(conn: Connection) -> None:
    be_busy(conn, ANN)
    claim(conn)
    wait(conn, BOB)
    assert signalled(conn, "q") == ["q"]


def test_who_waited_and_got_something_to_do_is_busy(conn: Connection) -> None:
    wait(conn)
    be_busy(conn)
    assert signalled(conn, "q") == []


def test_a_job_that_is_taken_without_a_word_leaves_the_mark_as_it_was(conn: Connection) -> None:
    wait(conn)
    submit_many(conn, ["job"])
    look(conn, p_present_seconds=None)
    assert signalled(conn, "q") == ["q"]


def test_a_look_without_a_word_leaves_the_mark_as_it_was(conn: Connection) -> None:
    be_busy(conn)
    look(conn, p_waits_seconds=None)
    assert signalled(conn, "q") == []


def test_who_is_busy_with_another_queue_counts_for_nothing(conn: Connection) -> None:
    be_busy(conn, queue="other")
    assert signalled(conn, "q") == ["q"]


def test_marks_end_by_themselves(conn: Connection, clock: Clock) -> None:
    be_busy(conn)
    clock.advance(11)
    assert signalled(conn, "q") == ["q"]


def test_who_waits_no_longer_beside_a_busy_one_is_not_signalled(conn: Connection, clock: Clock) -> None:
    wait(conn, BOB)
    clock.advance(11)
    be_busy(conn, ANN)
    assert signalled(conn, "q") == []


def test_a_submit_that_may_commit_later_always_signals(conn: Connection) -> None:
    be_busy(conn)
    assert signalled(conn, "q", own_transaction=False) == ["q"]


def test_of_several_queues_those_are_signalled_that_somebody_waits_for(conn: Connection) -> None:
    be_busy(conn, queue="busy")
    wait(conn, queue="idle")
    assert signalled(conn, "busy", "idle") == ["idle"]


def test_a_job_that_says_more_than_most_is_signalled_likewise(conn: Connection) -> None:
    be_busy(conn)
    assert signalled(conn, "q", p_priorities=[1]) == []
    claim(conn)
    wait(conn, BOB)
    assert signalled(conn, "q", p_priorities=[1]) == ["q"]


@pytest.mark.parametrize(
    ("own_transaction", "expected"), [(True, []), (False, [("holdfast.need.q", "back")])]
)
def test_a_job_that_goes_back_in_line_is_signalled_likewise(
    conn: Connection, own_transaction: bool, expected: list[tuple[str, str]]
) -> None:
    submit_many(conn, ["back"])
    (held,) = claim(conn)
    be_busy(conn)
    listen(conn, "q")
    signals(conn)

    look(
        conn,
        p_job_ids=["back"],
        p_operations=["reschedule"],
        p_lease_ids=[held["lease_id"]],
        p_own_transaction=own_transaction,
    )

    assert signals(conn) == expected


def test_a_session_that_get_work_left_listening_waits(conn: Connection) -> None:
    be_busy(conn)
    assert call(conn, "get_work", p_worker_id="w", p_worker_caps=["q"]) == []
    assert signalled(conn, "q") == ["q"]


def test_switched_off_signals_stay_off(conn: Connection) -> None:
    wait(conn)
    value(conn, "set_notify", p_enabled=False)
    assert signalled(conn, "q") == []


def test_who_is_long_gone_is_forgotten_when_somebody_comes(conn: Connection, clock: Clock) -> None:
    wait(conn, ANN)
    clock.advance(120)
    wait(conn, BOB)
    assert column(conn, "select listener from holdfast.listeners") == [BOB]


def test_whoever_comes_again_has_one_row(conn: Connection) -> None:
    for _ in range(3):
        wait(conn)
    assert len(rows(conn, "select * from holdfast.listeners")) == 1


@pytest.mark.parametrize("name", ["p_waits_seconds", "p_present_seconds"])
@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), 2e9])
def test_a_mark_lasts_for_some_time(conn: Connection, name: str, bad: float) -> None:
    assert f"{name} must be more than 0" in str(refusal(look, conn, **{name: bad}))
