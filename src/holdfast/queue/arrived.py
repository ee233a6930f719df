"""An answer that has arrived, on its way into the books (decision 14)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from holdfast.queue.stream import OpenStream
from holdfast.store import Settlement

logger: Final = logging.getLogger("holdfast.queue")


class Arrived:
    """What a call settled and claimed, to be entered: while the next one is under way, or at once.

    To read and enter an answer takes Python as long as the server takes for half of the next one.
    """

    def __init__(
        self, enter: Callable[[], None], stream: OpenStream, settled: list[Settlement], asked: int
    ) -> None:
        self.stream: Final = stream
        self.settled = settled
        """What it wrote down: their slots are free, and are counted as taken until it is entered."""
        self.asked: Final = asked
        """The slots it reserved, as many as it may have brought jobs."""
        self.is_lost = False
        """Whether it could not be read: the database has to be asked what it was."""
        self._enter = enter
        self._is_entered = False

    def enter(self) -> None:
        """Read and enter it, unless that was done. Raises nothing."""
        if self._is_entered:
            return
        self._is_entered = True
        try:
            self._enter()
        except Exception:
            logger.exception("what a claim brought cannot be read; the database is asked once more")
            self.is_lost = True
        # Thousands of values: to let go of them takes time, and now the server works.
        self._enter, self.settled = _nothing, []


def _nothing() -> None:
    """What has been entered."""
