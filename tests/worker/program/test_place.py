"""When a worker process that died is replaced."""

from __future__ import annotations

import os
import signal
from time import monotonic

import pytest

from holdfast.worker import place as places
from holdfast.worker.place import Place, how_it_ended


def test_the_first_death_is_mended_at_once_and_those_soon_after_ever_later() -> None:
    place = Place(1)
    assert [place.plan_another() for _ in range(9)] == [0, 0.5, 1, 2, 4, 8, 16, 30, 30]


def test_a_process_that_worked_for_a_while_is_replaced_at_once() -> None:
    place = Place(1, is_ready=True, deaths=5, began_at=monotonic() - places.STEADY_S - 1)
    assert place.plan_another() == 0
    assert place.is_ready is False


def test_one_that_never_worked_does_not_count_as_steady_however_long_it_took() -> None:
    place = Place(1, is_ready=False, deaths=5, began_at=monotonic() - 1000)
    assert place.plan_another() == 8


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exited with code 0"),
        (-signal.SIGKILL, "was killed by SIGKILL"),
        (-200, "was killed by signal 200"),
    ],
)
def test_an_end_is_told_in_words(code: int, words: str) -> None:
    assert how_it_ended(code) == words


def test_a_program_that_cannot_be_started_leaves_nothing_open() -> None:
    place = Place(1)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        place.start(["/there/is/no/such/program"], {})
    assert len(os.listdir("/proc/self/fd")) == before
