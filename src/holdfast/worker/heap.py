"""How often a process that does nothing but work looks for garbage.

Python looks for objects that only know each other after every 700 that are new. A busy worker makes hundreds
of thousands a second and leaves no such circles behind. So it looked all the time, now and then through all
that was ever imported: a sixth of its own time, and pauses of 20 ms in which nothing was claimed.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

NEW_OBJECTS: Final = 20_000
"""After so many it looks through the new ones: a few megabytes at most."""


@contextmanager
def seldom_searched() -> Generator[None]:
    """Look less often, and not at what is there already. A choice to look even less often is kept."""
    usual = gc.get_threshold()
    if not gc.isenabled() or not 0 < usual[0] < NEW_OBJECTS or gc.get_freeze_count():
        yield
        return
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        gc.unfreeze()
