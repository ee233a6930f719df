"""The checker has teeth: a history that is in order passes, and each thing that must never be is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.domain.states import JobState as S
from tests.queue.stress.checker import check
from tests.queue.stress.history import Call, Change, Delivery, History, Journal, Row, Said, read_journals

STREAM = 7


def call(verb: str, job: str, at: float, lease: str | None = None, said: Said = Said.OK) -> Call:
    return Call("p0-thread1", verb, job, lease, at - 0.1, at + 0.1, said)


def change(
    seq: int, job: str, state: S, lease: str | None = None, attempts: int = 0, forfeited: int | None = None
) -> Change:
    """Number and time are the same here, which makes stories easy to read."""
    return Change(seq, float(seq), job, state, lease, STREAM if lease else None, "B", attempts, 0, forfeited)


def in_order() -> History:
    """Three jobs: one fails once and is completed, one is cancelled in the line, one while it runs."""
    return History(
        calls=[
            call("enqueue_job", "a", 1),
            call("enqueue_jobs", "b", 2),
            call("enqueue_jobs", "c", 3),
            call("fail_job", "a", 12, "a1"),
            call("complete_job", "a", 14, "a2"),
            call("complete_job", "a", 15, "a1", Said.NO),
            call("cancel_jobs", "b", 20),
            call("cancel_jobs", "c", 32),
            call("acknowledge_not_executing", "c", 33, "c1"),
        ],
        deliveries=[
            Delivery("p0-thread1", "B", "a", "a1", 11.5),
            Delivery("p0-thread1", "B", "a", "a2", 13.5),
            Delivery("p0-thread1", "B", "c", "c1", 31.5),
        ],
        capacities={"B": 1},
        changes=[
            change(1, "a", S.INITIAL_PENDING),
            change(2, "b", S.INITIAL_PENDING),
            change(3, "c", S.INITIAL_PENDING),
            change(11, "a", S.RUNNING, "a1"),
            change(12, "a", S.FAILED_RETRY, attempts=1),
            change(13, "a", S.RUNNING, "a2", attempts=1),
            change(14, "a", S.COMPLETED, "a2", attempts=1),
            change(20, "b", S.UNSCHEDULED),
            change(31, "c", S.RUNNING, "c1"),
            change(32, "c", S.CANCELLING, "c1"),
            change(33, "c", S.UNKNOWN_STOPPED, "c1", forfeited=STREAM),
        ],
        rows=[
            Row("a", True, S.COMPLETED, 1),
            Row("b", True, S.UNSCHEDULED, 0),
            Row("c", True, S.UNKNOWN_STOPPED, 0),
        ],
        most_held={(STREAM, "B"): 1},
    )


def kinds(history: History) -> set[str]:
    return {violation.kind for violation in check(history).violations}


def test_a_history_that_is_in_order_has_no_violations() -> None:
    found = check(in_order())
    assert not found.violations, found.violations
    assert found.figures["claims"] == 3
    assert found.figures["slots forfeited"] == 1


Doctor = Callable[[History], History]


def without_change(*seqs: int) -> Doctor:
    return lambda h: replace(h, changes=[each for each in h.changes if each.seq not in seqs])


def with_change(*more: Change) -> Doctor:
    return lambda h: replace(h, changes=[*h.changes, *more])


def without_calls(*verbs: str) -> Doctor:
    return lambda h: replace(h, calls=[each for each in h.calls if each.verb not in verbs])


def with_call(*more: Call) -> Doctor:
    return lambda h: replace(h, calls=[*h.calls, *more])


def with_delivery(*more: Delivery) -> Doctor:
    return lambda h: replace(h, deliveries=[*h.deliveries, *more])


def changed(seq: int, **fields: Any) -> Doctor:
    return lambda h: replace(
        h, changes=[replace(each, **fields) if each.seq == seq else each for each in h.changes]
    )


def with_row(job: str, row: Row | None) -> Doctor:
    return lambda h: replace(h, rows=[*(each for each in h.rows if each.job != job), *([row] if row else [])])


def said(verb: str, answer: Said) -> Doctor:
    return lambda h: replace(
        h, calls=[replace(each, said=answer) if each.verb == verb else each for each in h.calls]
    )


def also(*doctors: Doctor) -> Doctor:
    def doctor(history: History) -> History:
        for each in doctors:
            history = each(history)
        return history

    return doctor


DOCTORED: dict[str, tuple[str, Doctor]] = {
    "an acknowledged job is gone": ("lost", with_row("a", None)),
    "a job is in the line and in the archive": (
        "doubled",
        lambda h: replace(h, rows=[*h.rows, Row("a", False, S.DEAD, 1)]),
    ),
    "nobody enqueued it": ("phantom", without_calls("enqueue_job")),
    "its enqueue was refused": ("phantom", said("enqueue_job", Said.NO)),
    "it never ended": ("unfinished", with_row("c", Row("c", False, S.RUNNING, 0))),
    "it ended in the wrong place": ("misplaced", with_row("c", Row("c", False, S.UNKNOWN_STOPPED, 0))),
    "its end is not what happened last": ("unexplained", with_row("b", Row("b", True, S.STOPPED, 0))),
    "it ended and nobody said so": ("unexplained", without_calls("complete_job")),
    "it ended though the call was refused": ("unexplained", said("acknowledge_not_executing", Said.NO)),
    "a settle under the old lease changed it": (
        "unexplained",
        lambda h: replace(
            h, calls=[replace(each, lease="a1") if each.lease == "a2" else each for each in h.calls]
        ),
    ),
    "the call was long over when it happened": ("unexplained", changed(14, at=19.0)),
    "a call was taken and did nothing": ("unheeded", with_call(call("stop_job", "b", 5))),
    "two calls were taken and one thing happened": (
        "unheeded",
        with_call(call("fail_job", "a", 12.05, "a1")),
    ),
    "it was handed out while another held it": (
        "two leases",
        also(without_change(12), changed(13, attempts=0), changed(14, attempts=0)),
    ),
    "one lease was given out twice": ("two leases", changed(13, lease="a1")),
    "one lease was delivered twice": (
        "delivered twice",
        with_delivery(Delivery("p1-task1", "B", "a", "a2", 13.6)),
    ),
    "it was delivered without a claim": ("phantom", with_delivery(Delivery("p1-task1", "B", "b", "b1", 4.0))),
    "it was delivered to another than claimed it": (
        "phantom",
        lambda h: replace(h, deliveries=[replace(each, assignee="D") for each in h.deliveries]),
    ),
    "it was delivered again after it was completed": (
        "delivered after the end",
        also(
            with_change(change(16, "a", S.RUNNING, "a3", attempts=1)),
            with_delivery(Delivery("p1-task1", "B", "a", "a3", 16.5)),
        ),
    ),
    "it was completed, then something else": ("illegal", with_change(change(16, "a", S.STOPPED, "a2", 1))),
    "it was delivered long after others had ended it": (
        "delivered after the end",
        lambda h: replace(h, deliveries=[replace(each, at=each.at + 20) for each in h.deliveries]),
    ),
    "a stream held one too many": (
        "capacity",
        also(changed(33, forfeited=None), lambda h: replace(h, capacities={"B": 0})),
    ),
    "a forfeited slot was used again": (
        "capacity",
        also(
            with_call(call("enqueue_job", "d", 34), call("complete_job", "d", 36, "d1")),
            with_change(
                change(34, "d", S.INITIAL_PENDING),
                change(35, "d", S.RUNNING, "d1"),
                change(36, "d", S.COMPLETED, "d1"),
            ),
            with_row("d", Row("d", True, S.COMPLETED, 0)),
        ),
    ),
    "more were seen held than a stream may": (
        "capacity",
        lambda h: replace(h, most_held={(STREAM, "B"): 2}),
    ),
    "a slot was not forfeited": ("forfeit", changed(33, forfeited=None)),
    "an attempt was counted twice": ("attempts", changed(12, attempts=2)),
    "an attempt was not counted": (
        "attempts",
        also(changed(12, attempts=0), changed(13, attempts=0), changed(14, attempts=0)),
    ),
    "a lease lapsed though its queue lived": (
        "lapsed",
        also(changed(12, state=S.UNKNOWN_RETRY, attempts=0, lapses=1, lease="a1"), without_calls("fail_job")),
    ),
    "a delivered job was handed back as undelivered": (
        "unexplained",
        also(without_calls("fail_job"), changed(12, attempts=0)),
    ),
    "there was a deadlock": ("deadlock", lambda h: replace(h, deadlocks=1)),
    "a session was left behind": ("leak", lambda h: replace(h, sessions=1)),
}


@pytest.mark.parametrize(("kind", "doctor"), DOCTORED.values(), ids=DOCTORED)
def test_what_must_never_be_is_found(kind: str, doctor: Doctor) -> None:
    assert kind in kinds(doctor(in_order()))


HARMLESS: dict[str, Doctor] = {
    "a call whose answer was lost may have worked": said("complete_job", Said.UNKNOWN),
    "a call whose answer was lost may have done nothing": with_call(
        call("stop_job", "a", 13, None, Said.UNKNOWN)
    ),
    "who repeats what it said is told that it is so": with_call(
        call("complete_job", "a", 40, "a2", Said.ALREADY)
    ),
    "a cancellation may be repeated while the first is under way": with_call(call("cancel_jobs", "c", 32.5)),
    "what was never delivered goes back by itself": also(
        without_calls("fail_job"),
        lambda h: replace(h, deliveries=[each for each in h.deliveries if each.lease != "a1"]),
        changed(12, attempts=0),
        changed(13, attempts=0),
        changed(14, attempts=0),
    ),
    "a worker may be declared gone": also(
        without_calls("fail_job"),
        changed(12, state=S.UNKNOWN_RETRY, attempts=0, lease="a1"),
        changed(13, attempts=0),
        changed(14, attempts=0),
        with_call(call("mark_worker_unresponsive", "B", 12)),
    ),
    "a worker may be declared gone while a release is under way, which then hits the next holder": also(
        without_calls("fail_job"),
        with_change(change(4, "a", S.RUNNING, "a0"), change(5, "a", S.UNKNOWN_RETRY, "a0")),
        with_delivery(Delivery("p0-thread1", "B", "a", "a0", 4.5)),
        with_call(
            call("mark_worker_unresponsive", "B", 5),
            Call("p0-thread1", "release", "a", None, 4.6, 12.1, Said.OK),
        ),
        changed(12, state=S.UNKNOWN_RETRY, attempts=0, lease="a1"),
        changed(13, attempts=0),
        changed(14, attempts=0),
    ),
    "who names no lease may begin as another hands back, be answered first, and hit the next holder": also(
        without_calls("fail_job"),
        with_change(change(4, "a", S.RUNNING, "a0"), change(5, "a", S.FAILED_RETRY, attempts=1)),
        with_delivery(Delivery("p0-thread1", "B", "a", "a0", 4.5)),
        with_call(
            Call("p0-thread1", "requeue_job", "a", "a0", 4.9, 12.5, Said.OK),
            Call("p0-thread2", "fail_job", "a", None, 5.0004, 12.1, Said.OK),
        ),
        *(changed(seq, attempts=attempts) for seq, attempts in ((11, 1), (12, 2), (13, 2), (14, 2))),
        lambda h: replace(h, rows=[replace(row, attempts=2) if row.job == "a" else row for row in h.rows]),
    ),
}


@pytest.mark.parametrize("doctor", HARMLESS.values(), ids=HARMLESS)
def test_what_is_only_unusual_is_no_violation(doctor: Doctor) -> None:
    found = check(doctor(in_order()))
    assert not found.violations, found.violations


def test_a_journal_tells_calls_with_their_answers_and_those_that_never_got_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    first = journal.call("me", "complete_jobs", [("a", "a1"), ("b", None)])
    journal.opened("B", 5)
    journal.call("me", "stop_job", [("c", None)])
    journal.delivered("me", "B", [("d", "d1")])
    journal.reply(first, [Said.OK, Said.NO])
    journal.close()
    told = read_journals([tmp_path / "journal"])
    assert [(each.job, each.lease, each.said) for each in told.calls] == [
        ("a", "a1", Said.OK),
        ("b", None, Said.NO),
        ("c", None, Said.UNKNOWN),
    ]
    assert told.calls[2].ended == float("inf")
    assert [(each.job, each.lease) for each in told.deliveries] == [("d", "d1")]
    assert told.capacities == {"B": 5}
