"""Jobs that are claimed with many others stay in line while they are held; only the cost tells.

What holds of every claim is tested for both kinds in `tests/concurrency`; here is what tells them apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime

import pytest

from holdfast.engine import installer
from holdfast.engine.source import Source, shipped
from tests.clock import Clock
from tests.concurrency.sessions import Session
from tests.conftest import Connect
from tests.engine.sql import (
    Connection,
    Rows,
    call,
    claim,
    column,
    job,
    rows,
    settle,
    state,
    status,
    submit,
    submit_many,
    value,
)

MANY = 20
NAMES = [f"job {number:02}" for number in range(MANY)]
LOOK_S = 5


@pytest.fixture
def session(database: str, connect: Connect, conn: Connection) -> Session:
    return Session(connect(database), conn)


def claim_many(conn: Connection, *, p_lease_seconds: float = 30, p_stream_id: int | None = None) -> Rows:
    submit_many(conn, NAMES)
    claimed = claim(conn, limit=MANY, p_lease_seconds=p_lease_seconds, p_stream_id=p_stream_id)
    assert [row["job_id"] for row in claimed] == NAMES
    return claimed


def complete(conn: Connection, claimed: Rows) -> None:
    call(
        conn,
        "settle_jobs",
        p_job_ids=[row["job_id"] for row in claimed],
        p_operations=["complete"] * len(claimed),
        p_lease_ids=[row["lease_id"] for row in claimed],
    )


def in_line(conn: Connection) -> list[str]:
    """The held jobs that have not left the line."""
    return column(
        conn,
        "select job_id from holdfast.jobs_with_status shown join holdfast.jobs job on job.id = shown.number"
        " where job.state in ('RUNNING', 'CANCELLING') and job.lapses_at is null order by job.id",
    )


def named(conn: Connection) -> list[list[int]]:
    """The jobs that each claim names."""
    return column(conn, "select numbers from holdfast.claims order by id")


def held(conn: Connection, queue: str | None = None) -> set[int]:
    return {row["held_jobs"] for row in call(conn, "held_jobs", p_queue=queue)}


def numbers(claimed: Rows) -> list[int]:
    return [row["number"] for row in claimed]


# What it is for


def test_a_claim_of_many_needs_no_entry_in_any_index(conn: Connection) -> None:
    submit_many(conn, [*NAMES, "alone"])

    def counts() -> Counter[str]:
        counted = "select n_tup_upd, n_tup_hot_upd from pg_stat_xact_user_tables where relname = 'jobs'"
        return Counter(*rows(conn, counted))

    def heap_only(limit: int) -> tuple[int, int]:
        """How many rows a claim changes, and how many of those without a word to any index."""
        with conn.transaction():
            before = counts()
            claim(conn, limit=limit)
            after = counts()
        return after["n_tup_upd"] - before["n_tup_upd"], after["n_tup_hot_upd"] - before["n_tup_hot_upd"]

    assert heap_only(MANY) == (MANY, MANY)
    assert heap_only(1) == (1, 0)


def test_one_row_names_all_jobs_of_a_claim(conn: Connection) -> None:
    claimed = claim_many(conn)

    assert named(conn) == [numbers(claimed)]
    assert in_line(conn) == NAMES


def test_no_time_goes_into_compressing_what_a_claim_writes_down(conn: Connection) -> None:
    submit_many(conn, [f"job {number}" for number in range(1000)])
    claim(conn, limit=1000)
    assert rows(
        conn,
        "select pg_column_size(numbers) > 8000 as whole, pg_column_compression(numbers) from holdfast.claims",
    ) == [{"whole": True, "pg_column_compression": None}]


@pytest.mark.parametrize("how", ["few", "two queues", "a limit"])
def test_jobs_claimed_otherwise_leave_the_line_at_once(conn: Connection, how: str) -> None:
    submit_many(conn, NAMES)
    if how == "a limit":
        call(conn, "set_queue_limit", p_queue="q", p_limit=100)
    most = MANY - 1 if how == "few" else MANY
    queues = ["q", "other"] if how == "two queues" else ["q"]

    assert len(call(conn, "claim_jobs", p_worker_id="w", p_queues=queues, p_limit=most)) == most

    assert (in_line(conn), named(conn)) == ([], [])


def test_a_job_leaves_the_line_when_its_lease_is_extended(conn: Connection) -> None:
    claimed = claim_many(conn)
    first, second = claimed[:2]
    call(conn, "extend_leases", p_job_ids=[first["job_id"]], p_lease_ids=[first["lease_id"]], p_seconds=60)
    call(conn, "extend_lease", p_job_id=second["job_id"], p_lease_id=second["lease_id"], p_worker_id="w")

    assert in_line(conn) == NAMES[2:]
    assert held(conn) == set(numbers(claimed))


# Nobody takes them, and everybody finds them


def test_a_claim_steps_over_what_is_held_in_line(conn: Connection) -> None:
    claim_many(conn)
    submit(conn, "behind")

    assert [row["job_id"] for row in claim(conn, worker="other", limit=MANY)] == ["behind"]
    assert claim(conn, worker="other", limit=MANY) == []


def test_what_is_held_in_line_is_neither_due_nor_first(conn: Connection) -> None:
    claim_many(conn)
    submit(conn, "behind", p_delay=60)

    (found,) = call(conn, "get_queue_stats")
    assert (found["due_jobs"], found["delayed_jobs"], found["held_jobs"]) == (0, 1, MANY)
    assert found["oldest_due_at"] is None
    assert status(conn, NAMES[0]) == "ACTIVE"


def test_held_jobs_are_those_in_line_and_those_that_left_it(conn: Connection) -> None:
    claimed = claim_many(conn)
    submit(conn, "alone", "elsewhere")
    (alone,) = claim(conn, "elsewhere")
    complete(conn, claimed[:5])

    assert held(conn) == {*numbers(claimed[5:]), alone["number"]}
    assert held(conn, "elsewhere") == {alone["number"]}
    assert held(conn, "q") == set(numbers(claimed[5:]))


def test_a_job_that_two_claims_name_is_held_once(conn: Connection) -> None:
    for row in claim_many(conn):
        settle(conn, row["job_id"], "reschedule", row["lease_id"])
    again = claim(conn, limit=MANY)

    assert len(named(conn)) == 2
    (found,) = call(conn, "get_queue_stats")
    assert (found["held_jobs"], len(held(conn))) == (MANY, MANY) == (len(again), MANY)


def test_a_stream_learns_what_it_holds_in_line(conn: Connection) -> None:
    claimed = claim_many(conn, p_stream_id=7)
    complete(conn, claimed[:3])

    assert call(conn, "jobs_of_stream", p_stream_id=7) == claimed[3:]


def test_what_a_worker_holds_in_line_is_released_with_it(conn: Connection) -> None:
    claim_many(conn)

    assert value(conn, "mark_worker_unresponsive", p_worker_id="w") == MANY
    assert {state(conn, name) for name in NAMES} == {"UNKNOWN_RETRY"}


def test_what_is_held_in_line_is_reset_with_all_else(conn: Connection) -> None:
    claim_many(conn)
    submit(conn, "alone")
    claim(conn)

    assert value(conn, "reset_running_jobs") == MANY + 1


def test_stuck_jobs_are_found_in_line(conn: Connection, clock: Clock) -> None:
    claim_many(conn, p_lease_seconds=600)
    clock.advance(60)

    found = call(conn, "list_stuck_jobs", p_stale_seconds=30)
    assert [row["job_id"] for row in found] == NAMES


def test_a_limit_counts_what_was_held_in_line_before_it_was_set(conn: Connection) -> None:
    claimed = claim_many(conn)
    submit_many(conn, ["a", "b"])
    call(conn, "set_queue_limit", p_queue="q", p_limit=MANY)

    assert claim(conn) == []
    complete(conn, claimed[:1])
    assert [row["job_id"] for row in claim(conn, limit=2)] == ["a"]


# Their leases end


def test_a_lease_held_in_line_lapses_and_the_job_is_claimed_anew(conn: Connection, clock: Clock) -> None:
    claimed = claim_many(conn, p_lease_seconds=30)
    complete(conn, claimed[:15])
    clock.advance(30)

    again = claim(conn, worker="other", limit=MANY)

    assert [row["job_id"] for row in again] == NAMES[15:]
    assert {job(conn, name)["lease_expiration_count"] for name in NAMES[15:]} == {1}
    verdict = settle(conn, NAMES[15], "complete", claimed[15]["lease_id"])
    assert (verdict["ok"], verdict["reason"]) == (False, "lease_lost")


def test_leases_held_in_line_are_swept_by_claims_of_any_queue(conn: Connection, clock: Clock) -> None:
    claim_many(conn, p_lease_seconds=30)
    clock.advance(30)

    assert call(conn, "get_work", p_worker_id="other", p_worker_caps=["elsewhere"]) == []
    assert {state(conn, name) for name in NAMES} == {"UNKNOWN_RETRY"}
    assert named(conn) == []


def test_a_cancelled_job_whose_lease_ends_in_line_is_stopped(conn: Connection, clock: Clock) -> None:
    claim_many(conn, p_lease_seconds=30)
    call(conn, "cancel_job", p_job_id=NAMES[3], p_worker_id="me")
    assert in_line(conn) == NAMES
    clock.advance(30)

    assert len(call(conn, "lapse_leases")) == MANY
    assert state(conn, NAMES[3]) == "UNKNOWN_STOPPED"


def test_more_leases_than_a_sweep_takes_are_left_for_the_next(conn: Connection, clock: Clock) -> None:
    claim_many(conn, p_lease_seconds=30)
    clock.advance(30)

    assert len(call(conn, "lapse_leases", p_limit=12)) == 12
    assert len(call(conn, "lapse_leases", p_limit=12)) == MANY - 12
    assert named(conn) == []


def test_the_next_moment_is_when_to_look_and_then_when_the_leases_end(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    claim_many(conn, p_lease_seconds=30)

    def next_due() -> float:
        due: datetime = value(conn, "next_due", p_queues=["q"])
        return (due - now).total_seconds()

    assert next_due() == LOOK_S
    clock.advance(LOOK_S)
    call(conn, "lapse_leases")
    assert next_due() == 30


def test_a_lease_shorter_than_the_first_look_is_looked_at_when_it_ends(
    conn: Connection, clock: Clock
) -> None:
    claim_many(conn, p_lease_seconds=2)
    clock.advance(2)

    assert len(call(conn, "lapse_leases")) == MANY


@pytest.mark.parametrize("which", ["in line", "out of it"])
def test_an_end_of_a_lease_that_somebody_moved_by_hand_counts(
    conn: Connection, clock: Clock, which: str
) -> None:
    if which == "in line":
        claim_many(conn, p_lease_seconds=600)
    else:
        submit(conn, "alone")
        claim(conn, p_lease_seconds=600)
    conn.execute("update holdfast.jobs set lease_expires_at = holdfast._clock()")
    clock.advance(LOOK_S if which == "in line" else 0)

    assert len(call(conn, "lapse_leases")) == (MANY if which == "in line" else 1)


@pytest.mark.parametrize("before", ["claim_jobs", "extend_leases", "extend_lease"])
def test_a_lease_moved_by_hand_counts_also_in_the_transaction_of_a_claim_or_an_extension(
    conn: Connection, clock: Clock, before: str
) -> None:
    submit(conn, "alone")
    with conn.transaction():
        lease_id = claim(conn, p_lease_seconds=600)[0]["lease_id"]
        if before == "extend_leases":
            call(conn, before, p_job_ids=["alone"], p_lease_ids=[lease_id], p_seconds=60)
        elif before == "extend_lease":
            call(conn, before, p_job_id="alone", p_lease_id=lease_id, p_worker_id="w")
        conn.execute("update holdfast.jobs set lease_expires_at = holdfast._clock()")

    assert len(call(conn, "lapse_leases")) == 1


def test_only_whoever_moves_a_lease_by_hand_has_it_looked_for(conn: Connection) -> None:
    looked = "select calls from pg_stat_xact_user_functions where funcname = '_follow_lease'"
    with conn.transaction():
        conn.execute("set local track_functions = 'all'")
        claimed = claim_many(conn)
        first, second, *_ = claimed
        submit(conn, "alone")
        alone = claim(conn)[0]
        call(
            conn,
            "settle_and_claim",
            p_job_ids=[first["job_id"]],
            p_operations=["fail"],
            p_lease_ids=[first["lease_id"]],
            p_messages=["no"],
            p_worker_id="w",
            p_queues=["q"],
            p_limit=10,
        )
        submit(conn, "called")
        call(conn, "claim_waiting_job", p_job_id="called", p_worker_id="w", p_queues=["q"])
        call(conn, "extend_leases", p_job_ids=["alone"], p_lease_ids=[alone["lease_id"]], p_seconds=60)
        call(conn, "extend_lease", p_job_id="alone", p_lease_id=alone["lease_id"], p_worker_id="w")
        call(conn, "release_job", p_job_id=second["job_id"])
        assert column(conn, looked) == []

        conn.execute("update holdfast.jobs set lease_expires_at = holdfast._clock()")
        assert column(conn, looked) == [1]


# Claims are forgotten, and never too soon


def test_a_claim_whose_jobs_have_ended_is_forgotten(conn: Connection, clock: Clock) -> None:
    complete(conn, claim_many(conn, p_lease_seconds=30))
    assert len(named(conn)) == 1
    clock.advance(LOOK_S)

    call(conn, "lapse_leases")

    assert named(conn) == []


def test_what_is_still_held_after_a_few_seconds_leaves_the_line(conn: Connection, clock: Clock) -> None:
    claimed = claim_many(conn, p_lease_seconds=30)
    complete(conn, claimed[:18])
    clock.advance(LOOK_S)

    call(conn, "lapse_leases")

    assert (in_line(conn), named(conn)) == ([], [])
    assert held(conn) == set(numbers(claimed[18:]))
    clock.advance(30 - LOOK_S)
    assert [row["job_id"] for row in call(conn, "lapse_leases")] == NAMES[18:]


def test_a_job_that_somebody_holds_locked_leaves_the_line_later(
    conn: Connection, clock: Clock, session: Session
) -> None:
    claimed = claim_many(conn, p_lease_seconds=30)
    clock.advance(LOOK_S)
    session.begin()
    session.conn.execute("select from holdfast.jobs where name = %s for update", [NAMES[7]])

    call(conn, "lapse_leases")
    assert (in_line(conn), named(conn)) == ([NAMES[7]], [numbers(claimed)])
    session.commit()

    call(conn, "lapse_leases")
    assert (in_line(conn), named(conn)) == ([], [])
    session.finish()


def test_a_job_that_somebody_holds_locked_when_its_lease_ends_lapses_later(
    conn: Connection, clock: Clock, session: Session
) -> None:
    claim_many(conn, p_lease_seconds=30)
    clock.advance(30)
    session.begin()
    session.conn.execute("select from holdfast.jobs where name = %s for update", [NAMES[7]])

    assert len(call(conn, "lapse_leases")) == MANY - 1
    assert state(conn, NAMES[7]) == "RUNNING"
    session.commit()

    assert [row["job_id"] for row in call(conn, "lapse_leases")] == [NAMES[7]]
    assert named(conn) == []
    session.finish()


def test_a_claim_is_kept_for_a_locked_job_when_all_leases_that_ended_are_dealt_with(
    conn: Connection, clock: Clock, session: Session
) -> None:
    claimed = claim_many(conn, p_lease_seconds=30)
    conn.execute("update holdfast.jobs set lease_expires_at = holdfast._clock() where name <> %s", [NAMES[7]])
    clock.advance(LOOK_S)
    session.begin()
    session.conn.execute("select from holdfast.jobs where name = %s for update", [NAMES[7]])

    assert len(call(conn, "lapse_leases")) == MANY - 1
    assert (in_line(conn), named(conn)) == ([NAMES[7]], [numbers(claimed)])
    session.rollback()
    clock.advance(30)

    assert [row["job_id"] for row in call(conn, "lapse_leases")] == [NAMES[7]]
    session.finish()


def test_a_sweep_in_an_open_transaction_does_not_keep_others_from_what_it_left(
    conn: Connection, clock: Clock, session: Session
) -> None:
    claim_many(conn, p_lease_seconds=30)
    clock.advance(30)
    session.begin()
    assert len(session.call("lapse_leases", p_limit=5)) == 5

    conn.execute("set statement_timeout = '10s'")
    assert len(call(conn, "lapse_leases")) == MANY - 5
    session.rollback()

    assert len(call(conn, "lapse_leases")) == 5
    assert {state(conn, name) for name in NAMES} == {"UNKNOWN_RETRY"}
    session.finish()


def test_a_look_while_a_job_is_just_being_completed_and_the_completion_is_taken_back_loses_nothing(
    conn: Connection, clock: Clock, session: Session
) -> None:
    claimed = claim_many(conn, p_lease_seconds=30)
    session.begin()
    complete(session.conn, claimed)
    clock.advance(LOOK_S)
    call(conn, "lapse_leases")
    session.rollback()
    clock.advance(30)

    assert len(call(conn, "lapse_leases")) == MANY
    session.finish()


# What was installed before


def before_claims() -> Source:
    """What was installed before claims were written down, as far as it can be made of what is there now."""
    functions = tuple(file for file in shipped().functions if file.name < "40")
    return replace(shipped(), migrations=shipped().migrations[:6], functions=functions, release="0.0.1")


def test_jobs_held_and_dead_before_an_upgrade_are_what_they_were(
    blank_database: str, connect: Connect
) -> None:
    conn = connect(blank_database)
    conn.execute("set check_function_bodies = off")
    installer.install(conn, source=before_claims())
    conn.execute(
        "insert into holdfast.jobs (available_at, created_at, queue, name, state, lease_id, lease_expires_at,"
        " assignee_id, finalized_at) select now(), now(), 'q', name, state::holdfast.job_state,"
        " gen_random_uuid(), until, 'w', ended from (values"
        " ('held', 'RUNNING', now() + interval '1 hour', null::timestamptz),"
        " ('lapsed', 'RUNNING', now() - interval '1 hour', null),"
        " ('dead', 'DEAD', null, now()),"
        " ('waits', 'INITIAL_PENDING', null, null)) as old (name, state, until, ended)"
    )
    conn.execute("insert into holdfast.job_names select name, id from holdfast.jobs")

    assert installer.install(conn).applied[0].version == 7

    assert [row["job_id"] for row in call(conn, "lapse_leases")] == ["lapsed"]
    assert [row["job_id"] for row in call(conn, "list_dead_jobs")] == ["dead"]
    assert {row["job_id"] for row in claim(conn, limit=10)} == {"lapsed", "waits"}
    assert len(held(conn)) == 3
