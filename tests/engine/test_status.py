"""The second word: what the clock and the columns make of a job now. The first that fits is shown."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from tests.clock import Clock
from tests.engine.sql import (
    Connection,
    call,
    claim,
    claim_one,
    column,
    job,
    rows,
    settle,
    status,
    submit,
    submit_and_claim,
    undone,
    value,
)

# In the order of precedence. Each word is made true on top of all those after it.
WORDS = ["AWAITING_FUTURE", "PENDING_JOBS", "CRASH_CONCERN", "EXPIRED", "PAUSED", "READY"]


def make_true(conn: Connection, word: str, now: datetime) -> None:
    later, earlier = now + timedelta(hours=1), now - timedelta(seconds=1)
    statements: dict[str, tuple[str, list[object]]] = {
        "AWAITING_FUTURE": ("update holdfast.jobs set available_at = %s", [later]),
        "PENDING_JOBS": ("update holdfast.jobs set waiting_on = 1", []),
        "CRASH_CONCERN": ("update holdfast.jobs set consecutive_expirations = 5", []),
        "EXPIRED": ("update holdfast.jobs set expires_at = %s", [earlier]),
        "PAUSED": ("select holdfast.pause_queue('q')", []),
    }
    if word in statements:
        query, parameters = statements[word]
        conn.execute(query.encode(), parameters or None)


def test_of_the_words_for_a_waiting_job_the_first_that_fits_is_shown(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    submit(conn, "job")

    for word in reversed(WORDS):
        make_true(conn, word, now)
        assert status(conn, "job") == word


def test_only_a_ready_job_is_leased(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    for word in WORDS:
        with undone(conn):
            submit(conn, "job")
            make_true(conn, word, now)
            assert [row["job_id"] for row in claim(conn)] == (["job"] if word == "READY" else [])


def test_a_held_job_is_active_whatever_else_is_true(conn: Connection, clock: Clock) -> None:
    submit_and_claim(conn, "job")
    for word in reversed(WORDS):
        make_true(conn, word, clock.now())
        assert status(conn, "job") == "ACTIVE"
    call(conn, "cancel_job", p_job_id="job", p_worker_id="person")

    assert (job(conn, "job")["state"], status(conn, "job")) == ("CANCELLING", "ACTIVE")


def test_a_lapsed_job_is_ready_before_the_sweep_and_a_lapsed_cancelling_one_is_cancelled(
    conn: Connection, clock: Clock
) -> None:
    for name in ("running", "cancelling"):
        submit_and_claim(conn, name, queue=name)
    call(conn, "cancel_job", p_job_id="cancelling", p_worker_id="person")
    clock.advance(31)

    assert [status(conn, name) for name in ("running", "cancelling")] == ["READY", "CANCELLED"]


def test_a_dead_job_is_dead_whatever_else_is_true(conn: Connection, clock: Clock) -> None:
    settle(conn, "job", "fail", submit_and_claim(conn, "job"), p_messages=["x"], p_permanent=[True])
    for word in reversed(WORDS):
        make_true(conn, word, clock.now())
        assert status(conn, "job") == "DEAD"


def test_the_status_follows_the_clock_without_anybody_writing(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    submit(conn, "job", p_delay=10, p_expires_at=now + timedelta(seconds=20))
    seen = []
    for _ in range(3):
        seen.append(status(conn, "job"))
        clock.advance(10)

    assert seen == ["AWAITING_FUTURE", "READY", "EXPIRED"]


def test_a_paused_queue_is_not_claimed_from_and_a_resumed_one_is(conn: Connection) -> None:
    submit(conn, "job")
    assert value(conn, "pause_queue", p_queue="q") is True
    assert value(conn, "pause_queue", p_queue="q") is False
    assert (status(conn, "job"), claim(conn)) == ("PAUSED", [])

    assert value(conn, "resume_queue", p_queue="q") is True

    claim_one(conn, "job")


def test_a_finished_job_shows_its_state_as_its_status(conn: Connection) -> None:
    settle(conn, "job", "complete", submit_and_claim(conn, "job"))

    assert status(conn, "job") == "COMPLETED"


Act = Callable[[Connection, str], object]

HOLDERS: dict[str, tuple[Act, str]] = {
    "extend": (
        lambda conn, lease: call(conn, "extend_lease", p_job_id="job", p_lease_id=lease, p_worker_id="w"),
        "RUNNING",
    ),
    "complete": (
        lambda conn, lease: call(conn, "complete_job", p_job_id="job", p_lease_id=lease, p_worker_id="w"),
        "COMPLETED",
    ),
    "reschedule": (
        lambda conn, lease: call(
            conn, "reschedule_job", p_job_id="job", p_lease_id=lease, p_worker_id="w", p_next_need="q"
        ),
        "RESCHEDULED",
    ),
    "cancel": (
        lambda conn, lease: call(conn, "cancel_job", p_job_id="job", p_worker_id="person"),
        "CANCELLING",
    ),
}


@pytest.mark.parametrize("act", HOLDERS)
def test_an_expired_job_can_be_extended_rescheduled_cancelled_and_completed_by_its_holder(
    conn: Connection, clock: Clock, act: str
) -> None:
    now = clock.freeze()
    lease = submit_and_claim(conn, "job", p_expires_at=now + timedelta(seconds=10))
    clock.advance(20)
    change, state = HOLDERS[act]
    change(conn, lease)

    assert job(conn, "job")["state"] == state


def test_an_expired_job_is_not_leased_and_stays_until_somebody_acts(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    submit(conn, "job", p_expires_at=now + timedelta(seconds=10))
    clock.advance(10)
    assert (claim(conn), status(conn, "job")) == ([], "EXPIRED")

    assert value(conn, "complete_unheld_job", p_job_id="job", p_worker_id="person") is True


def test_upkeep_cancels_what_expired_long_ago_and_its_dependents_follow(
    conn: Connection, clock: Clock
) -> None:
    now = clock.freeze()
    submit(conn, "old", p_expires_at=now + timedelta(seconds=1))
    submit(conn, "child", p_wait_for=["old"])
    submit(conn, "recent", p_expires_at=now + timedelta(days=3))
    submit_and_claim(conn, "held", queue="z", p_expires_at=now + timedelta(seconds=1))
    clock.advance(8 * 24 * 3600)

    assert value(conn, "cancel_expired_jobs") == 1

    assert [job(conn, name)["state"] for name in ("old", "child", "recent", "held")] == [
        "UNSCHEDULED",
        "UNSCHEDULED",
        "INITIAL_PENDING",
        "RUNNING",
    ]
    assert job(conn, "old")["error_message"] == "expired"


SHARED_COLUMNS = {
    *("job_id", "next_need", "wait_for", "payload", "singleton_key", "available_at", "expires_at"),
    *("lease_id", "lease_expires_at", "lease_expiration_count", "consecutive_expirations", "created_at"),
    *("state", "attempts", "max_attempts", "assignee_id", "assigned_at", "started_at", "finalized_at"),
    *("last_retry_at", "priority", "tags", "task", "resource_keys", "last_error", "errors"),
}


def columns(conn: Connection, view: str) -> set[str]:
    return set(
        column(conn, "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0", view)
    )


def test_the_views_show_the_columns_readers_know_them_by(conn: Connection) -> None:
    assert columns(conn, "holdfast.jobs_with_status") >= SHARED_COLUMNS | {"status", "progress"}
    assert columns(conn, "holdfast.jobs_archive") >= SHARED_COLUMNS | {"result"}
    assert columns(conn, "holdfast.jobs_trace") == {
        *("trace_id", "job_id", "event_type", "worker_id", "event_at", "input_data", "output_data")
    }


def test_progress_is_what_the_holder_last_said(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    lease = submit_and_claim(conn, "job")
    said = {"p_done": 3, "p_total": 10, "p_message": "three of ten"}
    assert value(conn, "report_progress", p_job_id="job", p_lease_id=lease, **said) is True

    progress = job(conn, "job")["progress"]
    assert datetime.fromisoformat(progress.pop("at")) == now
    assert progress == {"done": 3, "total": 10, "message": "three of ten"}


def test_the_friendly_status_is_a_sentence_for_every_word(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    submit(conn, "job")
    sentences = []
    for word in reversed(WORDS):
        make_true(conn, word, now)
        (row,) = rows(conn, "select status, friendly_status from holdfast.jobs_friendly_status")
        assert row["status"] == word
        sentences.append(row["friendly_status"])

    assert len(set(sentences)) == len(WORDS)
    assert all(sentences)
