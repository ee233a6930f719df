"""What a feeder does while the database cannot be had: pause, ever longer, and say so once each way."""

from __future__ import annotations

import logging
import random
from math import inf
from time import monotonic
from typing import Final

logger: Final = logging.getLogger("holdfast.queue")

SHORTEST_S: Final = 0.2
LONGEST_S: Final = 5.0

DATABASE_LOST: Final = "database.lost"
DATABASE_BACK: Final = "database.back"
"""The events of log lines, once each however long it takes."""


class Setbacks:
    """How often in a row it did not work, and when to try again."""

    def __init__(self) -> None:
        self.paused_until = -inf
        self._failures = 0

    def pause(self, reason: str) -> None:
        """It did not work: wait, twice as long as the last time."""
        self._failures += 1
        longest_s = min(LONGEST_S, SHORTEST_S * 2 ** min(self._failures - 1, 10))
        self.paused_until = monotonic() + longest_s * random.uniform(0.5, 1.0)  # noqa: S311
        if self._failures == 1:
            logger.warning(
                "streams cannot claim: %s; trying again until it works",
                reason,
                extra={"event": DATABASE_LOST},
            )

    def recover(self) -> None:
        """It works."""
        if self._failures:
            logger.info(
                "streams claim again, after %d failed attempts",
                self._failures,
                extra={"event": DATABASE_BACK},
            )
            self._failures = 0
            self.paused_until = -inf
