"""What an answer brought is entered once, and nothing of it is kept."""

from __future__ import annotations

from typing import cast
from weakref import ref

from holdfast.domain.outcome import COMPLETED
from holdfast.queue.arrived import Arrived
from holdfast.queue.stream import OpenStream


class Answer:
    """Thousands of jobs."""


def test_what_was_entered_is_let_go_while_the_next_call_is_under_way() -> None:
    answer = Answer()
    gone, entered = ref(answer), list[Answer]()

    def enter(answer: Answer = answer) -> None:
        entered.append(answer)

    arrived = Arrived(enter, cast("OpenStream", None), [("j1", "lease", COMPLETED)], 1)
    del answer, enter

    arrived.enter()
    arrived.enter()

    assert list(map(type, entered)) == [Answer]
    entered.clear()
    assert (gone(), arrived.settled, arrived.asked) == (None, [], 1)
