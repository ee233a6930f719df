"""The checker sees what is wrong, in histories that were doctored to be; and nothing where nothing is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gauntlet.checker import INVARIANTS, check
from gauntlet.figures import recoveries
from gauntlet.history import NO, UNKNOWN, History
from tests.gauntlet.histories import Life

Doctored = Callable[[], History]


def violated(history: History) -> set[str]:
    return set(check(history).counts)


def full_life() -> Life:
    """A bit of everything that may happen."""
    life = Life().completed("plain").completed("again")
    life.asked("failing").step("failing", "INITIAL_PENDING", max_attempts=2)
    life.claimed("failing", "f1").ran("failing", 1, "raised").step(
        "failing", "FAILED_RETRY", attempts=1, lease=None
    )
    life.claimed("failing", "f2").ran("failing", 2, "raised").step("failing", "DEAD", attempts=2, lease=None)
    life.asked("failing", "revive").step("failing", "RESCHEDULED", attempts=0)
    life.claimed("failing", "f3").step("failing", "COMPLETED")
    life.asked("lapsed").step("lapsed", "INITIAL_PENDING").claimed("lapsed", "a1")
    life.now += 2
    life.step("lapsed", "UNKNOWN_RETRY", lapses=1).claimed("lapsed", "a2").step("lapsed", "COMPLETED")
    life.asked("cancelled").step("cancelled", "INITIAL_PENDING").claimed("cancelled", "c1")
    life.asked("cancelled", "cancel").step("cancelled", "CANCELLING").step("cancelled", "STOPPED")
    life.asked("told twice").step("told twice", "INITIAL_PENDING").claimed("told twice", "t1")
    life.asked("told twice", "complete_job", UNKNOWN, lease="t1").step("told twice", "COMPLETED")
    life.asked("told twice", "complete_job", lease="t1")
    life.asked("rolled back", said=NO, order=True)
    life.asked("nobody knows", said=UNKNOWN)
    life.asked("plain", "zombie", NO, lease="old", verb="complete")
    life.asked("child", wait_for=["plain"], if_parent_fails="wait").step(
        "child", "INITIAL_PENDING", waiting_on=0
    )
    return life.claimed("child", "k1").step("child", "COMPLETED")


def test_a_run_in_which_all_is_well_violates_nothing() -> None:
    assert violated(full_life().history()) == set()


def lost() -> History:
    return full_life().asked("gone").history()


def lost_later() -> History:
    life = full_life()
    return life.history(places={job: 1 for job in life.history().places if job != "plain"})


def phantom() -> History:
    return (
        full_life()
        .asked("ghost", said=NO)
        .step("ghost", "INITIAL_PENDING")
        .step("ghost", "UNSCHEDULED")
        .history()
    )


def doubled() -> History:
    life = full_life()
    return life.history(places={**life.history().places, "plain": 2})


def ended_twice() -> History:
    return full_life().step("plain", "STOPPED").history()


def no_such_step() -> History:
    return Life().asked("a").step("a", "INITIAL_PENDING").step("a", "DEAD").history()


def two_leases() -> History:
    life = (
        Life().asked("a").step("a", "INITIAL_PENDING").claimed("a", "1").claimed("a", "2", assignee="other")
    )
    return life.step("a", "COMPLETED").history()


def lease_used_again() -> History:
    life = (
        Life().asked("a").step("a", "INITIAL_PENDING").claimed("a", "1").step("a", "RESCHEDULED", lease=None)
    )
    return life.claimed("a", "1").step("a", "COMPLETED").history()


def lapsed_too_early() -> History:
    life = (
        Life().asked("a").step("a", "INITIAL_PENDING").claimed("a", "1").step("a", "UNKNOWN_RETRY", lapses=1)
    )
    return life.claimed("a", "2").step("a", "COMPLETED").history()


def lease_made_shorter() -> History:
    life = (
        Life()
        .asked("a")
        .step("a", "INITIAL_PENDING")
        .claimed("a", "1")
        .step("a", "RUNNING", lease_ends=100.0)
    )
    return life.step("a", "COMPLETED").history()


def zombie() -> History:
    return full_life().asked("plain", "zombie", lease="old", verb="extend").history()


def settled_for_nothing() -> History:
    return full_life().asked("plain", "complete_job", lease="another").history()


def settled_for_nothing_twice() -> History:
    life = full_life().asked("plain", "complete_job", UNKNOWN, lease="another")
    return life.asked("plain", "complete_job", lease="another").history()


def settled_before_it_was_said() -> History:
    return full_life().asked("plain", "complete_job", lease="l1").history()


def attempt_at_claim() -> History:
    life = Life().asked("a").step("a", "INITIAL_PENDING").claimed("a", "1", attempts=1).step("a", "COMPLETED")
    return life.history(errors={"a": 1})


def attempt_for_a_lapse() -> History:
    life = Life().asked("a").step("a", "INITIAL_PENDING").claimed("a", "1")
    life.now += 2
    life.step("a", "UNKNOWN_RETRY", lapses=1, attempts=1).claimed("a", "2").step("a", "COMPLETED")
    return life.history(errors={"a": 1})


def error_not_kept() -> History:
    return full_life().history(errors={"failing": 1})


def too_many_attempts() -> History:
    life = Life().asked("a").step("a", "INITIAL_PENDING", max_attempts=1).claimed("a", "1")
    life.step("a", "FAILED_RETRY", attempts=1, lease=None).claimed("a", "2")
    return (
        life.step("a", "FAILED_RETRY", attempts=2, lease=None)
        .claimed("a", "3")
        .step("a", "COMPLETED")
        .history()
    )


def ran_without_a_claim() -> History:
    return full_life().ran("plain").history()


def over_capacity() -> History:
    life = Life()
    for job in "abc":
        life.asked(job).step(job, "INITIAL_PENDING").claimed(job, f"lease of {job}")
    for job in "abc":
        life.step(job, "COMPLETED", stream=None)
    return life.history()


def over_the_limit() -> History:
    life = Life()
    for job in "ab":
        life.asked(job).step(job, "INITIAL_PENDING", queue="mail").claimed(job, f"lease of {job}")
    return life.step("a", "COMPLETED").step("b", "COMPLETED").history(limits={"mail": 1})


def key_held_twice() -> History:
    return full_life().held("resource", "r", "plain").held("resource", "r", "again").history()


def key_left_over() -> History:
    return full_life().history(held_at_end=[("singleton s", "plain")])


def singletons_together() -> History:
    life = Life()
    for job in "ab":
        life.asked(job).step(job, "INITIAL_PENDING", key="s").claimed(job, f"lease of {job}")
    return life.step("a", "COMPLETED").step("b", "COMPLETED").history()


def child_too_early() -> History:
    life = Life().asked("parent").step("parent", "INITIAL_PENDING")
    life.asked("child", wait_for=["parent"], if_parent_fails="wait").step("child", "INITIAL_PENDING")
    life.claimed("child", "1").step("child", "COMPLETED")
    return life.claimed("parent", "2").step("parent", "COMPLETED").history()


def child_stranded() -> History:
    life = full_life().asked("left", wait_for=["plain"], if_parent_fails="wait")
    return life.step("left", "INITIAL_PENDING", waiting_on=1).history(waits={"left": ["plain"]})


def cancelled_and_retried() -> History:
    life = Life().asked("a").step("a", "INITIAL_PENDING").claimed("a", "1").step("a", "CANCELLING")
    return life.step("a", "UNKNOWN_RETRY").claimed("a", "2").step("a", "COMPLETED").history()


def cancelled_and_claimed() -> History:
    life = Life().asked("a").step("a", "INITIAL_PENDING").asked("a", "cancel").claimed("a", "1")
    return life.step("a", "COMPLETED").history()


def order_without_a_job() -> History:
    return full_life().history(orders=frozenset({"rolled back"}))


def job_without_an_order() -> History:
    return full_life().asked("a", order=True).step("a", "INITIAL_PENDING").step("a", "UNSCHEDULED").history()


def effect_without_an_end() -> History:
    life = Life().asked("a").step("a", "INITIAL_PENDING", queue="sql").claimed("a", "1").step("a", "STOPPED")
    return life.history(ledger={"a": 1})


def effect_twice() -> History:
    life = (
        Life().asked("a").step("a", "INITIAL_PENDING", queue="sql").claimed("a", "1").step("a", "COMPLETED")
    )
    return life.history(ledger={"a": 2})


def before_its_time() -> History:
    life = Life().asked("a").step("a", "INITIAL_PENDING", due=500.0).claimed("a", "1")
    return life.step("a", "COMPLETED").history()


def claimed_while_paused() -> History:
    life = (
        Life().asked("a").step("a", "INITIAL_PENDING", queue="mail").asked("mail", "pause").claimed("a", "1")
    )
    return life.step("a", "COMPLETED").asked("mail", "resume").history()


def not_traced() -> History:
    return full_life().history(untraced=["plain"])


def never_at_rest() -> History:
    return full_life().history(unfinished_after_s=None)


def too_slow() -> History:
    return full_life().history(unfinished_after_s=60.0)


def left_in_line() -> History:
    return full_life().asked("a").step("a", "INITIAL_PENDING").history()


def session_left() -> History:
    return full_life().history(sessions=1)


def process_left() -> History:
    return full_life().history(processes=["4711 python"])


def deadlocked() -> History:
    return full_life().history(deadlocks=1)


DOCTORED: dict[str, tuple[Doctored, ...]] = {
    "no acknowledged job is lost": (lost, lost_later),
    "no job that nobody asked for, and none twice": (phantom, doubled),
    "every job ends in exactly one finished state": (ended_twice,),
    "every step is one the model allows": (no_such_step,),
    "never two live leases": (two_leases, lease_used_again, lapsed_too_early, lease_made_shorter),
    "nothing is taken from a former holder": (
        zombie,
        settled_for_nothing,
        settled_for_nothing_twice,
        settled_before_it_was_said,
    ),
    "attempts and errors equal the failures": (
        attempt_at_claim,
        attempt_for_a_lapse,
        error_not_kept,
        too_many_attempts,
        ran_without_a_claim,
    ),
    "no stream holds more than its capacity": (over_capacity,),
    "no queue has more jobs held than its limit": (over_the_limit,),
    "no key is held twice, nor by a job that is not running": (
        key_held_twice,
        key_left_over,
        singletons_together,
    ),
    "no child before its parents": (child_too_early,),
    "no child is stranded": (child_stranded,),
    "what is cancelled is not tried again": (cancelled_and_retried, cancelled_and_claimed),
    "transactions are all or nothing": (
        order_without_a_job,
        job_without_an_order,
        effect_without_an_end,
        effect_twice,
    ),
    "no job before its time": (before_its_time,),
    "no job of a paused queue is claimed": (claimed_while_paused,),
    "the trace tells what happened": (not_traced,),
    "everything ends": (never_at_rest, too_slow, left_in_line),
    "nothing leaks": (session_left, process_left),
    "no deadlocks": (deadlocked,),
}


def test_every_invariant_has_a_doctored_history() -> None:
    assert DOCTORED.keys() == INVARIANTS.keys()


@pytest.mark.parametrize(
    ("invariant", "doctored"),
    [pytest.param(name, each, id=each.__name__) for name, some in DOCTORED.items() for each in some],
)
def test_a_doctored_history_violates_the_invariant(invariant: str, doctored: Doctored) -> None:
    assert invariant in violated(doctored())


def test_a_stop_by_who_has_just_acknowledged_the_cancellation_is_taken_rightly() -> None:
    life = Life().asked("a").step("a", "INITIAL_PENDING").claimed("a", "l1").asked("a", "cancel")
    life.step("a", "CANCELLING").asked("a", "acknowledge_cancellation").step("a", "STOPPED")
    life.asked("a", "stop_job", lease="l1")
    assert "nothing is taken from a former holder" not in violated(life.history())


def test_a_kill_is_not_held_against_a_later_process_of_the_same_number() -> None:
    life = Life().step("a", "INITIAL_PENDING").claimed("a", "1", assignee="host:7:x")
    killed_at = life.now + 0.5
    life.step("a", "UNKNOWN_RETRY", lapses=1).claimed("a", "2", assignee="host:7:y")
    life.now += 60
    life.step("a", "UNKNOWN_RETRY", lapses=2).claimed("a", "3", assignee="host:8:z")
    found = recoveries(life.history().stories().values(), [(killed_at, 7)])
    assert found == [pytest.approx(1.5)]
