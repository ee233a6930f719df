"""What a worker decides without a database: how executions end, and whose word counts."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast.domain.outcome import Completed, Failed, Outcome, Rescheduled, Stopped, StoppedWithRetry
from holdfast.errors import JobCancelled
from holdfast.worker import endings
from holdfast.worker.accounts import Accounts
from holdfast.worker.endings import Died, Ended, Raised, Returned, Stop
from holdfast.worker.execution import Execution
from holdfast.worker.roster import Roster
from holdfast.worker.threads import Threads
from tests.worker.hands import PATIENCE_S

FAILED = Failed("as the policy says")
ERROR = Raised(ValueError("boom"), "trace")
GAVE_WAY = [Raised(asyncio.CancelledError(), ""), Raised(JobCancelled("stop"), "")]


def judge(error: BaseException, trace: str | None) -> Outcome:
    return FAILED


@pytest.mark.parametrize(
    ("stop", "ended", "expected"),
    [
        (None, Returned(1), Completed(1)),
        (None, ERROR, FAILED),
        (None, Died("gone"), FAILED),
        (None, GAVE_WAY[0], FAILED),
        (Stop.LOST, Returned(1), None),
        (Stop.LOST, ERROR, None),
        (Stop.TIMED_OUT, Returned(1), FAILED),
        (Stop.TIMED_OUT, GAVE_WAY[0], FAILED),
        (Stop.CANCELLED, Returned(1), Completed(1)),
        (Stop.CANCELLED, ERROR, StoppedWithRetry("ValueError: boom", "trace")),
        (Stop.CANCELLED, GAVE_WAY[0], Stopped("stopped by a cancellation")),
        (Stop.CANCELLED, GAVE_WAY[1], Stopped("stopped by a cancellation")),
        (Stop.CANCELLED, Died("gone"), Stopped("stopped by a cancellation: gone")),
        (Stop.SHUTDOWN, Returned(1), Completed(1)),
        (Stop.SHUTDOWN, ERROR, FAILED),
        (Stop.SHUTDOWN, GAVE_WAY[0], Rescheduled(reason="shutdown")),
        (Stop.SHUTDOWN, Died("gone"), Rescheduled(reason="shutdown")),
    ],
)
def test_how_a_handler_ended_and_why_it_was_stopped_decide(
    stop: Stop | None, ended: Ended, expected: Outcome | None
) -> None:
    assert endings.outcome_of(ended, stop, 5.0, judge) == expected


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (None, Rescheduled(reason="shutdown")),
        (Stop.SHUTDOWN, Rescheduled(reason="shutdown")),
        (Stop.TIMED_OUT, FAILED),
        (Stop.CANCELLED, None),
        (Stop.LOST, None),
    ],
)
def test_what_is_said_of_a_handler_that_does_not_end(stop: Stop | None, expected: Outcome | None) -> None:
    assert endings.given_up(stop, 5.0, judge) == expected


@pytest.mark.parametrize(
    ("refused", "instead"),
    [
        (Completed(1), Completed(1)),
        (Rescheduled(60, "snooze"), Stopped("stopped by a cancellation")),
        (Failed("boom", "trace", 15), StoppedWithRetry("boom", "trace")),
        (Failed("boom", permanent=True), StoppedWithRetry("boom")),
    ],
)
def test_what_is_said_of_a_job_that_was_cancelled_meanwhile(refused: Outcome, instead: Outcome) -> None:
    assert endings.cancelled_instead(refused) == instead


class Run:
    def __init__(self, job_id: str) -> None:
        self.job = SimpleNamespace(job_id=job_id)
        self.context = SimpleNamespace(stop=None)

    def stop(self, why: Stop) -> None:
        self.context.stop = why


class Runs:
    """Executions that only know how they were stopped."""

    def __init__(self) -> None:
        self.lost: list[object] = []
        accounts = SimpleNamespace(lost=self.lost.append)
        self.roster = Roster(cast("Accounts", accounts))

    def enter(self, job_id: str) -> Any:
        run = Run(job_id)
        self.roster.enter([cast("Execution", run)])
        return run


def test_a_job_claimed_anew_is_not_stopped_by_the_news_that_its_old_lease_is_lost() -> None:
    runs = Runs()
    old = runs.enter("job")
    new = runs.enter("job")  # delivered before the news

    runs.roster.lost("job")

    assert (old.context.stop, new.context.stop) == (Stop.LOST, None)
    assert len(runs.lost) == 1
    assert set(runs.roster.all()) == {old, new}  # the old one has not ended yet
    runs.roster.leave(cast("Execution", old))
    assert runs.roster.all() == [new]
    runs.roster.lost("job")
    assert new.context.stop is Stop.LOST


def test_a_job_claimed_anew_after_the_news_can_be_lost_in_its_turn() -> None:
    runs = Runs()
    old = runs.enter("job")
    runs.roster.lost("job")
    new = runs.enter("job")

    assert (old.context.stop, new.context.stop) == (Stop.LOST, None)
    runs.roster.lost("job")
    assert new.context.stop is Stop.LOST


def test_a_handler_that_never_ends_keeps_no_other_from_a_thread() -> None:
    threads = Threads()
    stuck, ran = threading.Event(), threading.Semaphore(0)
    for _ in range(20):
        threads.run(lambda: cast("None", stuck.wait(PATIENCE_S)))
    for _ in range(20):
        threads.run(ran.release)

    assert all(ran.acquire(timeout=PATIENCE_S) for _ in range(20))
    stuck.set()
    threads.close()


def test_threads_are_used_again_and_end_when_the_pool_is_closed() -> None:
    threads = Threads("test pool")
    done = threading.Event()
    for _ in range(50):
        done.clear()
        threads.run(done.set)
        assert done.wait(PATIENCE_S)
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("test pool")]
    threads.close()
    for thread in ours:
        thread.join(PATIENCE_S)

    assert 1 <= len(ours) < 10, "each job had a thread of its own"
    assert not any(thread.is_alive() for thread in ours)
