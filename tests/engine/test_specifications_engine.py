"""Statements of the specifications about the engine that no other test holds, grouped by theme."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from time import perf_counter

import pytest
from psycopg.types.json import Jsonb

from tests.clock import Clock
from tests.conftest import Connect
from tests.engine.sql import (
    Connection,
    Row,
    call,
    claim,
    claim_one,
    column,
    contents,
    job,
    refusal,
    settle,
    state,
    states,
    submit,
    submit_and_claim,
    submit_many,
    value,
)

INVALID = "22023"


def ids(found: list[Row]) -> list[str]:
    return [row["job_id"] for row in found]


# Conventions and moments


def test_every_column_is_written_in_snake_case(conn: Connection) -> None:
    odd = column(
        conn,
        "select attname from pg_attribute join pg_class on pg_class.oid = attrelid"
        " where relnamespace = 'holdfast'::regnamespace and attnum > 0 and attname !~ '^[a-z]+(_[a-z]+)*$'",
    )

    assert odd == []


def test_moments_are_absolute_whatever_the_time_zone_of_a_session(conn: Connection, connect: Connect) -> None:
    due = datetime(2040, 7, 1, 12, tzinfo=UTC)
    far_away = connect()
    far_away.execute("set time zone 'Asia/Tokyo'")
    submit(far_away, "job", p_available_at=due)
    due_then = "select name from holdfast.jobs where available_at = '2040-07-01 12:00+00'"

    assert job(conn, "job")["available_at"] == job(far_away, "job")["available_at"] == due
    assert column(conn, due_then) == column(far_away, due_then) == ["job"]
    zoneless = "select column_name from information_schema.columns where table_schema = 'holdfast'"
    assert column(conn, f"{zoneless} and data_type = 'timestamp without time zone'") == []


# Claiming (seeds 001, 002 and 003)


def test_a_claim_lasts_as_long_as_its_caller_says(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    submit_many(conn, ["a", "b"])

    (first,) = claim(conn, p_lease_seconds=7)
    (second,) = claim(conn, p_lease_seconds=0.5)

    moments = [row["lease_expires_at"] for row in (first, second)]
    assert moments == [now + timedelta(seconds=7), now + timedelta(seconds=0.5)]


def test_a_job_whose_worker_vanished_is_taken_by_another_once_its_lock_is_too_old(
    conn: Connection, connect: Connect, clock: Clock
) -> None:
    clock.freeze()
    worker = connect()
    submit_and_claim(worker, "job", worker="one")
    (backend,) = column(worker, "select pg_backend_pid()")
    conn.execute("select pg_terminate_backend(%s, 5000)", [backend])

    clock.advance(29)
    assert claim(conn, worker="two") == []
    clock.advance(1)
    lease = claim_one(conn, "job", worker="two")

    assert settle(conn, "job", "complete", lease)["ok"]
    assert (state(conn, "job"), job(conn, "job")["attempts"]) == ("COMPLETED", 0)


def test_get_work_takes_only_what_the_worker_is_capable_of(conn: Connection) -> None:
    for need in ("cut", "paint", "pack"):
        submit(conn, need, queue=need)

    taken = call(conn, "get_work", p_worker_id="w", p_worker_caps=["paint", "pack"], p_limit_jobs=9)

    assert sorted(ids(taken)) == ["pack", "paint"]
    assert state(conn, "cut") == "INITIAL_PENDING"


TAGS = ["tag1", "tag2"]


@pytest.mark.parametrize(
    ("of_the_claim", "of_the_job", "matches"),
    [
        (TAGS, TAGS, True),
        (TAGS, ["tag1", "tag2", "tag3"], True),
        (TAGS, ["tag1"], False),
        ([], ["tag1"], True),
        ([], None, True),
        (TAGS, ["tag2", "tag1"], True),
        (TAGS, ["Tag1", "tag2"], False),
    ],
)
def test_a_job_matches_when_it_has_every_tag_of_the_claim(
    conn: Connection, of_the_claim: list[str], of_the_job: list[str] | None, matches: bool
) -> None:
    submit(conn, "job", p_tags=of_the_job)

    assert ids(claim(conn, p_tags=of_the_claim)) == (["job"] if matches else [])


# Submitting (seeds 002, 003 and 004)


def test_a_submitted_job_has_every_field_it_was_given(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    submit(conn, "parent", queue="elsewhere")
    submitted = submit(
        conn,
        "job",
        queue="mail",
        p_wait_for=["parent"],
        p_payload=Jsonb({"to": ["a", 1.5, None]}),
        p_singleton_key="k",
        p_available_at=now + timedelta(minutes=1),
        p_expires_at=now + timedelta(days=1),
        p_task="mail.send",
        p_priority=7,
        p_tags=["b", "a"],
        p_resource_keys=["r2", "r1"],
        p_max_attempts=3,
        p_if_parent_fails="run",
        p_timeout=12.5,
        p_retry=Jsonb({"base_s": 1}),
        p_created_at=now - timedelta(days=1),
    )

    assert submitted["job_id"] == "job"
    expected = {
        "job_id": "job",
        "next_need": "mail",
        "state": "INITIAL_PENDING",
        "wait_for": ["parent"],
        "payload": {"to": ["a", 1.5, None]},
        "singleton_key": "k",
        "available_at": now + timedelta(minutes=1),
        "expires_at": now + timedelta(days=1),
        "task": "mail.send",
        "priority": 7,
        "tags": ["b", "a"],
        "resource_keys": ["r2", "r1"],
        "max_attempts": 3,
        "if_parent_fails": "run",
        "timeout_s": 12.5,
        "retry": {"base_s": 1},
        "created_at": now - timedelta(days=1),
        "attempts": 0,
    }
    found = job(conn, "job")
    assert {name: found[name] for name in expected} == expected


def test_a_job_without_further_word_is_created_now_due_now_and_has_no_tags(
    conn: Connection, clock: Clock
) -> None:
    now = clock.freeze()
    submit(conn, "job")

    found = job(conn, "job")
    assert (found["state"], found["created_at"], found["available_at"]) == ("INITIAL_PENDING", now, now)
    assert (found["tags"], found["assignee_id"], found["lease_id"]) == ([], None, None)


def test_a_batch_answers_its_ids_in_the_order_given_and_every_job_waits(conn: Connection) -> None:
    names = ["c", "a", "d", "b"]

    assert submit_many(conn, names) == names
    assert states(conn, *names) == ["INITIAL_PENDING"] * 4
    generated = ids(call(conn, "submit_jobs", p_queues=["q"] * 3))
    assert ids(claim(conn, limit=9)) == names + generated


def test_a_batch_of_none_is_no_error(conn: Connection) -> None:
    before = contents(conn)

    assert call(conn, "submit_jobs", p_job_ids=[]) == []
    assert contents(conn) == before


def test_many_may_submit_at_once(conn: Connection, database: str, connect: Connect) -> None:
    def submit_own(number: int) -> list[str]:
        own = connections[number]
        return [submit(own, f"{number}-{place}")["job_id"] for place in range(25)]

    connections = [connect(database) for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:
        submitted = [job_id for own in threads.map(submit_own, range(6)) for job_id in own]

    assert sorted(submitted) == sorted(column(conn, "select name from holdfast.jobs"))
    assert len(submitted) == 150


def test_a_batch_is_cheaper_than_a_call_for_each_job(conn: Connection) -> None:
    def seconds(prefix: str, size: int) -> float:
        names = [f"{prefix} {number}" for number in range(400)]
        started = perf_counter()
        for place in range(0, 400, size):
            submit_many(conn, names[place : place + size])
        return perf_counter() - started

    assert seconds("together", 400) < seconds("alone", 1)


# Stopping (seed 004)


@pytest.mark.parametrize(
    ("function", "ends"), [("stop_job", "STOPPED"), ("mark_job_unknown_stopped", "UNKNOWN_STOPPED")]
)
@pytest.mark.parametrize("message", ["enough", ""])
def test_a_stopped_job_keeps_the_message_which_may_be_empty_and_the_moment(
    conn: Connection, clock: Clock, function: str, ends: str, message: str
) -> None:
    submit_and_claim(conn, "job")
    clock.freeze()
    now = clock.advance(5)

    assert value(conn, function, p_job_id="job", p_error=message) == ends

    found = job(conn, "job")
    assert (found["state"], found["error_message"], found["finalized_at"]) == (ends, message, now)


# Cancelling (seed 004)


def test_a_cancelling_job_waits_for_its_workers_word(conn: Connection, clock: Clock) -> None:
    clock.freeze()
    lease = submit_and_claim(conn, "job")
    call(conn, "cancel_jobs", p_job_ids=["job"])
    clock.advance(10)
    assert (state(conn, "job"), claim(conn)) == ("CANCELLING", [])

    acknowledged = value(
        conn, "acknowledge_cancellation", p_job_id="job", p_was_executing=True, p_lease_id=lease
    )

    assert (acknowledged, job(conn, "job")["finalized_at"]) == ("STOPPED", clock.now())


# Workers that are gone (seed 004)


def three_held_jobs(conn: Connection) -> list[Row]:
    """Two of one worker, one of them being cancelled, and one of another."""
    for name, worker in [("running", "gone"), ("cancelling", "gone"), ("other", "alive")]:
        submit_and_claim(conn, name, queue=name, worker=worker)
    call(conn, "cancel_jobs", p_job_ids=["cancelling"])
    return [job(conn, name) for name in ("running", "cancelling", "other")]


def test_a_reset_takes_every_held_job_from_its_worker(conn: Connection) -> None:
    before = three_held_jobs(conn)

    assert value(conn, "reset_running_jobs") == 3

    assert states(conn, "running", "cancelling", "other") == [
        *("UNKNOWN_RETRY", "UNKNOWN_STOPPED", "UNKNOWN_RETRY")
    ]
    for held in before:
        released = job(conn, held["job_id"])
        for name in ("assignee_id", "assigned_at"):
            assert released[name] == held[name] is not None


def test_a_reset_that_rolls_back_has_changed_no_job(conn: Connection) -> None:
    three_held_jobs(conn)
    before = contents(conn)
    conn.execute("begin")
    value(conn, "reset_running_jobs")
    conn.execute("rollback")

    assert contents(conn) == before


# Reading (seed 004)


def test_the_transitions_and_the_assignment_of_a_job_are_seen_by_reading_it(conn: Connection) -> None:
    submit(conn, "job")
    seen = [(state(conn, "job"), job(conn, "job")["assignee_id"])]
    lease = claim_one(conn, "job", worker="alice")
    seen.append((state(conn, "job"), job(conn, "job")["assignee_id"]))
    settle(conn, "job", "complete", lease)
    seen.append((state(conn, "job"), job(conn, "job")["assignee_id"]))

    assert seen == [("INITIAL_PENDING", None), ("RUNNING", "alice"), ("COMPLETED", "alice")]


def test_reading_changes_nothing(conn: Connection) -> None:
    submit_and_claim(conn, "live", p_tags=["t"])
    settle(conn, "done", "complete", submit_and_claim(conn, "done", queue="d", p_tags=["t"]))
    before = contents(conn)

    assert states(conn, "live", "done") == ["RUNNING", "COMPLETED"]
    call(conn, "get_job_stats", p_tags=["t"])
    call(conn, "list_dead_jobs")
    call(conn, "list_stuck_jobs", p_stale_seconds=1)

    assert contents(conn) == before


# Removing (seed 004)


def test_what_was_cleaned_up_is_gone_from_reads_and_counts(conn: Connection, clock: Clock) -> None:
    settle(conn, "old", "complete", submit_and_claim(conn, "old", p_tags=["t"]))
    clock.advance(60)
    settle(conn, "young", "complete", submit_and_claim(conn, "young", p_tags=["t"]))

    assert value(conn, "cleanup_expired_jobs", p_ttl_seconds=30) == 1

    assert call(conn, "get_job", p_job_id="old") == []
    assert call(conn, "get_job_stats", p_tags=["t"])[0]["completed_jobs"] == 1


def test_delete_jobs_deletes_tagged_and_named_ones_together(conn: Connection) -> None:
    tagged: dict[str, list[str]] = {"a": ["x", "y"], "b": ["x"], "c": [], "d": []}
    for name, tags in tagged.items():
        settle(conn, name, "complete", submit_and_claim(conn, name, p_tags=tags))

    assert value(conn, "delete_jobs", p_tags=["y", "x"], p_job_ids=["c", "nobody"]) == 2

    assert sorted(column(conn, "select job_id from holdfast.job_details")) == ["b", "d"]
    assert call(conn, "get_job", p_job_id="a") == []
    assert call(conn, "get_job_stats")[0]["total_jobs"] == 2


# One pipeline (seed 003)

BUILT_ON = {
    "extend_lease": {"_lock_job_for_status", "_emit_trace_event"},
    "reschedule_job": {"_lock_job_for_status", "_reschedule_locked_job"},
    "complete_job": {"_lock_job_for_status", "_complete_locked_job"},
    "reschedule_unheld_job": {"_lock_unheld_job", "_reschedule_locked_job"},
    "complete_unheld_job": {"_lock_unheld_job", "_complete_locked_job"},
    "_lock_job_for_status": {"_lock_job"},
    "_lock_unheld_job": {"_lock_live_job"},
    "_lock_live_job": {"_lock_job"},
    "_complete_locked_job": {"_finish_locked_jobs"},
    "_finish_locked_jobs": {
        "_archive_and_delete_jobs",
        "_update_waiters",
        "_notify_needs",
        "_trace_finished",
    },
    "_archive_and_delete_job": {"_archive_and_delete_jobs"},
    "_update_waiters_for_completion": {"_update_waiters", "_notify_needs"},
    "_reschedule_locked_job": {"_set_waits", "_hand_back_locked_jobs", "_notify_needs"},
    "_set_waits": {"_lock_parents"},
    "_attach_children": {"_lock_parents"},
    "normalize_wait_for": {"_lock_parents"},
}
PUBLIC = [name for name in BUILT_ON if not name.startswith("_")]


def source_of(conn: Connection, function: str) -> str:
    query = "select prosrc from pg_proc where pronamespace = 'holdfast'::regnamespace and proname = %s"
    (source,) = column(conn, query, function)
    assert isinstance(source, str)
    return source


@pytest.mark.parametrize("function", BUILT_ON)
def test_a_function_is_built_on_its_helpers(conn: Connection, function: str) -> None:
    source = source_of(conn, function)

    assert {helper for helper in BUILT_ON[function] if f"{helper}(" not in source} == set()


@pytest.mark.parametrize("function", PUBLIC)
def test_no_public_function_of_a_lease_locks_archives_or_signals_by_itself(
    conn: Connection, function: str
) -> None:
    source = source_of(conn, function).lower()

    assert [
        word for word in ("for update", "archived_jobs", "pg_notify", "jobs_trace") if word in source
    ] == []


def test_normalize_wait_for_refuses_an_unknown_id(conn: Connection) -> None:
    submit(conn, "known")

    error = refusal(call, conn, "normalize_wait_for", p_wait_for=["known", "nobody"])

    assert (error.sqlstate, '"nobody"' in str(error)) == (INVALID, True)


HELPERS = [
    "_lock_job_for_status",
    "_emit_trace_event",
    "_notify_need",
    "_archive_and_delete_job",
    "_update_waiters_for_completion",
    "_complete_locked_job",
    "_reschedule_locked_job",
]


@pytest.mark.parametrize("role", ["public", "producer", "worker", "viewer", "admin"])
def test_no_role_but_the_owner_may_call_a_helper(conn: Connection, role: str) -> None:
    name = "public" if role == "public" else f"holdfast_{role}"
    query = (
        "select proname from pg_proc where pronamespace = 'holdfast'::regnamespace"
        " and proname = any (%s) and has_function_privilege(%s, oid, 'execute')"
    )

    assert column(conn, query, HELPERS, name) == []
