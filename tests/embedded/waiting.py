"""Wait for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from holdfast.embedded.places import Layout
from holdfast.embedded.process import is_alive

LIMIT_S = 20.0


def wait_for(condition: Callable[[], bool]) -> None:
    """Look until it is so; for what no signal tells us of."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def stopped(directory: Path) -> bool:
    """True if no process of the directory's server is left."""
    return not is_alive(Layout(directory))
