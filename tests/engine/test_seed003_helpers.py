"""The seven internal helpers of the SQL workflow specification: one pipeline under every public function."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.clock import Clock
from tests.engine.sql import (
    Connection,
    Row,
    call,
    claim_one,
    column,
    contents,
    events,
    job,
    listen,
    refusal,
    rows,
    settle,
    signals,
    state,
    status,
    submit,
    submit_and_claim,
    submit_many,
    trace,
    value,
)

NOT_FOUND, WRONG_STATE, LEASE_LOST = "HF001", "HF003", "HF004"

# A helper that takes the locked job as the view shows it, called on a job locked by the first helper.
LOCKED = "holdfast._lock_job_for_status(%s, %s, %s) as locked, lateral"


def lock(conn: Connection, job_id: str, wanted: str, **more: object) -> Row:
    (row,) = call(conn, "_lock_job_for_status", p_job_id=job_id, p_status=wanted, **more)
    return row


def test_lock_job_for_status_returns_the_row_of_the_view(conn: Connection) -> None:
    lease = submit_and_claim(conn, "held", p_payload=Jsonb({"n": 1}))

    locked = lock(conn, "held", "ACTIVE", p_expected_lease_id=lease)

    (shown,) = rows(conn, "select * from holdfast.jobs_with_status")
    assert locked == shown
    assert (locked["status"], locked["payload"], locked["lease_id"]) == ("ACTIVE", {"n": 1}, lease)


def test_lock_job_for_status_locks_the_job(conn: Connection) -> None:
    submit(conn, "ready")
    conn.execute("begin")
    lock(conn, "ready", "READY")

    locked = column(conn, "select xmax <> 0 from holdfast.jobs")
    conn.execute("commit")

    assert locked == [True]


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [("READY", ["ready"]), ("PENDING_JOBS", ["child"]), ("ACTIVE", ["held"]), ("AWAITING_FUTURE", ["later"])],
)
def test_lock_job_for_status_filters_by_one_status(conn: Connection, wanted: str, fits: list[str]) -> None:
    submit_and_claim(conn, "held")
    submit(conn, "ready")
    submit(conn, "child", p_wait_for=["ready"])
    submit(conn, "later", p_delay=60)

    for job_id in ("held", "ready", "child", "later"):
        if job_id in fits:
            assert lock(conn, job_id, wanted)["job_id"] == job_id
        else:
            assert refusal(lock, conn, job_id, wanted).sqlstate == WRONG_STATE


def test_lock_job_for_status_tells_a_missing_job_from_a_lost_lease_and_a_finished_job(
    conn: Connection, clock: Clock
) -> None:
    submit_and_claim(conn, "held")
    settle(conn, "done", "complete", submit_and_claim(conn, "done"))
    lease = submit_and_claim(conn, "lapsed", queue="z")
    submit_and_claim(conn, "fresh", queue="y")
    clock.advance(31)

    missing = refusal(lambda: lock(conn, "nobody", "ACTIVE"))
    finished = refusal(lambda: lock(conn, "done", "ACTIVE"))
    lost = refusal(lambda: lock(conn, "held", "ACTIVE", p_expected_lease_id="another"))
    lapsed = refusal(lambda: lock(conn, "lapsed", "ACTIVE", p_expected_lease_id=lease))

    assert [error.sqlstate for error in (missing, finished, lost, lapsed)] == [
        NOT_FOUND,
        WRONG_STATE,
        LEASE_LOST,
        LEASE_LOST,
    ]
    assert '"nobody" does not exist' in str(missing)
    assert "COMPLETED" in str(finished)
    assert '"held" is RUNNING' in str(lost)


@pytest.mark.parametrize("swept", [False, True])
def test_an_extension_of_a_lapsed_lease_is_refused_in_words_that_say_so_and_name_the_job_once(
    conn: Connection, clock: Clock, swept: bool
) -> None:
    lease = submit_and_claim(conn, "job")
    clock.advance(31)
    if swept:
        call(conn, "lapse_leases")

    error = refusal(call, conn, "extend_lease", p_job_id="job", p_lease_id=lease, p_worker_id="w")

    assert error.sqlstate == LEASE_LOST
    state, how = ("UNKNOWN_RETRY", "ended") if swept else ("RUNNING", "lapsed")
    assert (
        error.diag.message_primary == f'job "job" cannot be extended; it is {state} and its lease has {how}'
    )


def test_an_extension_under_another_lease_names_the_job_once(conn: Connection) -> None:
    submit_and_claim(conn, "job")

    error = refusal(call, conn, "extend_lease", p_job_id="job", p_lease_id="another", p_worker_id="w")

    assert error.diag.message_primary == (
        'job "job" cannot be extended; it is RUNNING and the lease is not the caller\'s (any more)'
    )


def test_lock_job_for_status_says_what_its_caller_wants_said(conn: Connection) -> None:
    submit(conn, "ready")

    for job_id in ("nobody", "ready"):
        error = refusal(lock, conn, job_id, "ACTIVE", p_missing_message="no such parcel")
        assert str(error).startswith("no such parcel")


def emit(conn: Connection, **more: object) -> None:
    arguments: dict[str, object] = {"p_job_id": "job", "p_event_type": "parcel_lost", "p_worker_id": "w"}
    call(conn, "_emit_trace_event", **{**arguments, "p_input": Jsonb({"a": 1}), **more})


def test_emit_trace_event_writes_nothing_when_tracing_is_disabled(conn: Connection) -> None:
    value(conn, "set_trace", p_enabled=False)
    emit(conn)

    assert events(conn) == []


def test_emit_trace_event_stores_what_it_is_given(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    value(conn, "set_trace", p_enabled=True)
    emit(conn, p_output=Jsonb({"b": 2}))

    (row,) = rows(conn, "select * from holdfast.jobs_trace")
    assert row == {
        "trace_id": 1,
        "job_id": "job",
        "event_type": "parcel_lost",
        "worker_id": "w",
        "event_at": now,
        "input_data": {"a": 1},
        "output_data": {"b": 2},
    }


def test_emit_trace_event_takes_an_omitted_document_for_an_empty_one(conn: Connection) -> None:
    emit(conn, p_input=None)

    assert rows(conn, "select input_data, output_data from holdfast.jobs_trace") == [
        {"input_data": {}, "output_data": {}}
    ]


def test_notify_need_signals_the_channel_of_the_need_with_the_job_as_payload(conn: Connection) -> None:
    listen(conn, "cut", "paint")
    call(conn, "_notify_need", p_next_need="paint", p_job_id="job-7")

    assert signals(conn) == [("holdfast.need.paint", "job-7")]


def test_notify_need_is_silent_when_notify_is_disabled(conn: Connection) -> None:
    listen(conn, "paint")
    value(conn, "set_notify", p_enabled=False)
    call(conn, "_notify_need", p_next_need="paint", p_job_id="job-7")

    assert signals(conn) == []


def test_archive_and_delete_job_moves_the_row_and_returns_it_from_the_archive(conn: Connection) -> None:
    lease = submit_and_claim(conn, "job", p_payload=Jsonb([1]), p_tags=["t"], p_singleton_key="k")

    query = f"select archived.* from {LOCKED} holdfast._archive_and_delete_job(locked) as archived"
    returned = rows(conn, query, "job", "ACTIVE", lease)

    assert returned == rows(conn, "select * from holdfast.jobs_archive")
    (archived,) = returned
    assert (archived["job_id"], archived["state"], archived["lease_id"]) == ("job", "COMPLETED", lease)
    assert (archived["payload"], archived["tags"], archived["singleton_key"]) == ([1], ["t"], "k")
    assert rows(conn, "select from holdfast.jobs") == rows(conn, "select from holdfast.holds") == []


def test_update_waiters_for_completion_answers_each_child_and_whether_it_can_run_now(
    conn: Connection,
) -> None:
    lease = submit_and_claim(conn, "parent")
    submit(conn, "other", queue="elsewhere")
    submit(conn, "free", queue="cut", p_wait_for=["parent"])
    submit(conn, "blocked", queue="paint", p_wait_for=["other", "parent"])
    submit(conn, "later", queue="pack", p_wait_for=["parent"], p_delay=60)
    submit(conn, "stranger")
    conn.execute(
        "select from holdfast._lock_job_for_status('parent', 'ACTIVE', %s) as locked,"
        " lateral holdfast._archive_and_delete_job(locked)",
        [lease],
    )
    listen(conn, "cut", "paint", "q")

    answered = call(conn, "_update_waiters_for_completion", p_completed_job_id="parent")

    assert answered == [
        {"job_id": "free", "next_need": "cut", "became_unblocked": True},
        {"job_id": "blocked", "next_need": "paint", "became_unblocked": False},
        {"job_id": "later", "next_need": "pack", "became_unblocked": False},
    ]
    assert signals(conn) == [("holdfast.need.cut", "free")]
    assert [status(conn, job_id) for job_id in ("free", "blocked", "later")] == [
        "READY",
        "PENDING_JOBS",
        "AWAITING_FUTURE",
    ]
    assert job(conn, "blocked")["wait_for"] == ["other"]


def complete_locked(conn: Connection, job_id: str, wanted: str, lease: str | None, context: object) -> Any:
    query = f"select done from {LOCKED} holdfast._complete_locked_job(locked, %s, %s) as done"
    (row,) = rows(conn, query, job_id, wanted, lease, "finisher", context)
    return row["done"]


def test_complete_locked_job_archives_releases_notifies_and_traces(conn: Connection) -> None:
    value(conn, "set_trace", p_enabled=True)
    lease = submit_and_claim(conn, "job")
    submit(conn, "child", queue="next", p_wait_for=["job"])
    listen(conn, "next")

    done = complete_locked(conn, "job", "ACTIVE", lease, Jsonb({"lease_id": lease, "by": "hand"}))

    assert done is True
    assert (state(conn, "job"), status(conn, "child")) == ("COMPLETED", "READY")
    assert signals(conn) == [("holdfast.need.next", "child")]
    finished = trace(conn, "job", "job_finished")
    assert finished["worker_id"] == "finisher"
    assert finished["input_data"] == {"operation": "complete", "lease_id": lease, "by": "hand"}


def test_complete_locked_job_takes_a_missing_trace_context_for_an_empty_one(conn: Connection) -> None:
    value(conn, "set_trace", p_enabled=True)
    submit(conn, "job")

    assert complete_locked(conn, "job", "READY", None, None) is True
    assert trace(conn, "job", "job_finished")["input_data"] == {"operation": "complete"}


def test_a_completion_has_its_effects_in_one_order_whatever_the_entry_point(conn: Connection) -> None:
    """Archive, release dependents, notify, trace: nothing later is done before what comes earlier."""
    submit(conn, "job")
    conn.execute("create table seen (what text)")
    watch = (
        "create function seen() returns trigger language plpgsql as"
        " $$ begin insert into public.seen select tg_argv[0]; return null; end $$;"
        "create trigger a after insert on holdfast.archived_jobs"
        " for each row execute function seen('archive');"
        "create trigger b after update on holdfast.jobs for each row execute function seen('release');"
        "create trigger c after insert on holdfast.jobs_trace for each row execute function seen('trace');"
    )
    endings: dict[str, Callable[[str], object]] = {
        "complete_job": lambda lease: call(
            conn, "complete_job", p_job_id="job", p_lease_id=lease, p_worker_id="w"
        ),
        "settle_jobs": lambda lease: settle(conn, "job", "complete", lease),
        "cancelled late": lambda lease: settle(conn, "job", "stop", lease),
    }
    value(conn, "set_trace", p_enabled=True)
    submit(conn, "child", queue="later", p_wait_for=["job"], p_if_parent_fails="run")
    for finish in endings.values():
        conn.execute("begin")
        lease = claim_one(conn, "job")
        conn.execute(watch)
        finish(lease)
        order = column(conn, "select what from seen")
        conn.execute("rollback")

        assert order == ["archive", "release", "trace"]


def reschedule_locked(
    conn: Connection,
    job_id: str,
    *,
    lease: str | None,
    need: str = "q",
    wait_for: list[str] | None = None,
    singleton_key: str | None = None,
    available_at: object = None,
    context: object = None,
) -> Row:
    query = (
        f"select rewritten.* from {LOCKED} holdfast._reschedule_locked_job("
        "locked, 'rescheduler', %s, %s, %s, %s, %s) as rewritten"
    )
    wanted = "READY" if lease is None else "ACTIVE"
    (row,) = rows(
        conn,
        query,
        job_id,
        wanted,
        lease,
        need,
        wait_for or [],
        singleton_key,
        available_at,
        context or Jsonb({}),
    )
    return row


def test_reschedule_locked_job_rewrites_the_job_clears_the_lease_and_answers_the_new_row(
    conn: Connection, clock: Clock
) -> None:
    now = clock.freeze()
    lease = submit_and_claim(conn, "job", p_singleton_key="k")
    submit_many(conn, ["a", "b"], queue="elsewhere")

    rewritten = reschedule_locked(
        conn,
        "job",
        lease=lease,
        need="paint",
        wait_for=["b", "a", "b"],
        available_at=now + timedelta(hours=1),
    )

    assert rewritten == {
        "job_id": "job",
        "next_need": "paint",
        "wait_for": ["b", "a"],
        "available_at": now + timedelta(hours=1),
    }
    found = job(conn, "job")
    assert (found["state"], found["lease_id"], found["lease_expires_at"]) == ("RESCHEDULED", None, None)
    assert rows(conn, "select from holdfast.holds") == []


def test_reschedule_locked_job_without_a_time_means_now(conn: Connection, clock: Clock) -> None:
    lease = submit_and_claim(conn, "job")
    clock.freeze()
    now = clock.advance(5)

    assert reschedule_locked(conn, "job", lease=lease)["available_at"] == now


def test_reschedule_locked_job_keeps_the_key_when_none_is_given_and_refuses_another(
    conn: Connection,
) -> None:
    lease = submit_and_claim(conn, "job", p_singleton_key="k")
    before = contents(conn)

    error = refusal(lambda: reschedule_locked(conn, "job", lease=lease, singleton_key="other"))
    assert error.sqlstate == "22023"
    assert "singleton key 'k', which no reschedule changes" in str(error)
    assert contents(conn) == before

    reschedule_locked(conn, "job", lease=lease)
    assert job(conn, "job")["singleton_key"] == "k"


def test_reschedule_locked_job_signals_after_every_rewrite_even_when_the_job_is_not_due(
    conn: Connection, clock: Clock
) -> None:
    listen(conn, "q", "paint")
    submit(conn, "parent", queue="elsewhere")
    later = clock.now() + timedelta(hours=1)
    for number, more in enumerate([{}, {"available_at": later}, {"wait_for": ["parent"]}]):
        lease = submit_and_claim(conn, f"job-{number}")
        signals(conn)
        reschedule_locked(conn, f"job-{number}", lease=lease, need="paint", **more)  # type: ignore[arg-type]

        assert signals(conn) == [("holdfast.need.paint", f"job-{number}")]


def test_reschedule_locked_job_traces_with_the_callers_context(conn: Connection) -> None:
    lease = submit_and_claim(conn, "job")
    reschedule_locked(conn, "job", lease=lease, context=Jsonb({"reason": "rain", "who": "me"}))

    traced = trace(conn, "job", "reschedule_job")
    assert traced["worker_id"] == "rescheduler"
    assert traced["input_data"] == {
        "operation": "reschedule",
        "lease_id": lease,
        "reason": "rain",
        "who": "me",
    }


def test_reschedule_locked_job_leaves_an_unheld_job_in_its_waiting_state(conn: Connection) -> None:
    submit(conn, "job")

    reschedule_locked(conn, "job", lease=None, need="paint")

    found = job(conn, "job")
    assert (found["state"], found["next_need"]) == ("INITIAL_PENDING", "paint")


def test_normalize_wait_for_drops_nulls_repetitions_and_completed_jobs_and_keeps_the_order(
    conn: Connection,
) -> None:
    settle(conn, "done", "complete", submit_and_claim(conn, "done"))
    submit_many(conn, ["a", "b", "c"])

    assert value(conn, "normalize_wait_for", p_wait_for=["c", None, "done", "a", "c", "b"]) == ["c", "a", "b"]
    assert value(conn, "normalize_wait_for", p_wait_for=[]) == []
    assert value(conn, "normalize_wait_for", p_wait_for=None) == []


def test_every_leased_function_answers_as_the_specification_says(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    submitted = submit(conn, "job", queue="cut", p_payload=Jsonb({"n": 1}))
    assert submitted == {
        "job_id": "job",
        "next_need": "cut",
        "wait_for": [],
        "payload": {"n": 1},
        "available_at": now,
    }

    (leased,) = call(conn, "get_work", p_worker_id="w", p_worker_caps=["cut"], p_lease_seconds=60)
    lease = leased.pop("lease_id")
    assert leased == {
        "job_id": "job",
        "next_need": "cut",
        "singleton_key": None,
        "wait_for": [],
        "payload": {"n": 1},
        "available_at": now,
        "lease_expires_at": now + timedelta(seconds=60),
    }

    held = {"p_job_id": "job", "p_lease_id": lease, "p_worker_id": "w"}
    until = value(conn, "extend_lease", **held, p_additional_seconds=90)
    assert until == now + timedelta(seconds=90)
    assert value(conn, "extend_lease", **held, p_additional_seconds=1) == until  # never shorter

    (rescheduled,) = call(conn, "reschedule_job", **held, p_next_need="paint", p_payload=Jsonb({"n": 2}))
    assert rescheduled == {"job_id": "job", "next_need": "paint", "wait_for": [], "available_at": now}
    assert job(conn, "job")["payload"] == {"n": 2}

    held["p_lease_id"] = claim_one(conn, "job", queue="paint")
    assert value(conn, "complete_job", **held) is True
    assert state(conn, "job") == "COMPLETED"


def test_the_defaults_of_the_signatures_are_those_of_the_specification(
    conn: Connection, clock: Clock
) -> None:
    now = clock.freeze()
    call(conn, "submit_job", p_job_id="job", p_worker_id="w", p_next_need="q")
    (leased,) = call(conn, "get_work", p_worker_id="w", p_worker_caps=["q"])

    assert (leased["payload"], leased["lease_expires_at"]) == ({}, now + timedelta(seconds=60))


def test_a_job_nobody_holds_can_be_completed_or_moved_without_a_lease(conn: Connection) -> None:
    value(conn, "set_trace", p_enabled=True)
    submit_many(conn, ["done", "moved"])

    assert value(conn, "complete_unheld_job", p_job_id="done", p_worker_id="person") is True
    (moved,) = call(
        conn, "reschedule_unheld_job", p_job_id="moved", p_worker_id="person", p_next_need="paint"
    )

    assert state(conn, "done") == "COMPLETED"
    assert (moved["next_need"], state(conn, "moved")) == ("paint", "INITIAL_PENDING")
    for job_id, event in [("done", "job_finished"), ("moved", "reschedule_job")]:
        assert trace(conn, job_id, event)["input_data"]["note"] == "without lease"


def test_a_job_somebody_holds_or_that_is_blocked_is_not_unheld(conn: Connection) -> None:
    submit_and_claim(conn, "held")
    submit(conn, "child", p_wait_for=["held"])
    submit(conn, "later", p_delay=60)
    before = contents(conn)

    for job_id in ("held", "child", "later"):
        for function, more in [
            ("complete_unheld_job", {}),
            ("reschedule_unheld_job", {"p_next_need": "q"}),
        ]:
            error = refusal(call, conn, function, p_job_id=job_id, p_worker_id="w", **more)
            assert error.sqlstate == WRONG_STATE
            assert job_id in str(error)

    assert contents(conn) == before


def test_completing_an_unheld_job_sweeps_its_overdue_lease_first(conn: Connection, clock: Clock) -> None:
    submit_and_claim(conn, "job", p_singleton_key="k")
    clock.advance(31)

    assert value(conn, "complete_unheld_job", p_job_id="job", p_worker_id="person") is True
    found = job(conn, "job")
    assert (found["state"], found["lease_expiration_count"]) == ("COMPLETED", 1)
    assert "lease_expired" in events(conn, "job")
