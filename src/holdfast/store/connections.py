"""Connections that give up at a deadline, whatever the server does: frozen, cut off, or slow.

libpq has no deadline for a statement. The driver waits in steps of a tenth of a second and resumes a
generator after each; `until` ends the waiting when time is up. No thread, no timer.

A connection given up on is closed, never used again. Before that the server is asked to cancel the statement,
and that request has a short deadline of its own; a server that does not even take it is `silent`.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from functools import cached_property
from math import inf
from time import monotonic
from typing import Any, Final, Self, TypeVar

import psycopg
from psycopg import waiting
from psycopg.abc import PQGen
from psycopg.rows import TupleRow
from psycopg.waiting import Ready, Wait

from holdfast.store.sqlstates import DeadlinePassed
from holdfast.store.statements import Statements

V = TypeVar("V")

CANCEL_S: Final = 0.5
"""How long a cancel request may take. A call that reaches its deadline takes at most this much longer."""

_STEP_S: Final = 0.1
_READS: Final = 8
_PIECES: Final = 64
"""How many pieces are read before others on the event loop have their turn: two milliseconds' worth."""


def until(steps: PQGen[V], deadline: float) -> PQGen[V]:
    """The same steps, but none after the deadline. An answer that has arrived is still taken."""
    try:
        wait = next(steps)
        while True:
            ready = yield wait
            wait = steps.send(ready)
            if monotonic() >= deadline:
                raise DeadlinePassed("no answer in time")
    except StopIteration as stop:
        answer: V = stop.value
        return answer


def at_once(steps: PQGen[V], descriptor: int) -> PQGen[V]:
    """The same steps, and all that has arrived is read when anything has: 16 KiB at a time, as libpq does.

    A large answer comes while the server writes it, and to go around the event loop for each piece takes
    longer than to read it: meanwhile the server would wait for room to write.
    """
    arrived = select.poll()
    arrived.register(descriptor, select.POLLIN)
    try:
        wait = next(steps)
        while True:
            wait = steps.send((yield wait))
            for _ in range(_PIECES):
                if wait != Wait.R or not arrived.poll(0):
                    break
                wait = steps.send(Ready.R)
    except StopIteration as stop:
        answer: V = stop.value
        return answer


def with_task(steps: PQGen[V], task: Callable[[], None]) -> PQGen[V]:
    """The same steps, and a task of ours for the time the server works: as soon as all is sent."""
    try:
        wait = next(steps)
        task()
        while True:
            wait = steps.send((yield wait))
    except StopIteration as stop:
        answer: V = stop.value
        return answer


class DeadlineConnection(psycopg.Connection[TupleRow]):
    """A blocking connection whose statements end at `deadline`, a moment of the monotonic clock."""

    deadline: float = inf
    made_at: float = -inf
    silent: bool = False

    @cached_property
    def statements(self) -> Statements:
        """What it has executed."""
        return Statements(self)

    @classmethod
    def connect(cls, conninfo: str = "", *, pacing: Any = None, **options: Any) -> Self:
        if pacing is None:
            return super().connect(conninfo, **options)
        pacing.closing.wait(pacing.pause_s())
        with pacing.attempt():
            conn = super().connect(conninfo, **options)
        conn.made_at = monotonic()
        return conn

    def wait(self, gen: PQGen[V], interval: float = _STEP_S, timeout: float | None = None) -> V:
        if timeout is not None:  # for signals, which may take any time
            return super().wait(gen, interval, timeout)
        try:
            return waiting.wait(until(gen, self.deadline), self.pgconn.socket, _step(self.deadline))
        except (DeadlinePassed, KeyboardInterrupt, SystemExit):
            self._give_up()
            raise

    def _give_up(self) -> None:
        try:
            # libpq before 17 can only wait until the server has taken the request, for ever if need be.
            self.silent = not psycopg.capabilities.has_cancel_safe()
            if not self.silent:
                self.cancel_safe(timeout=CANCEL_S)
        except psycopg.Error:
            self.silent = True
        finally:
            self.pgconn.finish()


class DeadlineAsyncConnection(psycopg.AsyncConnection[TupleRow]):
    """A connection for asyncio whose statements end at `deadline`, a moment of the monotonic clock."""

    deadline: float = inf
    made_at: float = -inf
    silent: bool = False

    @cached_property
    def statements(self) -> Statements:
        """What it has executed."""
        return Statements(self)

    @classmethod
    async def connect(cls, conninfo: str = "", *, pacing: Any = None, **options: Any) -> Self:
        if pacing is None:
            return await super().connect(conninfo, **options)
        with pacing.attempt(), pacing.abortable():
            await asyncio.sleep(pacing.pause_s())
            conn = await super().connect(conninfo, **options)
        conn.made_at = monotonic()
        return conn

    async def wait(
        self,
        gen: PQGen[V],
        interval: float = _STEP_S,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> V:
        if timeout is not None:
            return await super().wait(gen, interval, timeout)
        try:
            descriptor = self.pgconn.socket
            steps = at_once(until(gen, self.deadline), descriptor)
            return await waiting.wait_async(steps, descriptor, _step(self.deadline))
        except (DeadlinePassed, asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            await self._give_up()
            raise

    async def _give_up(self) -> None:
        try:
            self.silent = not psycopg.capabilities.has_cancel_safe()
            if not self.silent:
                await self.cancel_safe(timeout=CANCEL_S)
        except psycopg.Error:
            self.silent = True
        finally:
            self.pgconn.finish()


def is_stale(conn: DeadlineConnection | DeadlineAsyncConnection) -> bool:
    """Whether an idle connection has been closed by the other side, found out without a round trip.

    Only what has arrived is looked at (2 µs). It spares a write the doubt whether a lost connection was lost
    before it was sent.
    """
    socket = select.poll()
    try:
        socket.register(conn.pgconn.socket, select.POLLIN)
        for _ in range(_READS):
            if not socket.poll(0):
                return False
            conn.pgconn.consume_input()
    except psycopg.OperationalError:
        return True
    return True


def _step(deadline: float) -> float:
    return min(_STEP_S, max(0.001, deadline - monotonic()))
