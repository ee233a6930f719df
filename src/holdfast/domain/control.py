"""What a handler raises to say what should happen next."""

from __future__ import annotations

from holdfast.domain.measures import Duration, seconds


class RetryAfter(Exception):
    """Failed; try again after exactly this long. Counts as an attempt; after the last the job is dead."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        self.delay_s = seconds(delay, "RetryAfter: delay")
        self.reason = reason
        super().__init__(reason or f"try again in {self.delay_s:g} s")

    def __reduce__(self) -> tuple[type[RetryAfter], tuple[float, str]]:
        return type(self), (self.delay_s, self.reason)


class Snooze(Exception):
    """Not now; run again after exactly this long. Costs no attempt, however often it is said."""

    def __init__(self, delay: Duration, reason: str = "") -> None:
        self.delay_s = seconds(delay, "Snooze: delay")
        self.reason = reason
        super().__init__(reason or f"not for {self.delay_s:g} s")

    def __reduce__(self) -> tuple[type[Snooze], tuple[float, str]]:
        return type(self), (self.delay_s, self.reason)


class PermanentError(Exception):
    """Failed, and no other attempt will do better: the job is dead until a person revives it."""
