"""Whether signals get through: a pooler that shares sessions takes a LISTEN and then passes nothing on.

It would also leave that LISTEN behind in a session that others use. So the first question is asked without
one: is the session ours alone? Poolers hand out the session used last, so asking in turn over two connections
shows a shared one at once, unless others are quicker. The second question is the real one: a signal is sent,
and it arrives or does not.
"""

from __future__ import annotations

import secrets
import select
from collections.abc import Callable
from time import monotonic
from typing import Final

import psycopg

from holdfast.store.line import Line, Wait
from holdfast.store.sqlstates import Action, action_for

ARRIVAL_S: Final = 2.0
"""How long a signal may take: on a server that works it is there within a millisecond."""

PATIENCE_S: Final = 10.0
"""How long from the server itself, which is more likely to be busy than to be unable."""

CLEANUP_S: Final = 2.0
"""How long to look for the session of a pooler that was left listening, which others may be using."""

SHARED: Final = "a pooler in transaction mode?"

_TURNS: Final = 3
_PAUSE_S: Final = 0.02
_WHOSE: Final = "select pg_backend_pid()"


class NoSignals(Exception):
    """Signals do not get through here, now and tomorrow."""


def check(line: Line, open_second: Callable[[], Line], wait: Wait) -> None:
    """Raise NoSignals if none gets through; other errors say that it could not be found out."""
    try:
        second = open_second()
    except psycopg.Error as error:
        if not is_server_itself(line):
            raise psycopg.OperationalError(f"whether signals get through is not known: {error}") from None
        _hear_itself(line)
        return
    try:
        refuse_shared_session(line, second)
        _hear(line, second, wait)
    finally:
        second.close()


def is_server_itself(line: Line) -> bool:
    """Whether nobody is in between: poolers make up the process number that a client is told at the start."""
    return all(line.ask(_WHOSE) == str(line.told_pid) for _ in range(_TURNS))


def refuse_shared_session(line: Line, second: Line) -> None:
    """Raise NoSignals if the session is not the same each time, or also that of the other connection."""
    asked = [(line.ask(_WHOSE), second.ask(_WHOSE)) for _ in range(_TURNS)]
    ours, theirs = {first for first, _ in asked}, {other for _, other in asked}
    if len(ours) > 1 or ours & theirs:
        raise NoSignals(SHARED)


def _hear(line: Line, second: Line, wait: Wait) -> None:
    channel = f"holdfast.probe.{secrets.token_hex(8)}"
    within_s = PATIENCE_S if is_server_itself(line) else ARRIVAL_S
    pid = _listen(line, channel)
    try:
        second.ask(b"notify " + second.quoted(channel))
        # Only wait: any statement might be given the session that the signal went to, and bring it along.
        arrived = _arrives(line, channel, monotonic() + within_s, wait)
    finally:
        owned = _unlisten(line, second, channel, pid, wait)
    if not (arrived and owned):
        raise NoSignals(SHARED if within_s == ARRIVAL_S else "none of its own arrived")


def _hear_itself(line: Line) -> None:
    """The least a server can do when there is no second connection to be had: take a LISTEN."""
    channel = f"holdfast.probe.{secrets.token_hex(8)}"
    _listen(line, channel)
    line.ask(b"unlisten " + line.quoted(channel))


def _listen(line: Line, channel: str) -> str:
    """Listen; the process that does."""
    try:
        return line.ask(b"listen " + line.quoted(channel) + b"; select pg_backend_pid()")
    except psycopg.Error as error:
        # A standby refuses too, but not for ever; it may be promoted or replaced any moment.
        if action_for(error) is Action.OUR_BUG:
            raise NoSignals(f"it refuses to LISTEN: {error}") from None
        raise


def _arrives(line: Line, channel: str, deadline: float, wait: Wait) -> bool:
    while channel not in line.heard():
        if not wait(line.descriptor, select.POLLIN, deadline):
            return False
    return True


def _unlisten(line: Line, second: Line, channel: str, pid: str, wait: Wait) -> bool:
    """Take the LISTEN back from the session that has it: whether that was, as it should be, our next one."""
    statement = b"unlisten " + line.quoted(channel) + b"; select pg_backend_pid()"
    if line.ask(statement) == pid:
        return True
    deadline = monotonic() + CLEANUP_S
    # One transaction is kept open meanwhile, or each of us would be given the same session again and again.
    while second.ask(b"begin; " + statement) != pid and line.ask(statement) != pid and monotonic() < deadline:
        second.ask("commit")
        wait(line.descriptor, 0, monotonic() + _PAUSE_S)
    second.ask("commit")
    return False
