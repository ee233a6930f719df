"""What the database knows of a line: that it waits for signals, or that it is busy.

While somebody takes jobs of a queue and nobody waits, submits send no signal: PostgreSQL lets transactions
that signal commit one after the other. So a line that found nothing has it written down that it waits, with
the look itself, and looks once more: whoever saw nobody wait may have committed meanwhile. The mark outlasts
the poll, which renews it; jobs that come one by one neither need it anew nor take it away. A line that has
had its hands full for a while takes it back. Hints about hints: what goes wrong here is found by the poll.

Pure bookkeeping, without a clock, under the feeder's lock.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from math import inf
from typing import Final

from holdfast.store.values import Attendance

MARGIN_S: Final = 2.0
"""How much longer than the next poll a mark must last."""

BUSY_S: Final = 0.25
"""How long every claim has filled its room before a line counts as busy."""

PRESENT_S: Final = 10.0
RENEW_S: Final = 2.0
"""How long a busy line is known to be there, and how often it says so again."""


@dataclass(slots=True)
class Attending:
    """What was written down for one line, as far as this process knows."""

    listener: int = field(default_factory=lambda: secrets.randbits(62) + 1)
    waits_until: float = -inf
    renew_at: float = -inf
    full_since: float = inf

    def ask(self, now: float, poll_s: float) -> Attendance | None:
        """What the next look is to have written down; None: nothing."""
        is_busy = now - self.full_since > BUSY_S
        is_news = is_busy and (self.waits_until > now or now >= self.renew_at)
        if not is_news and self.waits_until >= now + poll_s + MARGIN_S:
            return None
        return Attendance(self.listener, 2 * (poll_s + MARGIN_S), PRESENT_S if is_news else None)

    def lost(self) -> None:
        """Nobody knows what came of a look."""
        self.waits_until = -inf

    def found(self, asked: Attendance | None, began: float, *, jobs: int, is_full: bool) -> bool:
        """Enter what a look came to that began then; True if one more is needed at once."""
        self.full_since = min(self.full_since, began) if is_full else inf
        if asked is None:
            return False
        if jobs:
            if asked.present_s is not None:
                self.waits_until = -inf
                self.renew_at = began + RENEW_S
            return False
        was_waiting = self.waits_until > began
        self.waits_until = began + (asked.waits_s or 0.0)
        return not was_waiting
