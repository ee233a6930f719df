"""The queue API, as far as it is SQL: cancellation, statistics, maintenance, streams' slots."""

from __future__ import annotations

import pytest

from tests.clock import Clock
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
    rows,
    settle,
    state,
    states,
    submit,
    submit_and_claim,
    submit_many,
    value,
)


def cancelled(conn: Connection, **filters: object) -> dict[str, tuple[bool, str | None]]:
    answered = call(conn, "cancel_jobs", **filters)
    assert len({row["job_id"] for row in answered}) == len(answered)
    return {row["job_id"]: (row["cancelled"], row["state"]) for row in answered}


def test_cancel_jobs_answers_each_job_named_or_tagged_once_and_what_became_of_it(conn: Connection) -> None:
    submit(conn, "pending", p_tags=["x", "y"])
    submit_and_claim(conn, "running", queue="r", p_tags=["y", "x"])
    submit_and_claim(conn, "cancelling", queue="c")
    call(conn, "cancel_job", p_job_id="cancelling", p_worker_id="person")
    settle(conn, "failed", "fail", submit_and_claim(conn, "failed", queue="f"), p_messages=["boom"])
    settle(conn, "done", "complete", submit_and_claim(conn, "done", queue="d", p_tags=["x", "y"]))
    submit(conn, "half", p_tags=["x"])

    named = ["cancelling", "failed", "done", "nobody", "pending", "failed"]
    assert cancelled(conn, p_tags=["x", "y"], p_job_ids=named) == {
        "pending": (True, "UNSCHEDULED"),
        "running": (True, "CANCELLING"),
        "cancelling": (True, "CANCELLING"),
        "failed": (True, "STOPPED"),
        "done": (False, "COMPLETED"),
        "nobody": (False, None),
    }
    assert state(conn, "half") == "INITIAL_PENDING"


def test_cancel_jobs_of_unknown_ids_only_is_no_error(conn: Connection) -> None:
    assert cancelled(conn, p_job_ids=["a", "j7"]) == {"a": (False, None), "j7": (False, None)}
    assert cancelled(conn, p_tags=["nothing has this"]) == {}


def test_cancelling_twice_is_no_error_and_changes_nothing_the_second_time(conn: Connection) -> None:
    submit_and_claim(conn, "job")
    cancelled(conn, p_job_ids=["job"])
    before = contents(conn)

    assert cancelled(conn, p_job_ids=["job"]) == {"job": (True, "CANCELLING")}
    assert contents(conn) == before


def test_acknowledging_a_cancellation_says_whether_the_worker_was_executing(conn: Connection) -> None:
    for was_executing, ends in [(True, "STOPPED"), (False, "UNKNOWN_STOPPED")]:
        submit_and_claim(conn, ends, queue=ends)
        cancelled(conn, p_job_ids=[ends])
        answered = value(conn, "acknowledge_cancellation", p_job_id=ends, p_was_executing=was_executing)
        assert answered == state(conn, ends) == ends
        assert job(conn, ends)["finalized_at"] is not None


def forfeited(conn: Connection, job_id: str) -> int | None:
    (stream,) = column(
        conn, "select forfeited_stream_id from holdfast.jobs_archive where job_id = %s", job_id
    )
    assert stream is None or isinstance(stream, int)
    return stream


def test_a_slot_is_forfeited_only_when_the_job_was_not_executing_and_that_is_recorded(
    conn: Connection,
) -> None:
    for name, act in {
        "executing": lambda name: value(
            conn, "acknowledge_cancellation", p_job_id=name, p_was_executing=True
        ),
        "not executing": lambda name: value(
            conn, "acknowledge_cancellation", p_job_id=name, p_was_executing=False
        ),
        "stopped": lambda name: value(conn, "stop_job", p_job_id=name),
        "unknown": lambda name: value(conn, "mark_job_unknown_stopped", p_job_id=name),
        "completed": lambda name: settle(conn, name, "complete"),
    }.items():
        submit(conn, name, queue=name)
        claim_one(conn, name, queue=name, p_stream_id=7)
        cancelled(conn, p_job_ids=[name])
        act(name)  # type: ignore[no-untyped-call]

        assert forfeited(conn, name) == (7 if name == "not executing" else None)


def test_a_keeper_learns_that_its_slot_is_forfeited(conn: Connection) -> None:
    submit(conn, "job")
    lease = claim_one(conn, "job", p_stream_id=7)
    cancelled(conn, p_job_ids=["job"])
    value(conn, "acknowledge_cancellation", p_job_id="job", p_was_executing=False)

    (verdict,) = call(conn, "extend_leases", p_job_ids=["job"], p_lease_ids=[lease], p_seconds=9)
    assert (verdict["verdict"], verdict["slot_forfeited"]) == ("ended", True)


def test_undelivered_jobs_go_back_at_once_and_say_why(conn: Connection) -> None:
    leases = {name: submit_and_claim(conn, name, queue=name) for name in ("stream", "worker", "cancelled")}
    cancelled(conn, p_job_ids=["cancelled"])
    settle(conn, "stream", "undelivered", leases["stream"])
    settle(conn, "worker", "undelivered_to_worker", leases["worker"])
    settle(conn, "cancelled", "undelivered", leases["cancelled"])

    assert states(conn, "stream", "worker", "cancelled") == ["FAILED_RETRY", "RESCHEDULED", "STOPPED"]
    assert [job(conn, name)["attempts"] for name in leases] == [0, 0, 0]
    assert job(conn, "stream")["error_message"] == "the stream ended before it delivered this job"
    assert job(conn, "worker")["error_message"] is None


def test_an_unresponsive_workers_jobs_become_eligible_or_unknown_and_keep_its_name(
    conn: Connection, clock: Clock
) -> None:
    now = clock.freeze()
    for name in ("running", "cancelling"):
        submit_and_claim(conn, name, queue=name, worker="gone")
    submit_and_claim(conn, "other", queue="o", worker="here")
    cancelled(conn, p_job_ids=["cancelling"])

    assert value(conn, "mark_worker_unresponsive", p_worker_id="gone") == 2
    assert value(conn, "mark_worker_unresponsive", p_worker_id="never was") == 0

    assert states(conn, "running", "cancelling", "other") == ["UNKNOWN_RETRY", "UNKNOWN_STOPPED", "RUNNING"]
    for name in ("running", "cancelling"):
        found = job(conn, name)
        assert (found["assignee_id"], found["assigned_at"]) == ("gone", now)


def test_reset_running_jobs_releases_everything_held_and_is_no_error_when_nothing_is(
    conn: Connection,
) -> None:
    assert value(conn, "reset_running_jobs") == 0
    submit_and_claim(conn, "running", queue="r")
    submit_and_claim(conn, "cancelling", queue="c")
    cancelled(conn, p_job_ids=["cancelling"])
    submit(conn, "pending")

    assert value(conn, "reset_running_jobs") == 2
    assert states(conn, "running", "cancelling", "pending") == [
        "UNKNOWN_RETRY",
        "UNKNOWN_STOPPED",
        "INITIAL_PENDING",
    ]


def one_job_in_every_state(conn: Connection, clock: Clock, **more: object) -> None:
    """Eleven jobs, named by their state; one with two failed attempts, two with one."""
    submit(conn, "INITIAL_PENDING", queue="1", **more)
    submit(conn, "UNSCHEDULED", queue="2", **more)
    cancelled(conn, p_job_ids=["UNSCHEDULED"])

    def held(name: str, **extra: object) -> str:
        submit(conn, name, queue=name, **more, **extra)
        return claim_one(conn, name, queue=name, p_lease_seconds=3600)

    held("RUNNING")
    held("CANCELLING")
    cancelled(conn, p_job_ids=["CANCELLING"])
    settle(conn, "RESCHEDULED", "reschedule", held("RESCHEDULED"))
    settle(conn, "UNKNOWN_RETRY", "release", held("UNKNOWN_RETRY"))
    settle(conn, "COMPLETED", "fail", held("COMPLETED"), p_messages=["x"])
    settle(conn, "COMPLETED", "complete", claim_one(conn, "COMPLETED", queue="COMPLETED"))
    settle(conn, "STOPPED", "stop", held("STOPPED"))
    settle(conn, "UNKNOWN_STOPPED", "mark_unknown_stopped", held("UNKNOWN_STOPPED"))
    settle(conn, "FAILED_RETRY", "fail", held("FAILED_RETRY"), p_messages=["x"])
    settle(conn, "DEAD", "fail", held("DEAD", p_max_attempts=2), p_messages=["x"])
    settle(conn, "DEAD", "fail", claim_one(conn, "DEAD", queue="DEAD"), p_messages=["x"])


def test_the_statistics_count_every_state_once_and_add_up(conn: Connection, clock: Clock) -> None:
    one_job_in_every_state(conn, clock, p_tags=["t"])
    assert column(conn, "select count(distinct state) from holdfast.job_details") == [11]
    submit(conn, "untagged")

    def stats(**filters: object) -> Row:
        (row,) = call(conn, "get_job_stats", **filters)
        return row

    tagged = stats(p_tags=["t"])
    assert tagged == {
        "total_jobs": 11,
        "pending_jobs": 2,
        "running_jobs": 2,
        "completed_jobs": 1,
        "stopped_jobs": 3,
        "failed_jobs": 3,
        "total_retries": 4,
    }
    parts = [count for name, count in tagged.items() if name not in ("total_jobs", "total_retries")]
    assert sum(parts) == tagged["total_jobs"]
    assert stats()["total_jobs"] == stats(p_tags=[])["total_jobs"] == 12
    assert stats(p_tags=["t", "other"])["total_jobs"] == 0


def test_cleanup_deletes_completed_jobs_by_when_they_ended_and_nothing_else(
    conn: Connection, clock: Clock
) -> None:
    clock.freeze()
    one_job_in_every_state(conn, clock)
    lease = submit_and_claim(conn, "created early, ended late", queue="late")
    call(conn, "extend_leases", p_job_ids=["created early, ended late"], p_lease_ids=[lease], p_seconds=9999)
    clock.advance(60)
    settle(conn, "created early, ended late", "complete", lease)

    assert value(conn, "cleanup_expired_jobs", p_ttl_seconds=60) == 0  # older than, not as old as
    clock.advance(1)
    assert value(conn, "cleanup_expired_jobs", p_ttl_seconds=60) == 1

    left = column(conn, "select state::text from holdfast.job_details where job_id = state::text")
    assert sorted(left) == sorted(set(left))
    assert "COMPLETED" not in left
    assert len(left) == 10
    submit(conn, "COMPLETED")  # its id is free


def test_cleanup_takes_as_many_as_it_is_told(conn: Connection, clock: Clock) -> None:
    submit_many(conn, ["a", "b", "c"])
    for row in claim(conn, limit=3):
        settle(conn, row["job_id"], "complete", row["lease_id"])
    clock.advance(10)

    assert value(conn, "cleanup_expired_jobs", p_ttl_seconds=5, p_limit=2) == 2
    assert value(conn, "cleanup_expired_jobs", p_ttl_seconds=5, p_limit=2) == 1


def test_deleting_is_all_or_nothing(conn: Connection, clock: Clock) -> None:
    one_job_in_every_state(conn, clock, p_tags=["t"])
    before = contents(conn)

    error = refusal(value, conn, "delete_jobs", p_tags=["t"])
    assert error.sqlstate == "HF003"
    assert 'job "INITIAL_PENDING" is INITIAL_PENDING and not finished; nothing was deleted' in str(error)
    assert contents(conn) == before


def test_deleting_takes_finished_jobs_named_or_tagged_and_passes_over_unknown_ids(
    conn: Connection, clock: Clock
) -> None:
    one_job_in_every_state(conn, clock)
    finished = ["COMPLETED", "STOPPED", "UNSCHEDULED", "UNKNOWN_STOPPED", "DEAD"]

    assert value(conn, "delete_jobs", p_job_ids=[*finished, "nobody", "DEAD"]) == 5
    assert value(conn, "delete_jobs", p_job_ids=finished) == 0
    left = column(conn, "select job_id from holdfast.job_details")
    assert len(left) == 6
    assert not set(left) & set(finished)


def test_a_stream_claims_by_tags_and_its_jobs_are_marked_with_it(conn: Connection) -> None:
    submit(conn, "job", p_tags=["a", "b"])
    (claimed,) = claim(conn, p_tags=["a"], p_stream_id=7)

    assert claimed["tags"] == ["a", "b"]
    assert rows(conn, "select stream_id from holdfast.jobs") == [{"stream_id": 7}]


def test_an_owner_can_ask_what_its_stream_holds(conn: Connection) -> None:
    """For a claim whose answer was lost: nothing of it is held in vain until its lease ends."""
    submit_many(conn, "abcd")
    mine = claim(conn, limit=3, p_stream_id=7)
    claim(conn, p_stream_id=8)
    settle(conn, mine[0]["job_id"], "complete", mine[0]["lease_id"])
    call(conn, "cancel_job", p_job_id=mine[1]["job_id"], p_worker_id="person")

    assert call(conn, "jobs_of_stream", p_stream_id=7) == mine[1:]
    assert call(conn, "jobs_of_stream", p_stream_id=9) == []


def test_a_slot_that_a_later_holder_forfeited_is_not_lost_to_the_first(conn: Connection) -> None:
    first = submit_and_claim(conn, "job")
    call(conn, "release_job", p_job_id="job")
    second = claim_one(conn, "job", p_stream_id=8)
    call(conn, "cancel_job", p_job_id="job", p_worker_id="person")
    value(conn, "acknowledge_cancellation", p_job_id="job", p_was_executing=False)

    heard = call(conn, "extend_leases", p_job_ids=["job"] * 2, p_lease_ids=[first, second], p_seconds=60)
    assert [(row["verdict"], row["slot_forfeited"]) for row in heard] == [("taken", False), ("ended", True)]


def test_a_stream_hears_of_a_cancellation_at_once(conn: Connection) -> None:
    submit_and_claim(conn, "nobody's", queue="n")
    submit(conn, "streamed", queue="s")
    claim(conn, queue="s", p_stream_id=7)
    conn.execute('listen "holdfast.freed"')

    call(conn, "cancel_job", p_job_id="nobody's", p_worker_id="person")
    assert list(conn.notifies(timeout=0.2)) == []
    call(conn, "cancel_job", p_job_id="streamed", p_worker_id="person")
    assert [heard.channel for heard in conn.notifies(timeout=5, stop_after=1)] == ["holdfast.freed"]


def test_methods_without_a_lease_may_be_called_by_anybody(conn: Connection) -> None:
    """CompleteJob and FailJob carry no assignee: the queue does not know who calls them."""
    submit_and_claim(conn, "a", queue="a")
    submit_and_claim(conn, "b", queue="b")
    assert settle(conn, "a", "complete")["ok"]
    assert value(conn, "fail_job", p_job_id="b", p_error="x") == "FAILED_RETRY"


@pytest.mark.parametrize("operation", ["complete", "fail", "stop", "mark_unknown_stopped"])
def test_a_method_on_a_missing_or_finished_job_is_an_error(conn: Connection, operation: str) -> None:
    settle(conn, "done", "complete", submit_and_claim(conn, "done"))
    verbs = {
        "fail": ("fail_job", {"p_error": "x"}),
        "stop": ("stop_job", {}),
        "mark_unknown_stopped": ("mark_job_unknown_stopped", {}),
    }
    assert settle(conn, "nobody", operation)["reason"] == "not_found"
    assert settle(conn, "done", operation)["reason"] == "wrong_state"
    if operation in verbs:
        function, more = verbs[operation]
        missing = refusal(call, conn, function, p_job_id="nobody", **more)
        finished = refusal(call, conn, function, p_job_id="done", **more)
        assert (missing.sqlstate, finished.sqlstate) == ("HF001", "HF003")
        assert '"nobody" does not exist' in str(missing)
        assert 'job "done" is COMPLETED' in str(finished)


def test_an_id_of_the_generated_form_does_not_settle_a_job_with_a_name(conn: Connection) -> None:
    lease = submit_and_claim(conn, "named")
    (row,) = rows(conn, "select 'j' || id as id from holdfast.jobs")

    for operation in ("complete", "fail"):
        verdict = settle(conn, row["id"], operation, lease)
        assert (verdict["ok"], verdict["reason"], verdict["state"]) == (False, "not_found", None)
    assert call(conn, "get_job", p_job_id=row["id"]) == []
    settle(conn, "named", "complete", lease)
    (kept,) = call(conn, "extend_leases", p_job_ids=[row["id"]], p_lease_ids=[lease], p_seconds=9)
    assert (kept["verdict"], kept["state"]) == ("ended", None)
    assert value(conn, "delete_jobs", p_job_ids=[row["id"]]) == 0


def test_generated_ids_with_a_name_or_a_comma_among_them_reach_only_their_own_jobs(conn: Connection) -> None:
    """A list of generated ids is read at once; it must not be taken for one when it is not."""
    submitted = call(conn, "submit_jobs", p_queues=["q"] * 3)
    one, two, three = (row["job_id"] for row in submitted)
    submit(conn, "named")
    leases = {row["job_id"]: row["lease_id"] for row in claim(conn, limit=4)}
    (named,) = column(conn, "select 'j' || id from holdfast.jobs where name is not null")

    def verdicts(*asked: tuple[str, str]) -> list[tuple[str, str]]:
        answer = call(
            conn,
            "settle_jobs",
            p_job_ids=[job_id for job_id, _ in asked],
            p_operations=["complete"] * len(asked),
            p_lease_ids=[lease for _, lease in asked],
        )
        return [(row["job_id"], row["reason"]) for row in answer]

    both = f"{one},{two}"
    unfit = {
        "p_job_ids": [both, None],
        "p_operations": ["complete"] * 2,
        "p_lease_ids": [leases[one], leases[two]],
    }
    assert "a job id is null or empty" in str(refusal(call, conn, "settle_jobs", **unfit))
    assert verdicts((both, leases[one])) == [(both, "not_found")]
    assert verdicts((both, leases[one]), (three, leases[one])) == [(both, "not_found"), (three, "lease_lost")]
    assert verdicts((two, leases[one]), (named, leases["named"]), (one, leases[one])) == [
        (two, "lease_lost"),
        (named, "not_found"),
        (one, "settled"),
    ]
    assert verdicts(("named", leases["named"]), (two, leases[two]), (one, leases[one])) == [
        ("named", "settled"),
        (two, "settled"),
        (one, "already"),
    ]


def test_generated_ids_reach_their_jobs(conn: Connection) -> None:
    (submitted,) = call(conn, "submit_jobs", p_queues=["q"])
    job_id = submitted["job_id"]
    lease = claim_one(conn, job_id)

    assert settle(conn, job_id, "complete", lease)["ok"]
    assert state(conn, job_id) == "COMPLETED"


@pytest.mark.parametrize("slot", ["held", "forfeited"])
def test_a_heartbeat_whose_settle_is_refused_claims_no_more_than_there_is_room_for(
    conn: Connection, slot: str
) -> None:
    """A job that is being cancelled cannot fail: it stays held, and its slot with it, or both are gone."""
    submit_many(conn, "abcd")
    held = claim(conn, limit=2)
    call(conn, "cancel_job", p_job_id=held[0]["job_id"], p_worker_id="person")
    if slot == "forfeited":
        call(conn, "acknowledge_cancellation", p_job_id=held[0]["job_id"], p_was_executing=False)

    beat = call(
        conn,
        "settle_and_claim",
        p_job_ids=[row["job_id"] for row in held],
        p_operations=["fail", "complete"],
        p_lease_ids=[row["lease_id"] for row in held],
        p_worker_id="w",
        p_queues=["q"],
        p_limit=2,
    )

    assert [row["kind"] for row in beat] == ["refused", "claimed"]
    still = rows(conn, "select 1 from holdfast.jobs where state in ('RUNNING', 'CANCELLING')")
    assert len(still) == (2 if slot == "held" else 1)
