"""When a line has it written down that it waits, or that it is busy; and when it must look once more."""

from __future__ import annotations

from holdfast.queue.attendance import BUSY_S, PRESENT_S, RENEW_S, Attending
from holdfast.store import Attendance

POLL_S = 5.0


def look(
    line: Attending, at: float, *, jobs: int = 0, is_full: bool = False
) -> tuple[Attendance | None, bool]:
    asked = line.ask(at, POLL_S)
    return asked, line.found(asked, at, jobs=jobs, is_full=is_full)


def waiting() -> Attending:
    line = Attending()
    look(line, 0.0)
    return line


def test_a_line_that_finds_nothing_waits_and_looks_once_more() -> None:
    line = Attending()
    asked, once_more = look(line, 0.0)
    assert asked is not None
    assert asked.waits_s is not None
    assert asked.waits_s > POLL_S
    assert asked.present_s is None
    assert once_more
    assert look(line, 0.001) == (None, False)


def test_a_mark_is_renewed_by_a_poll_before_it_ends_and_needs_no_look_then() -> None:
    line = waiting()
    marks, until = 0, line.waits_until
    for poll in range(1, 20):
        assert poll * POLL_S < until
        asked, once_more = look(line, poll * POLL_S)
        assert not once_more
        if asked is not None:
            marks += 1
            until = poll * POLL_S + (asked.waits_s or 0)
    assert marks < 12


def test_jobs_that_come_one_by_one_change_nothing() -> None:
    line = waiting()
    for tenth in range(1, 40):
        assert look(line, tenth / 10, jobs=1, is_full=True) == (None, False)
        assert look(line, tenth / 10 + 0.01) == (None, False)


def test_a_line_whose_claims_fill_its_room_for_a_while_is_busy_and_says_so_now_and_then() -> None:
    line = waiting()
    said: list[float] = []
    for tick in range(1, 501):
        asked, once_more = look(line, tick / 100, jobs=10, is_full=True)
        assert not once_more
        if asked is not None and asked.present_s is not None:
            assert asked.present_s == PRESENT_S
            said.append(tick / 100)
    assert BUSY_S < said[0] < 2 * BUSY_S
    assert len(said) == 1 + int(5.0 / RENEW_S)


def test_a_busy_line_that_finds_nothing_waits_again_and_looks_once_more() -> None:
    line = waiting()
    for tick in range(1, 101):
        look(line, tick / 100, jobs=10, is_full=True)
    asked, once_more = look(line, 1.02)
    assert asked is not None
    assert once_more


def test_a_look_of_which_nobody_knows_what_came_is_as_if_nobody_waited() -> None:
    line = waiting()
    line.lost()
    asked, once_more = look(line, 1.0)
    assert asked is not None
    assert once_more
