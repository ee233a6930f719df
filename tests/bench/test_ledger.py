"""The ledger is what handlers saw: it must find out a job that two processes ran, and one that nobody ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.bench.ledger import Ledger


@pytest.fixture
def crew(tmp_path: Path) -> list[Ledger]:
    return [Ledger(tmp_path / "ledger", jobs=3, processes=2, mine=mine, stamped=True) for mine in (0, 1)]


def test_processes_see_what_the_others_ran(crew: list[Ledger]) -> None:
    first, second = crew
    first.mark(0)
    second.mark(2)
    assert first.total() == second.total() == 2
    assert not first.each_once()
    second.mark(1)
    assert first.each_once()
    assert all(moment > 0 for moment in first.began_s())


def test_a_job_that_two_processes_ran_is_found_out(crew: list[Ledger]) -> None:
    first, second = crew
    for number in range(3):
        first.mark(number)
    second.mark(1)
    assert not second.each_once()


def test_a_job_that_one_process_ran_twice_is_found_out(crew: list[Ledger]) -> None:
    first, _ = crew
    for number in (0, 1, 2, 2):
        first.mark(number)
    assert not first.each_once()
