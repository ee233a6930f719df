"""A worker's stream that claims a job anew of which its worker has not let go: what was done counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from holdfast.domain.job import ClaimedJob
from holdfast.domain.outcome import COMPLETED
from holdfast.queue import stream as module
from holdfast.queue.stream import OpenStream, Owners
from holdfast.queue.terms import stream_terms
from holdfast.store import Extension, Hold

LEASE_S = 30.0
NOW = datetime.now(UTC)


class Reader:
    """A stream with a clock that tests move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, for_worker: bool = True) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module, "monotonic", lambda: self.now)
        terms = stream_terms("me", (), 5, ("default",), LEASE_S, for_worker=for_worker)
        self.stream = OpenStream(terms, lambda: None, _tell, Owners())
        self.lost: list[str] = []
        self.stream.on_lost(self.lost.append)

    def claim(self, lease_id: str) -> None:
        self.stream.assign([_job(lease_id)])

    def hear(self, lease_id: str, hold: Hold) -> bool:
        return self.stream.heard([(lease_id, Extension("j1", hold, None, None, False))])


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    reader = Reader(monkeypatch)
    reader.claim("old")
    assert reader.stream.take() == [_job("old")]
    return reader


def _tell(callback: Callable[[str], object], job_id: str) -> None:
    callback(job_id)


def _job(lease_id: str) -> ClaimedJob:
    return ClaimedJob(
        *("j1", lease_id, "default", "task", None, 0, (), 0, None, (), None, NOW, NOW, None, None, NOW, 1),
        *(NOW, None, None, None, None),
    )


def test_a_job_whose_lease_lapsed_is_told_to_be_resumed_and_not_lost(reader: Reader) -> None:
    reader.now += LEASE_S + 1
    reader.claim("new")

    assert reader.stream.take() == [_job("new")]
    assert reader.stream.take_resumed() == {"j1"}
    assert (reader.stream.take_resumed(), reader.lost) == (set(), [])


def test_a_job_taken_away_from_a_worker_that_keeps_its_leases_is_lost(reader: Reader) -> None:
    reader.now += LEASE_S - 1
    reader.claim("new")

    assert (reader.stream.take_resumed(), reader.lost) == (set(), ["j1"])


def test_an_outcome_that_waits_to_be_told_is_told_under_the_new_lease_and_the_job_is_not_begun(
    reader: Reader,
) -> None:
    reader.stream.report([("j0", "other", COMPLETED), ("j1", "old", COMPLETED)])
    reader.now += LEASE_S + 1
    reader.claim("new")

    assert reader.stream.take() is None
    assert reader.stream.take_reports(9) == [("j0", "other", COMPLETED), ("j1", "new", COMPLETED)]
    assert (reader.stream.take_resumed(), reader.lost) == (set(), [])
    assert reader.stream.held == 1


def test_that_a_lapsed_job_was_claimed_is_believed_the_second_time(reader: Reader) -> None:
    """The first time it may be the worker's own claim, whose answer is on its way."""
    reader.now += LEASE_S + 1
    assert not reader.hear("old", Hold.TAKEN)
    assert reader.stream.has_doubts
    assert reader.lost == []

    assert reader.hear("old", Hold.TAKEN)
    assert reader.lost == ["j1"]


def test_that_a_kept_job_was_claimed_is_believed_at_once(reader: Reader) -> None:
    assert reader.hear("old", Hold.TAKEN)
    assert (reader.stream.has_doubts, reader.lost) == (False, ["j1"])


def test_other_streams_are_told_of_a_loss_and_get_the_job_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(monkeypatch, for_worker=False)
    reader.stream.assign([_job("old")])
    reader.stream.take()
    reader.now += LEASE_S + 1
    reader.claim("new")

    assert (reader.stream.take_resumed(), reader.lost) == (set(), ["j1"])
