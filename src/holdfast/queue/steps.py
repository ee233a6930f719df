"""Verbs as steps: a verb says what to ask of the database, one call after the other, and makes its answer.

So each verb is written once. `Queue` awaits the calls and `SyncQueue` blocks on them; neither decides.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

from holdfast.store import Call

R = TypeVar("R")

Steps: TypeAlias = Generator[Call[Any], Any, R]
"""A verb on its way: it yields a call, is sent the answer, and returns what the verb answers."""


def ask(call: Call[R]) -> Steps[R]:
    """Ask one thing, and have the type of its answer."""
    answer: R = yield call
    return answer
