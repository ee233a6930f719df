"""Resources and keys: held by one lease of one job, freed by the statement that ends it, never by age."""

from __future__ import annotations

import pytest

from tests.clock import Clock
from tests.engine.sql import (
    Connection,
    call,
    claim,
    claim_one,
    column,
    contents,
    refusal,
    rows,
    settle,
    submit,
    submit_and_claim,
    submit_many,
    value,
)


def acquire(conn: Connection, job_id: str, *keys: str, **guards: object) -> list[str]:
    busy: list[str] = value(conn, "acquire_resources", p_job_id=job_id, p_keys=list(keys), **guards)
    return busy


def held(conn: Connection) -> list[str]:
    return column(conn, "select key from holdfast.holds where kind = 'resource' order by key")


@pytest.fixture
def two(conn: Connection) -> dict[str, str]:
    """Two running jobs and their leases."""
    submit_many(conn, ["one", "other"])
    return {row["job_id"]: row["lease_id"] for row in claim(conn, limit=2)}


def test_a_free_resource_is_taken_and_a_busy_one_is_named(conn: Connection, two: dict[str, str]) -> None:
    assert acquire(conn, "one", "db") == []
    assert acquire(conn, "other", "db") == ["db"]


def test_all_keys_are_taken_or_none(conn: Connection, two: dict[str, str]) -> None:
    acquire(conn, "one", "b", "d")

    assert acquire(conn, "other", "a", "b", "c", "d") == ["b", "d"]
    assert held(conn) == ["b", "d"]


def test_what_a_job_holds_already_stays_held_and_counts_once(conn: Connection, two: dict[str, str]) -> None:
    acquire(conn, "one", "a")

    assert acquire(conn, "one", "a", "b", "b") == []
    assert held(conn) == ["a", "b"]


def test_no_keys_are_always_free(conn: Connection, two: dict[str, str]) -> None:
    assert acquire(conn, "one") == []


@pytest.mark.parametrize("operation", ["complete", "fail", "requeue", "reschedule", "release", "stop"])
def test_every_end_of_a_lease_frees_its_resources_and_its_key(conn: Connection, operation: str) -> None:
    lease = submit_and_claim(conn, "job", p_singleton_key="k")
    acquire(conn, "job", "a", "b")
    assert len(rows(conn, "select from holdfast.holds")) == 3

    settle(conn, "job", operation, lease, p_messages=["said"])

    assert rows(conn, "select from holdfast.holds") == []


def test_the_ends_nobody_reports_free_them_too(conn: Connection, clock: Clock) -> None:
    def take() -> None:
        claim_one(conn, "job")
        acquire(conn, "job", "a")

    submit(conn, "job", p_singleton_key="k")
    take()
    clock.advance(31)
    call(conn, "lapse_leases")
    assert rows(conn, "select from holdfast.holds") == []
    take()
    call(conn, "mark_worker_unresponsive", p_worker_id="w")
    assert rows(conn, "select from holdfast.holds") == []
    take()
    call(conn, "reset_running_jobs")
    assert rows(conn, "select from holdfast.holds") == []


def test_a_resource_is_not_freed_by_age_while_its_holder_runs(
    conn: Connection, clock: Clock, two: dict[str, str]
) -> None:
    acquire(conn, "one", "db")
    call(conn, "extend_leases", p_job_ids=list(two), p_lease_ids=list(two.values()), p_seconds=10 * 24 * 3600)
    clock.advance(9 * 24 * 3600)
    call(conn, "lapse_leases")

    assert acquire(conn, "other", "db") == ["db"]


def test_a_cancelling_job_keeps_its_resources_until_its_worker_says_so(
    conn: Connection, two: dict[str, str]
) -> None:
    acquire(conn, "one", "db")
    call(conn, "cancel_job", p_job_id="one", p_worker_id="person")
    assert acquire(conn, "other", "db") == ["db"]

    value(conn, "acknowledge_cancellation", p_job_id="one", p_was_executing=True)

    assert acquire(conn, "other", "db") == []


def test_a_capacity_above_one_is_shared_by_that_many(conn: Connection) -> None:
    assert value(conn, "set_resource_capacity", p_key="printer", p_capacity=3) == 3
    assert value(conn, "resource_capacity", p_key="printer") == 3
    assert value(conn, "resource_capacity", p_key="unheard of") == 1
    submit_many(conn, ["a", "b", "c", "d"])
    leases = {row["job_id"]: row["lease_id"] for row in claim(conn, limit=4)}

    assert [acquire(conn, name, "printer") for name in leases] == [[], [], [], ["printer"]]
    settle(conn, "b", "complete", leases["b"])
    assert acquire(conn, "d", "printer") == []


def test_a_capacity_lowered_below_what_is_held_takes_effect_as_holders_leave(conn: Connection) -> None:
    value(conn, "set_resource_capacity", p_key="printer", p_capacity=2)
    submit_many(conn, ["a", "b", "c"])
    leases = {row["job_id"]: row["lease_id"] for row in claim(conn, limit=3)}
    for name in ("a", "b"):
        acquire(conn, name, "printer")
    value(conn, "set_resource_capacity", p_key="printer", p_capacity=1)

    settle(conn, "a", "complete", leases["a"])
    assert acquire(conn, "c", "printer") == ["printer"]
    settle(conn, "b", "complete", leases["b"])
    assert acquire(conn, "c", "printer") == []


def test_resources_can_be_given_back_before_the_lease_ends(conn: Connection, two: dict[str, str]) -> None:
    """Seed 000: ReleaseResource."""
    acquire(conn, "one", "a", "b", "c")

    assert value(conn, "release_resources", p_job_id="one", p_keys=["a", "nothing"]) == 1
    assert held(conn) == ["b", "c"]
    assert value(conn, "release_resources", p_job_id="one", p_lease_id=two["one"]) == 2
    assert (held(conn), acquire(conn, "other", "a", "b")) == ([], [])


def test_giving_back_resources_never_gives_back_the_singleton_key(conn: Connection) -> None:
    submit_many(conn, ["a", "b"], p_singleton_keys="k")
    claim_one(conn, "a")
    acquire(conn, "a", "r")
    value(conn, "release_resources", p_job_id="a")

    assert claim(conn) == []


def test_only_a_running_job_takes_resources(conn: Connection, two: dict[str, str]) -> None:
    submit(conn, "waiting")
    settle(conn, "one", "complete", two["one"])
    call(conn, "cancel_job", p_job_id="other", p_worker_id="person")
    before = contents(conn)

    for job_id, sqlstate in [("waiting", "HF003"), ("one", "HF003"), ("other", "HF003"), ("x", "HF001")]:
        assert refusal(acquire, conn, job_id, "db").sqlstate == sqlstate
    assert contents(conn) == before


def test_the_guards_of_an_acquisition_are_checked_when_given(conn: Connection, two: dict[str, str]) -> None:
    before = contents(conn)

    for guards in ({"p_lease_id": two["other"]}, {"p_worker_id": "somebody else"}):
        assert refusal(acquire, conn, "one", "db", **guards).sqlstate == "HF004"
    assert contents(conn) == before
    assert acquire(conn, "one", "db", p_lease_id=two["one"], p_worker_id="w") == []


def test_a_worker_is_no_guard_of_a_job_that_does_not_run_but_a_lease_is(
    conn: Connection, two: dict[str, str]
) -> None:
    submit(conn, "waiting")
    settle(conn, "other", "release", two["other"])

    for job_id in ("waiting", "other"):
        assert refusal(acquire, conn, job_id, "db", p_worker_id="somebody else").sqlstate == "HF003"
        assert refusal(acquire, conn, job_id, "db", p_lease_id=two["one"]).sqlstate == "HF004"


def test_a_resource_and_a_singleton_key_of_one_name_are_two_things(conn: Connection) -> None:
    submit_and_claim(conn, "a", p_singleton_key="same")
    submit_and_claim(conn, "b", queue="z")

    assert acquire(conn, "b", "same") == []


def test_a_hold_belongs_to_its_lease_and_does_not_pass_to_the_next_holder(
    conn: Connection, clock: Clock
) -> None:
    lease = submit_and_claim(conn, "job")
    acquire(conn, "job", "db")
    clock.advance(31)
    again = claim_one(conn, "job", worker="next")

    assert held(conn) == []
    assert value(conn, "release_resources", p_job_id="job", p_lease_id=lease) == 0
    assert acquire(conn, "job", "db", p_lease_id=again) == []
    assert column(conn, "select lease_id::text from holdfast.holds") == [again]
