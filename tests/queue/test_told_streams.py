"""What the streams of a queue are told by its verbs, and what the database is told of them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

from holdfast import Job, SyncQueue
from holdfast.errors import HoldfastError
from holdfast.queue import base
from holdfast.queue.streams import Streams
from tests.queue.hand import DISTANT, cancelling, hold

HELD = "the lease it is held under"


class Listener(Streams):
    """Streams that hold what the test says, and write down what they hear."""

    def __init__(self, dsn: str, schema: str, *, poll_s: float) -> None:
        super().__init__(dsn, schema, poll_s=poll_s)
        self.owners: dict[str, int] = {}
        self.heard: list[tuple[str, Any]] = []

    def owner_of(self, job_id: str) -> tuple[int, str] | None:
        owner = self.owners.get(job_id)
        return None if owner is None else (owner, HELD)

    def settled(self, holds: Iterable[tuple[str, str]]) -> None:
        self.heard.append(("settled", list(holds)))

    def forfeited(self, job_id: str, lease_id: str) -> None:
        self.heard.append(("forfeited", (job_id, lease_id)))

    def cancelling(self, job_ids: Iterable[str]) -> None:
        self.heard.append(("cancelling", sorted(job_ids)))


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch, database: str) -> Listener:
    listener = Listener(database, "holdfast", poll_s=5)
    monkeypatch.setattr(base, "new_streams", lambda *_: listener)
    return listener


@pytest.fixture
def told(listener: Listener, queue: SyncQueue) -> SyncQueue:
    return queue


ENDINGS: dict[str, tuple[Any, ...]] = {
    "complete_job": (),
    "fail_job": ("boom",),
    "stop_job": (),
    "mark_job_unknown_stopped": (),
    "requeue_job": (),
    "reschedule_job": (DISTANT,),
    "retry_later": (DISTANT,),
    "release": (),
}


@pytest.mark.parametrize("verb", ENDINGS)
def test_an_ending_is_told_to_the_streams(told: SyncQueue, listener: Listener, verb: str) -> None:
    """With the lease it ended: by the time they hear of it the job may be held under another."""
    hold(told)
    listener.owners = {"job": 1}

    getattr(told, verb)("job", *ENDINGS[verb])

    # Who releases a job is not its holder: its stream hears of it as of what others do.
    assert listener.heard == ([] if verb == "release" else [("settled", [("job", HELD)])])


def test_an_ending_under_a_lease_is_told_with_this_lease(told: SyncQueue, listener: Listener) -> None:
    lease_id = hold(told).lease_id
    listener.owners = {"job": 1}

    told.complete_job("job", lease_id=lease_id)

    assert listener.heard == [("settled", [("job", lease_id)])]


@pytest.mark.parametrize("verb", ENDINGS)
def test_an_ending_that_is_refused_is_not_told(told: SyncQueue, listener: Listener, verb: str) -> None:
    told.enqueue_job(Job("waiting"))
    for job_id in ("waiting", "nobody"):
        with suppress(HoldfastError):
            assert getattr(told, verb)(job_id, *ENDINGS[verb]) is False

    assert listener.heard == []


def test_an_acknowledgement_frees_the_slot_only_if_the_job_was_executing(
    told: SyncQueue, listener: Listener
) -> None:
    for job_id in ("a", "b", "c", "d", "e"):
        cancelling(told, job_id)
    listener.heard.clear()
    listener.owners = dict.fromkeys("abcde", 1)

    told.acknowledge_cancellation("a", True)
    told.acknowledge_cancellation("b", False)
    told.stop_job_with_retry("c")
    told.acknowledge_cancellations([("d", False), ("e", True)])

    assert listener.heard == [
        ("settled", [("a", HELD)]),
        ("forfeited", ("b", HELD)),
        ("settled", [("c", HELD)]),
        ("forfeited", ("d", HELD)),
        ("settled", [("e", HELD)]),
    ]


def test_a_cancellation_is_told_with_the_jobs_it_concerns(told: SyncQueue, listener: Listener) -> None:
    hold(told, "running")
    told.enqueue_job(Job("waiting"))

    told.cancel_jobs(job_ids=["running", "waiting", "nobody"])
    told.cancel_jobs(job_ids=["nobody"])

    assert listener.heard == [("cancelling", ["running", "waiting"])]


def test_a_batch_is_one_call_for_each_stream_and_answers_in_the_order_given(
    told: SyncQueue, listener: Listener
) -> None:
    ids = [f"job-{number}" for number in range(6)]
    for job_id in ids:
        hold(told, job_id)
    listener.owners = {"job-0": 1, "job-1": 2, "job-3": 1}

    verdicts = told.complete_jobs([(job_id, None) for job_id in ids])

    assert [verdict.job_id for verdict in verdicts] == ids
    assert all(verdict.ok for verdict in verdicts)
    assert listener.heard == [
        ("settled", [("job-0", HELD), ("job-3", HELD)]),
        ("settled", [("job-1", HELD)]),
    ]


def signalled(conn: psycopg.Connection[Any]) -> bool:
    """Whether a signal came before one of our own, which comes after everything committed until now."""
    conn.execute("""notify "holdfast.freed", 'ours'""")
    (first, *_) = conn.notifies(timeout=30, stop_after=1)
    return first.payload == ""


@pytest.mark.parametrize("verb", ENDINGS)
def test_the_database_signals_freed_room_only_when_the_owner_is_somebody_else(
    told: SyncQueue, listener: Listener, conn: psycopg.Connection[Any], verb: str
) -> None:
    told.enqueue_jobs([Job("mine"), Job("theirs")])
    conn.execute("select from holdfast.claim_jobs('w', array['default'], 2, p_stream_id => 7)")
    conn.execute('listen "holdfast.freed"')

    listener.owners = {"mine": 7}
    getattr(told, verb)("mine", *ENDINGS[verb])
    # Whoever releases a job takes its holder for gone: that is never the owner's own word.
    assert signalled(conn) == (verb == "release")

    getattr(told, verb)("theirs", *ENDINGS[verb])
    assert signalled(conn)
