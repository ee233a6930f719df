"""From what a handler raised to what becomes of its job."""

from __future__ import annotations

from holdfast.domain.content import storable_text
from holdfast.domain.control import PermanentError, RetryAfter, Snooze
from holdfast.domain.outcome import Failed, Rescheduled
from holdfast.domain.retry import Chance, Retry

SNOOZE = "snooze"


def outcome_of(
    error: BaseException,
    retry: Retry,
    attempts: int,
    rng: Chance | None = None,
    *,
    traceback: str | None = None,
) -> Failed | Rescheduled:
    """What a raised error comes to. `attempts` counts the failures before this one.

    A Snooze is handed back at no cost. All else is a counted failure: permanent for a PermanentError, for an
    error the policy gives up on, and at the last attempt; otherwise due again after the delay of RetryAfter,
    exactly, or of the policy.
    """
    if isinstance(error, Snooze):
        reason = f"{SNOOZE}: {storable_text(error.reason)}" if error.reason else SNOOZE
        return Rescheduled(error.delay_s, reason)
    failures = attempts + 1
    is_last = failures >= retry.max_attempts
    message = message_of(error)
    if isinstance(error, RetryAfter):
        return Failed(message, traceback, error.delay_s, permanent=is_last)
    if is_last or isinstance(error, PermanentError) or not retry.is_worth_it(error):
        return Failed(message, traceback, permanent=True)
    return Failed(message, traceback, retry.delay(failures, rng))


def message_of(error: BaseException) -> str:
    """One error in one line, its kind first; never raises, whatever the error does when it is printed."""
    kind = type(error).__qualname__
    try:
        said = str(error)
    except BaseException as trouble:  # a handler's error may do anything, and a settle must not fail on it
        said = f"[holdfast: its text could not be had: {type(trouble).__qualname__}]"
    return storable_text(f"{kind}: {said}" if said else kind)
