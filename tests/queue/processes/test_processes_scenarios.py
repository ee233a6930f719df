"""Who enqueues, who streams, who settles and who cancels are different processes; some of them die.

Each scenario takes every route: direct with signals, direct without, through pgbouncer in transaction mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.queue.processes.conftest import Hire, Route
from tests.queue.processes.parent import Actor, Refused, wait_until

SHORT_S = 2.0
"""A lease for those who die. Their keeper extends it three times in that time."""


@dataclass(frozen=True, slots=True)
class Row:
    state: str
    attempts: int
    lapses: int
    error: str | None
    lease_id: str | None
    result: Any = None


Read = Callable[[str], Row]


@pytest.fixture
def read(conn: psycopg.Connection[Any]) -> Read:
    """A job as it stands in the database, wherever it is; it is in one place only."""
    live = """
        select state::text, attempts, lease_expiration_count, error_message, lease_id::text, null
        from holdfast.jobs where name = %(id)s
    """
    ended = """
        select state::text, attempts, lease_expiration_count, error_message, lease_id::text, result
        from holdfast.archived_jobs where name = %(id)s
    """

    def read_job(job_id: str) -> Row:
        (row,) = conn.execute(f"{live} union all {ended}", {"id": job_id}).fetchall()
        return Row(*row)

    return read_job


def held(conn: psycopg.Connection[Any]) -> int:
    count = "select count(*) from holdfast.jobs where state in ('RUNNING', 'CANCELLING')"
    row = conn.execute(count.encode()).fetchone()
    assert row is not None
    return int(row[0])


def all_lapsed(conn: psycopg.Connection[Any]) -> bool:
    """Whether no lease is good any more, swept or not."""
    good = "state in ('RUNNING', 'CANCELLING') and lease_expires_at > clock_timestamp()"
    return not conn.execute(f"select from holdfast.jobs where {good}".encode()).fetchall()


def holder(hire: Hire, producer: Actor, *job_ids: str, **options: Any) -> tuple[Actor, dict[str, str]]:
    """A process whose stream was given these jobs, and the leases."""
    streamer = hire(streams=True, **options)
    streamer.stream("B", None, len(job_ids))
    producer.enqueue(*job_ids)
    return streamer, streamer.given(job_ids)


def refused(actor: Actor, verb: str, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(Refused) as refusal:
        actor.do(verb, *args, **kwargs)
    return refusal.value.error


VERBS: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("complete_job", [{"done": True}], {}),
    ("fail_job", ["no"], {"delay": 3600}),
    ("stop_job", [], {}),
    ("mark_job_unknown_stopped", [], {}),
    ("requeue_job", [{"in_s": 3600}], {}),
    ("reschedule_job", [{"in_s": 3600}], {}),
    ("retry_later", [{"in_s": 3600}], {}),
]


def test_a_job_settled_in_a_third_process_by_whatever_verb_frees_the_slot_of_its_stream(hire: Hire) -> None:
    producer, streamer, settler = hire(), hire(streams=True), hire()
    streamer.stream("B", None, 1)
    producer.enqueue(*[f"j{number}-" for number in range(len(VERBS) + 1)])
    for number, (verb, args, kwargs) in enumerate(VERBS):
        (given,) = streamer.batch()
        assert given == f"j{number}-"
        settler.do(verb, given, *args, **kwargs)
    assert set(streamer.batch()) == {f"j{len(VERBS)}-"}


def test_many_jobs_settled_at_once_in_another_process_free_their_slots(hire: Hire, read: Read) -> None:
    producer, settler = hire(), hire()
    streamer, leases = holder(hire, producer, "a", "b", "c")
    producer.enqueue("d", "e", "f")
    answers = settler.do("complete_jobs", [[job_id, None, lease] for job_id, lease in leases.items()])
    assert [(each["ok"], each["status"]) for each in answers] == [(True, "COMPLETED")] * 3
    streamer.given(["d", "e", "f"])
    assert read("a").state == "COMPLETED"


def test_a_job_taken_away_by_a_third_process_goes_to_another_stream_under_another_lease(
    hire: Hire, read: Read
) -> None:
    producer, settler, second = hire(), hire(), hire(streams=True)
    first, leases = holder(hire, producer, "j")
    # What fills the first stream again is there before the job is taken away from it.
    producer.enqueue("k", "l")
    assert settler.do("release", "j")
    second.stream("E", None, 3)
    given: dict[str, str] = {}
    while set(given) < {"j", "k", "l"}:
        wait_until(lambda: first.heard_any(event="batch") or second.heard_any(event="batch"), "more jobs")
        given |= (first if first.heard_any(event="batch") else second).batch()
    assert given["j"] != leases["j"]
    assert refused(first, "complete_job", "j", lease_id=leases["j"]) == "LeaseLost"
    second.do("complete_job", "j", lease_id=given["j"])
    assert read("j") == Row("COMPLETED", 0, 0, None, given["j"])


@pytest.mark.parametrize("verb", ["mark_worker_unresponsive", "reset_running_jobs"])
def test_jobs_taken_away_from_everybody_elsewhere_free_their_slots(hire: Hire, read: Read, verb: str) -> None:
    producer, settler = hire(), hire()
    streamer, leases = holder(hire, producer, "a", "b")
    assert settler.do(verb, *(["B"] if verb == "mark_worker_unresponsive" else [])) == 2
    again = streamer.given(["a", "b"])
    assert not set(again.values()) & set(leases.values())
    assert (read("a").state, read("a").attempts, read("a").lapses) == ("RUNNING", 0, 0)


def test_a_cancellation_in_another_process_reaches_the_callback_of_the_stream(hire: Hire, read: Read) -> None:
    producer, canceller = hire(), hire()
    streamer, leases = holder(hire, producer, "j")
    producer.enqueue("next")
    assert canceller.do("cancel_jobs", None, ["j", "nobody"]) == [["j"], ["nobody"]]
    streamer.wait(event="cancel", job="j")
    streamer.do("acknowledge_cancellation", "j", True, lease_id=leases["j"])
    streamer.given(["next"])
    assert read("j").state == "STOPPED"
    assert not streamer.heard_any(event="lost")


def test_a_job_cancelled_elsewhere_before_it_was_read_is_stopped_and_never_delivered(
    hire: Hire, read: Read, conn: psycopg.Connection[Any]
) -> None:
    producer, streamer, canceller = hire(), hire(streams=True), hire()
    streamer.stream("B", None, 1, read=False)
    producer.enqueue("j", "next")
    wait_until(lambda: read("j").state == "RUNNING", "j is assigned")
    canceller.do("cancel_jobs", None, ["j"])
    wait_until(lambda: (read("j").state, read("next").state) == ("STOPPED", "RUNNING"), "next has the slot")
    streamer.read()
    assert set(streamer.batch()) == {"next"}
    assert not streamer.heard_any(event="cancel")


def test_an_acknowledgement_elsewhere_that_it_was_executing_frees_the_slot(hire: Hire, read: Read) -> None:
    producer, canceller, settler = hire(), hire(), hire()
    streamer, _ = holder(hire, producer, "a", "b")
    canceller.do("cancel_jobs", None, ["a"])
    streamer.wait(event="cancel", job="a")
    settler.do("acknowledge_cancellation", "a", True)
    streamer.wait(event="lost", job="a")
    settler.do("complete_job", "b", None)
    wait_until(lambda: read("b").state == "COMPLETED", "b is done")
    producer.enqueue("c", "d")
    streamer.given(["c", "d"])


def test_an_acknowledgement_elsewhere_that_it_was_not_executing_forfeits_the_slot_for_good(
    hire: Hire, read: Read, conn: psycopg.Connection[Any]
) -> None:
    producer, canceller, settler = hire(), hire(), hire()
    streamer, _ = holder(hire, producer, "a", "b")
    canceller.do("cancel_jobs", None, ["a"])
    streamer.wait(event="cancel", job="a")
    settler.do("acknowledge_cancellation", "a", False)
    assert read("a").state == "UNKNOWN_STOPPED"
    streamer.wait(event="lost", job="a")
    producer.enqueue("c", "d", "e")
    # One slot is left: had it two, a claim would fill both.
    settler.do("complete_job", "b")
    for job_id in ("c", "d", "e"):
        assert set(streamer.batch()) == {job_id}
        assert held(conn) == 1
        settler.do("complete_job", job_id)
    assert streamer.do("get_job", "e")["status"] == "COMPLETED"
    # A stream of the same assignee that is opened anew has all of its slots.
    streamer.end_stream()
    streamer.stream("B", None, 2, name="anew")
    producer.enqueue("f", "g")
    streamer.given(["f", "g"])


def test_jobs_of_a_killed_process_are_swept_by_and_given_to_the_next_open_stream(
    hire: Hire, read: Read
) -> None:
    producer, bystander = hire(), hire(streams=True)
    victim, leases = holder(hire, producer, "a", "b", "c", lease=SHORT_S)
    # It has nothing to do, and its poll is far away: it knows when the leases it saw would end.
    bystander.stream("D", None, 5)
    victim.kill()
    taken = bystander.given(["a", "b", "c"])
    assert not set(taken.values()) & set(leases.values())
    answers = bystander.do("complete_jobs", [[job_id, None, lease] for job_id, lease in taken.items()])
    assert all(each["ok"] for each in answers)
    assert {read(job_id).lapses for job_id in "abc"} == {1}
    assert {read(job_id).attempts for job_id in "abc"} == {0}


def test_a_late_result_for_a_dead_process_is_taken_until_somebody_else_has_the_job_and_refused_after(
    hire: Hire, read: Read, conn: psycopg.Connection[Any]
) -> None:
    producer, survivor = hire(), hire()
    victim, leases = holder(hire, producer, "early", "late", lease=SHORT_S)
    victim.kill()
    wait_until(lambda: all_lapsed(conn), "the leases have ended")
    survivor.do("complete_job", "early", "by the survivor", lease_id=leases["early"])
    successor = hire(streams=True)
    successor.stream("D", None, 2)
    taken = successor.given(["late"])
    assert refused(survivor, "complete_job", "late", "too late", lease_id=leases["late"]) == "LeaseLost"
    successor.do("complete_job", "late", "by the successor", lease_id=taken["late"])
    assert read("early") == Row("COMPLETED", 0, 0, None, leases["early"], "by the survivor")
    assert read("late") == Row("COMPLETED", 0, 1, None, taken["late"], "by the successor")


def test_a_process_that_stood_still_past_its_lease_hears_that_its_job_is_lost_and_cannot_settle_it(
    hire: Hire, read: Read
) -> None:
    producer = hire()
    sleeper, leases = holder(hire, producer, "j", lease=SHORT_S)
    other = hire(streams=True)
    other.stream("D", None, 1)
    sleeper.stop()
    taken = other.given(["j"])
    sleeper.carry_on()
    sleeper.wait(event="lost", job="j")
    assert refused(sleeper, "complete_job", "j", "by the sleeper", lease_id=leases["j"]) == "LeaseLost"
    assert refused(sleeper, "fail_job", "j", "by the sleeper", lease_id=leases["j"]) == "LeaseLost"
    other.do("complete_job", "j", "by the other", lease_id=taken["j"])
    assert refused(sleeper, "complete_job", "j", "by the sleeper", lease_id=leases["j"]) == "LeaseLost"
    assert read("j") == Row("COMPLETED", 0, 1, None, taken["j"], "by the other")
    # It goes on as if nothing had happened: one of the two slots that wait is its own.
    producer.enqueue("k", "l")
    assert set(sleeper.batch()) | set(other.batch()) == {"k", "l"}


def test_a_process_that_stood_still_while_nobody_took_its_job_carries_on_with_it(
    hire: Hire, read: Read, conn: psycopg.Connection[Any]
) -> None:
    producer = hire()
    sleeper, leases = holder(hire, producer, "j", lease=SHORT_S)
    sleeper.stop()
    wait_until(lambda: all_lapsed(conn), "the lease has ended")
    sleeper.carry_on()
    sleeper.do("complete_job", "j", "late", lease_id=leases["j"])
    assert read("j").result == "late"


def test_a_process_that_ends_in_order_hands_back_at_once_what_it_did_not_deliver(
    hire: Hire, read: Read, conn: psycopg.Connection[Any]
) -> None:
    producer, leaver = hire(), hire(streams=True, lease=3600.0)
    leaver.stream("B", None, 3, read=False)
    producer.enqueue("a", "b", "c", "d")
    wait_until(lambda: held(conn) == 3, "three are assigned")
    assert leaver.terminate() == 0, leaver.said
    for job_id in "abc":
        row = read(job_id)
        assert (row.state, row.attempts, row.lapses) == ("FAILED_RETRY", 0, 0)
        assert "not delivered" in (row.error or "")
    assert read("d").state == "INITIAL_PENDING"
    successor = hire(streams=True)
    successor.stream("D", None, 4)
    successor.given("abcd")


def test_two_processes_with_streams_share_the_jobs_and_neither_gets_one_twice(
    hire: Hire, conn: psycopg.Connection[Any]
) -> None:
    producer, first, second, settler = hire(), hire(streams=True), hire(streams=True), hire()
    job_ids = [f"job-{number}" for number in range(30)]
    first.stream("B", None, 4)
    second.stream("B", None, 4)  # the same assignee: streams count on their own
    producer.enqueue(*job_ids)
    seen: list[str] = []
    while len(seen) < len(job_ids):
        assert held(conn) <= 8
        wait_until(lambda: first.heard_any(event="batch") or second.heard_any(event="batch"), "more")
        for actor in (first, second):
            while actor.heard_any(event="batch"):
                batch = actor.batch()
                assert len(batch) <= 4
                seen += batch
                settler.do("complete_jobs", [[job_id, None, lease] for job_id, lease in batch.items()])
    assert sorted(seen) == sorted(job_ids)


def test_a_route_without_signals_is_said_once_and_one_with_them_is_not(hire: Hire, route: Route) -> None:
    streamer = hire(streams=True)
    streamer.stream("B", None, 1)
    hire().enqueue("j")
    streamer.given(["j"])
    complaints = streamer.said.count("does not pass on signals")
    assert complaints == (1 if "bouncer" in route.dsn else 0), streamer.said
