"""What a handle does, as steps: calls of the database and pauses, one after the other.

So each thing is written once. A client awaits the steps or blocks on them; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from holdfast.store import Call

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait so long, then go on."""

    seconds: float


Steps: TypeAlias = Generator[Call[Any] | Pause, Any, R]
"""Something on its way: it yields a call or a pause, is sent the answer, and returns what it comes to."""


def ask(call: Call[R]) -> Steps[R]:
    """Ask one thing, and have the type of its answer."""
    answer: R = yield call
    return answer
