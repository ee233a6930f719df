"""Signals of the database, heard over one connection of this process and passed on to all who subscribed.

A signal is a hint to look, never data: what is missed is found by polling. Read subscriptions first (who
wants what), then this (the thread that listens), line (its connection), loop_reader (a loop that reads it
in the thread's place) and probe (whether signals get through).
"""

from __future__ import annotations

import asyncio
import os
import random
import select
import threading
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from enum import StrEnum
from math import inf
from time import monotonic
from types import MappingProxyType
from typing import ClassVar, Final, cast

import psycopg

from holdfast.errors import InvalidArgument
from holdfast.store import address, probe
from holdfast.store.alarm import Alarm, Stopped
from holdfast.store.line import Line
from holdfast.store.loop_reader import LoopReader
from holdfast.store.pacing import SHORTEST_S, jitter
from holdfast.store.probe import NoSignals
from holdfast.store.sqlstates import Action, action_for
from holdfast.store.subscriptions import Callback, Changes, Subscription, Switchboard, check_channels, logger

__all__ = ["Mode", "Signals", "Subscription"]

LIVENESS_S: Final = 30.0
"""After so long without a word the server is asked whether it is there."""

LONGEST_PAUSE_S: Final = 30.0
POLL_ONLY_S: Final = 600.0
"""Until signals are tried again where they do not get through."""

STOP_S: Final = 2.0

_SESSION: Final = "select pg_backend_pid()"
_ABOUT_A_NAME: Final = (Action.SANITISE, Action.OUR_BUG)

# A session that only listens is idle for as long as nothing happens.
_STAY: Final = "select set_config(name, '0', false) from pg_settings where name = 'idle_session_timeout'"


_Key = tuple[str, asyncio.AbstractEventLoop | None]


class Mode(StrEnum):
    """Whether signals arrive."""

    CONNECTING = "connecting"
    LISTENING = "listening"
    POLLING = "poll only"


class Signals:
    """One listening connection of this process to one database, shared by everyone who asks for it.

    Callbacks run on its thread, or on the loop that reads for it, each once at a time: they must be quick,
    and may call everything here. After a lost connection is back each is called with all its channels,
    because signals in between are gone.
    """

    _shared: ClassVar[dict[_Key, Signals]] = {}
    _sharing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, dsn: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._address = address.understand(dsn)
        self._key: _Key = (dsn, loop)
        self._users = 0
        self._board = Switchboard()
        self._mode = Mode.CONNECTING
        self._line: Line | None = None
        self._failures = 0
        self._complained: Mode | None = None
        self._alarm = Alarm()
        self._reader = None if loop is None else LoopReader(loop, self._pass_on, self._alarm.ring)
        self._thread = threading.Thread(target=self._run, name="holdfast signals", daemon=True)

    def __repr__(self) -> str:
        return f"Signals({self._address.place})"

    @classmethod
    def share(cls, dsn: str, loop: asyncio.AbstractEventLoop | None = None) -> Signals:
        """The signals of this database; the same object for the same address while anybody uses it.

        Whoever acts on them on an event loop names it, and then that loop reads them: for those who name the
        same loop, because while it is blocked they hear nothing.
        """
        with cls._sharing:
            signals = cls._shared.get((dsn, loop))
            if signals is None:
                signals = cls(dsn, loop)
                signals._thread.start()
                cls._shared[dsn, loop] = signals
            signals._users += 1
            return signals

    @classmethod
    def modes(cls) -> list[Mode]:
        """How each listening connection of this process stands."""
        with cls._sharing:
            return [signals.mode for signals in cls._shared.values()]

    def release(self) -> None:
        """Give back what `share` gave. With the last user the thread stops, within two seconds."""
        with self._sharing:
            if self._users == 0:
                return
            self._users -= 1
            if self._users > 0:
                return
            self._shared.pop(self._key, None)
        self._alarm.stop()
        if threading.current_thread() is not self._thread:
            # A name server that is silent cannot be interrupted; then the thread ends when that does.
            self._thread.join(STOP_S)

    @property
    def mode(self) -> Mode:
        """Whether signals arrive. Where they do not, polling is all there is."""
        return self._mode

    def subscribe(self, channels: Iterable[str], callback: Callback) -> Subscription:
        """Call back with those of the channels that had a signal, and once when they are listened to."""
        if self._users == 0:
            raise InvalidArgument(f"{self!r} was released, or belongs to another process")
        wanted = check_channels(channels)
        subscription = Subscription(self._board, callback, self._alarm.ring)
        subscription.set_channels(wanted)
        return subscription

    # The rest is the thread's.

    def _run(self) -> None:
        try:
            while True:
                self._alarm.wait(None, 0, monotonic() + self._listen_until_lost())
        except Stopped:
            pass
        finally:
            self._mode = Mode.POLLING
            self._alarm.close()

    def _listen_until_lost(self) -> float:
        """Connect and pass on signals; when that is over, return how long to wait."""
        listening_since = inf
        try:
            session = self._connect()
            listening_since = monotonic()
            self._serve(session)
        except NoSignals as why:
            self._say_that_none_gets_through(why)
            return POLL_ONLY_S
        except Exception as error:  # whatever it is: a thread that ended would be missed by nobody
            self._say_that_they_are_lost(error)
        finally:
            if self._reader is not None:
                self._reader.leave()
            if self._line is not None:
                self._line.close()
                self._line = None
        # A connection that did not last is a failure too, or we would make connections without end.
        lasted = monotonic() - listening_since >= LONGEST_PAUSE_S
        pause_s = jitter(0 if lasted else self._failures, SHORTEST_S, LONGEST_PAUSE_S, random.random)
        self._failures = 1 if lasted else self._failures + 1
        return pause_s

    def _connect(self) -> str:
        """Connect to where signals get through; the server's name for the session."""
        wait = self._alarm.wait
        self._line = Line.open(self._address, wait, "signals")
        probe.check(self._line, lambda: Line.open(self._address, wait, "probe"), wait)
        self._line.ask(_STAY)
        return self._line.ask(_SESSION)

    def _serve(self, session: str) -> None:
        line = cast("Line", self._line)
        self._board.start_anew()
        silent_since = monotonic()
        reader = self._reader if self._reader is not None and self._reader.attend(line) else None
        speaking = nullcontext() if reader is None else reader.speaking
        awaited = line.descriptor if reader is None else None
        while True:
            # Nothing may wait between this and the poll below: it would use up the alarm of a change.
            changes = self._board.take_changes()
            with speaking:
                if reader is not None:
                    reader.check()
                if changes.listen or changes.unlisten:
                    self._tell_server(line, changes)
                heard = line.heard()
            self._say_that_they_are_back()
            if self._pass_on(heard, changes.news) or changes:
                continue
            ready, rung = self._alarm.poll(awaited, select.POLLIN, silent_since + LIVENESS_S)
            if not (ready or rung):
                with speaking:
                    if line.ask(_SESSION) != session:
                        raise psycopg.OperationalError("another session answers")
            if not rung:
                silent_since = monotonic()

    def _tell_server(self, line: Line, changes: Changes) -> None:
        statements = [b"unlisten " + line.quoted(channel) for channel in changes.unlisten]
        statements += [b"listen " + line.quoted(channel) for channel in changes.listen]
        try:
            line.ask(b"; ".join(statements))
        except psycopg.Error as error:
            if action_for(error) not in _ABOUT_A_NAME:
                raise
            # One name that the database cannot spell must not keep all others from being heard.
            for statement in statements:
                self._tell_server_one(line, statement)

    def _tell_server_one(self, line: Line, statement: bytes) -> None:
        try:
            line.ask(statement)
        except psycopg.Error as error:
            if action_for(error) not in _ABOUT_A_NAME:
                raise
            logger.warning("%s refuses: %s: %s", self._address.place, statement.decode(), error)

    def _pass_on(
        self, fired: Mapping[str, str], news: Mapping[Subscription, set[str]] = MappingProxyType({})
    ) -> bool:
        """Call everybody concerned, each once: whether there was anybody. Also for the loop."""
        due = self._board.who_wants(fired)
        for subscription, channels in news.items():
            due.setdefault(subscription, {}).update(dict.fromkeys(channels, ""))
        for subscription, heard in due.items():
            if self._alarm.is_stopped:
                break
            subscription.call(heard)
        return bool(due)

    def _say_that_they_are_back(self) -> None:
        if self._mode is Mode.LISTENING:
            return
        self._mode = Mode.LISTENING
        if self._complained is not None:
            logger.info("signals from %s are back", self._address.place)
        self._complained = None

    def _say_that_they_are_lost(self, error: Exception) -> None:
        had_them = self._mode is Mode.LISTENING
        if self._complained is None:
            self._complained = Mode.CONNECTING
            logger.warning(
                "signals from %s are lost: %s; polling meanwhile, trying again"
                if had_them
                else "no signals from %s yet: %s; polling meanwhile, trying again",
                self._address.place,
                error,
                exc_info=None if isinstance(error, psycopg.Error) else error,
            )
        self._mode = self._complained

    def _say_that_none_gets_through(self, why: NoSignals) -> None:
        self._mode = Mode.POLLING
        if self._complained is not Mode.POLLING:
            self._complained = Mode.POLLING
            logger.warning(
                "%s does not pass on signals (%s): polling instead; "
                "point Holdfast at the server itself for instant wake-ups",
                self._address.place,
                why,
            )

    @classmethod
    def _forget_parent(cls) -> None:
        """In a child process: the threads are the parent's, and so are the connections."""
        inherited = list(cls._shared.values())
        cls._shared = {}
        cls._sharing = threading.Lock()  # its holder, if any, is a thread that is not here
        for signals in inherited:
            signals._users = 0
            signals._mode = Mode.POLLING
            signals._board.forget_holders()
            signals._alarm.close()
            if signals._reader is not None:
                signals._reader.abandon()
            if signals._line is not None:
                signals._line.abandon()
                signals._line = None


os.register_at_fork(after_in_child=Signals._forget_parent)  # pyright: ignore[reportPrivateUsage]
