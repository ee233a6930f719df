"""Waiting for something that another process or thread is about to do."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

R = TypeVar("R")


def eventually(look: Callable[[], R | None], within_s: float = 20.0) -> R:
    """Look until there is something to see."""
    deadline = time.monotonic() + within_s
    while not (seen := look()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return seen
