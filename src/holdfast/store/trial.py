"""How often and how long one call is tried: decided here, by what time the stores say it is."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final, Generic, TypeVar

import psycopg

from holdfast.errors import DatabaseUnavailable, HoldfastError
from holdfast.store.call import Call
from holdfast.store.pacing import Pacing, jitter
from holdfast.store.sqlstates import Action, action_for, refusal

R = TypeVar("R")

CONFLICTS: Final = 5
"""How often a call is repeated because another transaction was in its way."""

_SHORTEST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.5

UNKNOWN: Final = "It is not known whether it took effect."


class Trial(Generic[R]):
    """One call on its way, with its deadline, as read from a monotonic clock."""

    __slots__ = ("_conflicts", "_losses", "_place", "_schema", "_started", "_unprepared", "call", "deadline")

    def __init__(self, call: Call[R], now: float, timeout_s: float, *, place: str, schema: str) -> None:
        self.call = call
        self.deadline = now + timeout_s
        self._started = now
        self._place = place
        self._schema = schema
        self._conflicts = 0
        self._losses = 0
        self._unprepared = False

    def after(self, error: psycopg.Error, now: float) -> float:
        """How long to wait before the next attempt; raise if there is to be none."""
        match action_for(error):
            case Action.RETRY if self._conflicts < CONFLICTS and not self.call.gives_way:
                self._conflicts += 1
                pause_s = jitter(self._conflicts, _SHORTEST_PAUSE_S, _LONGEST_PAUSE_S, random.random)
                return self._within(pause_s, error, now)
            case Action.FAIL_OVER:  # nothing was written: it is safe to ask the next server
                return self._lost(error, now)
            case Action.RECONNECT if self.call.idempotent:
                return self._lost(error, now)
            case Action.UNPREPARE if not self._unprepared:  # nothing was executed
                self._unprepared = True
                return 0.0
            case Action.SANITISE if self.call.plainer is not None:
                self.call = replace(self.call, parameters=self.call.plainer(), plainer=None)
                return 0.0
            case Action.OUR_BUG:
                raise HoldfastError(
                    f"{self.call.name} is refused at {self._place} ({error.sqlstate}): {_said(error)}"
                ) from error
            case _:
                raise refusal(error, self._schema) or self._unavailable(error, now) from error

    def go_on_without_connection(self, now: float, pacing: Pacing) -> None:
        """Raise if the deadline came before a connection. Nothing was sent then."""
        if now < self.deadline:
            return
        raise DatabaseUnavailable(
            f"{self.call.name}: no connection to {self._place} within {now - self._started:.1f} s: "
            f"{pacing.obstacle()}"
        )

    def go_on_unsent(self, now: float) -> None:
        """Raise if the deadline came before the end of another call it waits for. Nothing was sent then."""
        if now < self.deadline:
            return
        raise DatabaseUnavailable(
            f"{self.call.name}: not sent to {self._place} within {now - self._started:.1f} s: "
            "the call before it has no answer yet"
        )

    def _lost(self, error: psycopg.Error, now: float) -> float:
        """Try again; connecting itself is paced elsewhere."""
        self._losses += 1
        pause_s = jitter(self._losses, _SHORTEST_PAUSE_S, _LONGEST_PAUSE_S, random.random)
        return self._within(pause_s, error, now)

    def _within(self, pause_s: float, error: psycopg.Error, now: float) -> float:
        if now + pause_s >= self.deadline:
            raise self._unavailable(error, now) from error
        return pause_s

    def _unavailable(self, error: psycopg.Error, now: float) -> DatabaseUnavailable:
        attempts = self._conflicts + self._losses + 1
        tried = f", tried {attempts} times" if attempts > 1 else ""
        doubt = "" if self.call.idempotent or _is_harmless(error) else f" {UNKNOWN}"
        return DatabaseUnavailable(
            f"{self.call.name} gave up on {self._place} after {now - self._started:.1f} s{tried}: "
            f"{_said(error)}.{doubt}"
        )


def changed_nothing(error: HoldfastError) -> bool:
    """Whether a call that is not idempotent surely left the database as it was when it raised this."""
    cause = error.__cause__
    return cause is None or (isinstance(cause, psycopg.Error) and _is_harmless(cause))


def _said(error: psycopg.Error) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _is_harmless(error: psycopg.Error) -> bool:
    """Whether the server itself said that the statement failed, and so changed nothing."""
    return action_for(error) is not Action.RECONNECT and error.sqlstate is not None
