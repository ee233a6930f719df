"""What a job remembers: every error, its holders and its times, through retries, revivals and the archive."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.clock import Clock
from tests.engine.sql import (
    Connection,
    call,
    claim_one,
    column,
    job,
    rows,
    settle,
    state,
    submit,
    submit_and_claim,
    value,
)


def errors(conn: Connection, job_id: str = "job") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = job(conn, job_id)["errors"]
    return found


def messages(conn: Connection, job_id: str = "job") -> list[tuple[int, str]]:
    return [(error["attempt"], error["message"]) for error in errors(conn, job_id)]


def fail(conn: Connection, message: str, **more: object) -> None:
    lease = claim_one(conn, "job")
    assert settle(conn, "job", "fail", lease, p_messages=[message], **more)["ok"]


def test_every_failure_is_kept_with_its_attempt_time_worker_and_traceback(
    conn: Connection, clock: Clock
) -> None:
    now = clock.freeze()
    submit(conn, "job")
    lease = claim_one(conn, "job", worker="alice")
    settle(conn, "job", "fail", lease, p_messages=["boom"], p_tracebacks=["line 1\nline 2"])

    (error,) = errors(conn)
    assert datetime.fromisoformat(error.pop("at")) == now
    assert error == {
        "attempt": 1,
        "worker_id": "alice",
        "message": "boom",
        "traceback": "line 1\nline 2",
    }
    assert job(conn, "job")["last_error"] == "boom\nline 1\nline 2"


def test_the_errors_survive_retries_a_revival_and_the_archive(conn: Connection) -> None:
    submit(conn, "job", p_max_attempts=2)
    fail(conn, "first")
    fail(conn, "second")
    assert (state(conn, "job"), messages(conn)) == ("DEAD", [(1, "first"), (2, "second")])

    value(conn, "revive_job", p_job_id="job", p_worker_id="person")
    revived = job(conn, "job")
    assert (revived["state"], revived["attempts"], revived["finalized_at"]) == ("RESCHEDULED", 0, None)
    fail(conn, "third")
    settle(conn, "job", "complete", claim_one(conn, "job"))

    archived = job(conn, "job")
    assert (archived["state"], archived["attempts"], archived["last_error"]) == ("COMPLETED", 1, "third")
    assert messages(conn) == [(1, "first"), (2, "second"), (1, "third")]


def test_the_last_error_is_the_latest_and_a_fail_without_a_traceback_clears_the_old_one(
    conn: Connection,
) -> None:
    submit(conn, "job")
    fail(conn, "first", p_tracebacks=["old"])
    fail(conn, "second")

    assert job(conn, "job")["last_error"] == "second"


def test_a_stop_with_a_failure_counts_and_is_kept(conn: Connection, clock: Clock) -> None:
    """Seed 004: StopJobWithRetry sets the error, RetryCount + 1, LastRetryAt and FinalizedAt."""
    now = clock.freeze()
    submit(conn, "job")
    fail(conn, "first")
    lease = claim_one(conn, "job")
    call(conn, "cancel_job", p_job_id="job", p_worker_id="person")
    assert value(conn, "stop_job_with_retry", p_job_id="job", p_error="second", p_lease_id=lease) == "STOPPED"

    found = job(conn, "job")
    assert (found["attempts"], found["last_error"]) == (2, "second")
    assert found["last_retry_at"] == found["finalized_at"] == now
    assert messages(conn) == [(1, "first"), (2, "second")]


@pytest.mark.parametrize("operation", ["reschedule", "release", "undelivered_to_worker"])
def test_what_is_no_failure_leaves_the_errors_alone(conn: Connection, operation: str) -> None:
    submit(conn, "job")
    fail(conn, "first")
    reason = [None] if operation == "release" else ["a reason"]
    settle(conn, "job", operation, claim_one(conn, "job"), p_messages=reason)

    found = job(conn, "job")
    assert (found["attempts"], found["last_error"], len(found["errors"])) == (1, "first", 1)


def test_the_last_attempt_and_a_permanent_error_are_the_end(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    submit(conn, "counted", queue="a", p_max_attempts=2)
    submit(conn, "permanent", queue="b")
    for _ in range(2):
        settle(conn, "counted", "fail", claim_one(conn, "counted", queue="a"), p_messages=["boom"])
    lease = claim_one(conn, "permanent", queue="b")
    settle(conn, "permanent", "fail", lease, p_messages=["never"], p_permanent=[True])

    for name, attempts in [("counted", 2), ("permanent", 1)]:
        found = job(conn, name)
        assert (found["state"], found["attempts"], found["finalized_at"]) == ("DEAD", attempts, now)
    dead = call(conn, "list_dead_jobs")
    assert [row["job_id"] for row in dead] == ["permanent", "counted"]
    assert [row["job_id"] for row in call(conn, "list_dead_jobs", p_queue="a")] == ["counted"]


def test_without_a_maximum_a_job_is_retried_for_ever(conn: Connection) -> None:
    submit(conn, "job")
    for _ in range(30):
        fail(conn, "boom")

    assert (state(conn, "job"), job(conn, "job")["attempts"]) == ("FAILED_RETRY", 30)


def test_a_failure_is_retried_after_its_delay(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    submit(conn, "job")
    fail(conn, "boom", p_delays=[15.5])

    found = job(conn, "job")
    assert found["available_at"] == now + timedelta(seconds=15.5)
    assert found["last_retry_at"] == now


def test_the_times_of_a_job_tell_its_life(conn: Connection, clock: Clock) -> None:
    created = clock.freeze()
    submit(conn, "job")
    started = clock.advance(1)
    lease = claim_one(conn, "job", worker="alice")
    failed = clock.advance(1)
    settle(conn, "job", "fail", lease, p_messages=["boom"])
    again = clock.advance(1)
    lease = claim_one(conn, "job", worker="bob")
    ended = clock.advance(1)
    settle(conn, "job", "complete", lease, p_results=[Jsonb({"answer": 42})])

    found = job(conn, "job")
    assert (found["created_at"], found["started_at"]) == (created, started)  # the first run, for ever
    assert (found["assigned_at"], found["assignee_id"]) == (again, "bob")
    assert (found["last_retry_at"], found["finalized_at"]) == (failed, ended)
    assert (found["lease_id"], found["result"]) == (lease, {"answer": 42})


def test_the_holder_is_remembered_after_every_end_of_its_lease(conn: Connection, clock: Clock) -> None:
    """Seed 004: AssigneeID and AssignedAt are preserved."""
    now = clock.freeze()
    for operation in ("complete", "fail", "reschedule", "release", "stop", "mark_unknown_stopped"):
        lease = submit_and_claim(conn, operation, queue=operation, worker="alice")
        settle(conn, operation, operation, lease, p_messages=["said"])

        found = job(conn, operation)
        assert (found["assignee_id"], found["assigned_at"]) == ("alice", now)


def test_the_archive_keeps_everything_the_job_had(conn: Connection, clock: Clock) -> None:
    now = clock.freeze()
    given: dict[str, Any] = {
        "p_payload": Jsonb({"n": 1}),
        "p_singleton_key": "k",
        "p_expires_at": now + timedelta(days=1),
        "p_task": "mail.send",
        "p_priority": 7,
        "p_tags": ["b", "a"],
        "p_resource_keys": ["r2", "r1"],
        "p_max_attempts": 3,
        "p_if_parent_fails": "run",
        "p_timeout": 12.5,
        "p_retry": Jsonb({"base_s": 1}),
    }
    lease = submit_and_claim(conn, "job", **given)
    live = job(conn, "job")
    settle(conn, "job", "complete", lease)
    archived = job(conn, "job")

    changed = {name for name in live if live[name] != archived[name]}
    assert changed == {"state", "status", "finalized_at"}
    assert (archived["tags"], archived["resource_keys"]) == (["b", "a"], ["r2", "r1"])


def test_deleting_a_job_forgets_its_errors_and_frees_its_id(conn: Connection) -> None:
    submit(conn, "job")
    fail(conn, "boom")
    call(conn, "cancel_job", p_job_id="job", p_worker_id="person")
    assert value(conn, "delete_jobs", p_job_ids=["job"]) == 1

    assert column(conn, "select count(*) from holdfast.job_errors") == [0]
    submit(conn, "job")
    assert job(conn, "job")["errors"] == []


def test_a_finished_id_is_refused_for_ever_and_says_how_it_ended(conn: Connection) -> None:
    for operation, words in [
        ("complete", 'job "complete" has already completed and cannot be resubmitted'),
        ("stop", 'job "stop" has already ended (STOPPED) and cannot be resubmitted'),
    ]:
        settle(conn, operation, operation, submit_and_claim(conn, operation, queue=operation))
        with pytest.raises(Exception, match=words.replace("(", r"\(").replace(")", r"\)")) as caught:
            submit(conn, operation)
        assert getattr(caught.value, "sqlstate", None) == "HF002"


def test_bytes_come_back_as_they_were_given(conn: Connection) -> None:
    content = bytes(range(256))
    lease = submit_and_claim(conn, "job", p_payload_bytes=content)
    assert job(conn, "job")["payload_bytes"] == content
    settle(conn, "job", "complete", lease, p_result_bytes=[content[::-1]])

    found = job(conn, "job")
    assert (found["payload_bytes"], found["result_bytes"]) == (content, content[::-1])


def test_json_keeps_big_numbers_exact(conn: Connection) -> None:
    exact = "[12345678901234567890123456789, 0.1000000000000000000001]"
    conn.execute("select holdfast.submit_job('job', 'w', 'q', p_payload => %s)", [exact])

    assert rows(conn, "select payload::text from holdfast.jobs") == [{"payload": exact}]


@pytest.mark.parametrize("guarded", [True, False])
def test_of_two_results_of_one_job_in_a_call_the_first_counts(conn: Connection, guarded: bool) -> None:
    leases = [submit_and_claim(conn, "job", queue="a"), submit_and_claim(conn, "other", queue="b")]
    job, other = leases
    verdicts = call(
        conn,
        "settle_jobs",
        p_job_ids=["job", "other", "job"],
        p_operations=["complete"] * 3,
        p_lease_ids=[job, other, job] if guarded else None,
        p_results=[Jsonb("first"), Jsonb("other"), Jsonb("second")],
    )

    assert [verdict["reason"] for verdict in verdicts][:2] == ["settled", "settled"]
    assert verdicts[2]["reason"] == ("already" if guarded else "wrong_state")
    assert column(conn, "select result from holdfast.jobs_archive order by job_id") == ["first", "other"]
