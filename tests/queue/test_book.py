"""Capacity, as pure bookkeeping: room is taken when it is asked for, and comes back when a job leaves."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from holdfast.domain.job import ClaimedJob
from holdfast.domain.outcome import COMPLETED
from holdfast.queue.book import Book
from holdfast.queue.values import Job, job_from_claim

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def claimed(job_id: str, lease_id: str = "lease") -> Job:
    job = ClaimedJob(
        job_id=job_id,
        lease_id=lease_id,
        queue="default",
        task=None,
        payload=None,
        priority=0,
        tags=(),
        attempts=0,
        max_attempts=None,
        resource_keys=(),
        singleton_key=None,
        available_at=NOON,
        lease_expires_at=NOON,
        timeout_s=None,
        retry=None,
        created_at=NOON,
        number=1,
        started_at=NOON,
        last_retry_at=None,
        expires_at=None,
        error_message=None,
        if_parent_fails=None,
    )
    return job_from_claim(job, "me", 30.0)


def test_room_is_taken_when_a_claim_is_asked_for_not_when_it_answers() -> None:
    book = Book(5)
    assert book.ask(3) == 3
    assert book.room == 2
    assert book.ask(3) == 0  # one claim at a time: a second could bring what the first brings


def test_an_outcome_told_for_a_job_that_was_lost_frees_no_slot() -> None:
    book = Book(2)
    book.ask(2)
    book.assign([claimed("a", "a1"), claimed("b", "b1")], now=1.0)
    book.deliver()
    told = [("a", "a1", COMPLETED), ("b", "b1", COMPLETED)]
    assert book.slots_of(told) == 2

    book.free("a")  # somebody else has it now
    assert book.slots_of(told) == 1
    book.lapse("b", "b1")
    assert book.slots_of(told) == 0


def test_a_second_claim_may_ask_for_what_it_frees_while_the_first_has_arrived_and_is_not_entered() -> None:
    book = Book(4)
    book.ask(2)
    book.assign([claimed("a", "a1"), claimed("b", "b1")], now=1.0)
    assert book.ask(2) == 2
    assert book.ask(9, freeing=2, arrived=2) == 2
    assert book.ask(9, freeing=2, arrived=2) == 0  # that would be the third

    book.free("a", "a1")
    book.free("b", "b1")
    book.assign([claimed("c"), claimed("d")], now=2.0, asked=2)
    assert (book.asked, book.room) == (2, 0)
    book.assign([claimed("e")], now=3.0, asked=2)
    assert (book.asked, book.room) == (0, 1)


def test_what_a_claim_did_not_bring_is_room_again() -> None:
    book = Book(5)
    book.ask(5)
    book.assign([claimed("a"), claimed("b")], now=1.0)
    assert book.room == 3


def test_a_job_keeps_its_slot_when_it_is_delivered() -> None:
    book = Book(2)
    book.ask(2)
    book.assign([claimed("a"), claimed("b")], now=1.0)
    assert [job.id for job in book.deliver()] == ["a", "b"]
    assert book.deliver() == []
    assert book.room == 0


def test_only_a_lease_that_has_a_slot_frees_one_when_it_is_settled() -> None:
    book = Book(3)
    book.ask(3)
    book.assign([claimed("a", "a1"), claimed("b", "b1"), claimed("c", "c1")], now=1.0)
    book.deliver()
    book.lapse("a", "a1")  # its slot is free already, though its outcome is still to be written down
    book.assign([claimed("b", "b2")], now=2.0)  # ours again, under another lease
    settlements = [(job_id, f"{job_id}1", COMPLETED) for job_id in "abcd"]
    assert book.slots_of(settlements) == 1
    assert book.ask(10, book.slots_of(settlements)) == 2


@pytest.mark.parametrize("is_any_lapsed", [False, True])
def test_settled_jobs_leave_if_they_are_held_under_the_lease_named_and_are_not_kept(
    is_any_lapsed: bool,
) -> None:
    book = Book(6)
    book.ask(6)
    book.assign([claimed(job_id, f"{job_id}1") for job_id in "abcdef"], now=1.0)
    book.withdraw("e")  # never delivered, and to be handed back
    book.deliver()
    book.assign([claimed("b", "b2")], now=2.0)  # ours again, under another lease; not delivered
    if is_any_lapsed:
        book.lapse("f", "f1")
    settlements = [(job_id, f"{job_id}1", COMPLETED) for job_id in "abcdefg"]

    assert book.free_settled(settlements, {"d"}) == ["a", "c", "e", "f"]

    assert book.free_settled([("d", None, COMPLETED)]) == ["d"]  # unguarded
    assert (list(book.entries), list(book.waiting)) == (["b"], ["b"])
    assert (book.unwanted, book.lapsed) == ({}, {})


def test_settled_jobs_leave_at_once_where_none_is_kept() -> None:
    book = Book(3)
    book.ask(3)
    book.assign([claimed(job_id, f"{job_id}1") for job_id in "abc"], now=1.0)
    book.deliver()
    book.assign([claimed("b", "b2")], now=2.0)
    settlements = [(job_id, f"{job_id}1", COMPLETED) for job_id in "abc"]
    assert book.free_settled(settlements) == ["a", "c"]
    assert (list(book.entries), book.room) == (["b"], 2)


def test_settled_jobs_are_taken_apart_when_the_next_claim_is_entered_whatever_it_brought() -> None:
    book = Book(2)
    book.assign([claimed("a", "1"), claimed("b", "2")], 0.0)
    book.deliver()
    book.free_settled([("a", "1", COMPLETED), ("b", "2", COMPLETED)])
    assert [entry.job.id for entry in book.leaving] == ["a", "b"]
    assert book.room == 2
    book.assign([], 1.0)
    assert book.leaving == []


def test_a_slot_is_free_when_its_job_has_left_and_only_once() -> None:
    book = Book(1)
    book.ask(1)
    book.assign([claimed("a")], now=1.0)
    assert book.free("a") is not None
    assert book.free("a") is None
    assert book.room == 1


def test_a_forfeited_slot_is_never_given_back() -> None:
    book = Book(2)
    book.ask(2)
    book.assign([claimed("a"), claimed("b")], now=1.0)
    book.forfeit("a")
    book.free("a")
    book.free("b")
    assert book.room == 1


def test_a_lease_that_is_not_held_any_more_frees_nothing() -> None:
    book = Book(1)
    book.ask(1)
    book.assign([claimed("a", "new")], now=1.0)
    assert book.free("a", "old") is None
    assert book.room == 0


def test_a_job_claimed_again_after_its_lapse_is_one_job_and_the_old_hold_is_named() -> None:
    book = Book(3)
    book.ask(3)
    book.assign([claimed("a", "old")], now=1.0)
    book.deliver()
    book.ask(2)
    assert [old.lease_id for old in book.assign([claimed("a", "new")], now=2.0)] == ["old"]
    assert book.room == 2
    assert [job.lease_id for job in book.deliver()] == ["new"]


def test_a_claim_that_is_entered_twice_counts_once() -> None:
    book = Book(3)
    book.ask(3)
    book.assign([claimed("a")], now=1.0)
    book.deliver()
    assert book.assign([claimed("a")], now=2.0) == []
    assert book.deliver() == []
    assert book.room == 2


def test_jobs_that_wait_long_for_the_reader_are_known() -> None:
    book = Book(3)
    book.ask(1)
    book.assign([claimed("old")], now=1.0)
    book.ask(1)
    book.assign([claimed("new")], now=2.0)
    assert [entry.job.id for entry in book.unseen_since(1.5)] == ["old"]


def test_at_the_end_only_what_was_not_delivered_is_withdrawn_and_keeps_its_slot() -> None:
    book = Book(3)
    book.ask(1)
    book.assign([claimed("delivered")], now=1.0)
    book.deliver()
    book.ask(1)
    book.assign([claimed("waiting")], now=1.0)
    book.withdraw_all()
    assert list(book.unwanted) == ["waiting"]
    assert book.deliver() == []
    assert book.room == 1
    book.free("waiting")
    assert list(book.entries) == ["delivered"]
    assert (book.unwanted, book.room) == ({}, 2)


def test_a_delivered_job_that_lapsed_has_no_slot_and_is_remembered() -> None:
    book = Book(1)
    book.ask(1)
    book.assign([claimed("a", "old")], now=1.0)
    book.deliver()
    assert not book.lapse("a", "older")
    assert book.lapse("a", "old")
    assert book.room == 1
    book.ask(1)
    assert [old.lease_id for old in book.assign([claimed("a", "new")], now=2.0)] == ["old"]
    assert (book.room, book.lapsed) == (0, {})


def test_a_job_that_is_settled_here_and_claimed_again_was_not_lost() -> None:
    book = Book(1)
    book.ask(1)
    book.assign([claimed("a", "old")], now=1.0)
    book.deliver()
    book.entries["a"].settling_at = 1.5
    book.asked = 1
    assert book.assign([claimed("a", "new")], now=2.0) == []


def test_a_job_of_which_nothing_was_heard_for_too_long_is_not_delivered() -> None:
    book = Book(3)
    book.ask(3)
    book.assign([claimed("old")], now=1.0)
    book.assign([claimed("new")], now=2.0)
    book.assign([claimed("unknown")], now=2.0, is_news=False)
    assert [job.id for job in book.deliver(1.5)] == ["new"]
    assert list(book.waiting) == ["old", "unknown"]


def test_what_never_reached_its_reader_is_handed_back_and_keeps_its_slot_until_then() -> None:
    book = Book(2)
    book.ask(2)
    book.assign([claimed("a"), claimed("b")], now=1.0)
    book.deliver()
    assert book.take_back("a", "lease")
    assert not book.take_back("b", "another lease")
    assert not book.take_back("a", "lease")  # it is not delivered any more
    assert list(book.unwanted) == ["a"]
    assert book.room == 0
    book.free("a", "lease")
    assert (book.room, list(book.unwanted)) == (1, [])


def test_what_a_reader_brings_from_an_earlier_stream_takes_slots_even_beyond_the_capacity() -> None:
    book = Book(2)
    for name in ("a", "b", "c"):
        book.adopt(claimed(name), now=1.0, cancelling=False)
    assert book.room == -1
    assert book.ask(5) == 0
    assert book.deliver() == []  # the reader has them already
    book.free("a")
    book.free("b")
    assert book.ask(5) == 1


class Bookkeeping(RuleBasedStateMachine):
    """Whatever happens in whatever order: as many slots as jobs held in the database, and never too many."""

    def __init__(self) -> None:
        super().__init__()
        self.book = Book(5)
        self.asked = 0
        self.held: set[str] = set()
        self.forfeits = 0
        self.number = 0

    @rule(most=st.integers(1, 8))
    def ask(self, most: int) -> None:
        got = self.book.ask(most)
        if not self.asked:
            self.asked = got

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def assign(self, data: st.DataObject) -> None:
        ids = [f"job {self.number + place}" for place in range(data.draw(st.integers(0, self.asked)))]
        self.number += len(ids)
        self.held |= set(ids)
        self.asked = 0
        self.book.assign([claimed(job_id) for job_id in ids], now=float(self.number))

    @rule()
    def deliver(self) -> None:
        assert {job.id for job in self.book.deliver()} <= self.held

    @precondition(lambda self: self.held)
    @rule(data=st.data(), forfeit=st.booleans())
    def leave(self, data: st.DataObject, forfeit: bool) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.held)))
        self.held.discard(job_id)
        if forfeit:
            self.forfeits += 1
            self.book.forfeit(job_id)
        else:
            self.book.free(job_id)

    @invariant()
    def slots_are_counted(self) -> None:
        assert self.book.room == 5 - len(self.held) - self.forfeits - self.asked
        assert len(self.held) + self.forfeits <= 5
        assert set(self.book.entries) == self.held
        assert set(self.book.waiting) <= self.held


TestBookkeeping = Bookkeeping.TestCase
