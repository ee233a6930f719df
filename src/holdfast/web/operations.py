"""Actions on many jobs that this server carries out: begun, watched, stopped; remembered for a while."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final
from uuid import uuid4

from holdfast.console.bulk import Action, Done, Progress, act
from holdfast.console.shapes import Shape
from holdfast.domain.search import Query
from holdfast.errors import HoldfastError
from holdfast.store.calls.searching import Snapshot
from holdfast.store.steps import Steps
from holdfast.web.problems import Problem

MOST_AT_ONCE: Final = 4
MOST_KEPT: Final = 100

logger: Final = logging.getLogger("holdfast.web")

Run = Callable[[Steps[Done]], Awaitable[Done]]


class State(StrEnum):
    """How an operation stands."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class _Stopped(Exception):
    pass


class Operation:
    """One action on all jobs that match, as they were at one moment."""

    def __init__(self, action: Action, query: Query, total: int | None, by: str) -> None:
        self.id = uuid4().hex
        self.state = State.RUNNING
        self.over = asyncio.Event()
        self._action = action
        self._query = query
        self._total = total
        self._by = by
        self._began_at = datetime.now(UTC)
        self._ended_at: datetime | None = None
        self._changed = 0
        self._refused = 0
        self._said: str | None = None
        self._stopping = False

    def stop(self) -> None:
        """End it after the chunk that is under way."""
        self._stopping = True

    def told(self, progress: Progress) -> None:
        """Note how far it has come."""
        self._changed, self._refused = progress.changed, progress.refused
        if self._stopping:
            raise _Stopped

    async def run(self, done: Awaitable[Done]) -> None:
        """See it through to its end, whatever that is."""
        try:
            ended = await done
            self._changed, self._refused, self._said = ended.changed, ended.refused, ended.reason
            self.state = State.DONE
        except _Stopped:
            self.state = State.STOPPED
        except HoldfastError as error:
            self.state, self._said = State.FAILED, str(error)
        except asyncio.CancelledError:
            self.state, self._said = State.STOPPED, "the server was stopped"
            raise
        except Exception:
            logger.exception("operation %s failed", self.id)
            self.state, self._said = State.FAILED, "this should not have happened; the server's log says more"
        finally:
            self._ended_at = datetime.now(UTC)
            self.over.set()

    def shape(self) -> Shape:
        """What clients get to see."""
        return {
            "operation": self.id,
            "action": "revive" if self._action is Action.RETRY else self._action,
            "q": str(self._query),
            "by": self._by,
            "state": self.state,
            "done": self._changed,
            "refused": self._refused,
            "total": self._total,
            "reason": self._said,
            "began_at": self._began_at,
            "ended_at": self._ended_at,
        }


class Operations:
    """Those under way, a few at a time, and the latest that are over."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._known: OrderedDict[str, Operation] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(
        self,
        action: Action,
        query: Query,
        until: Snapshot,
        total: int | None,
        *,
        reason: str | None,
        by: str,
    ) -> Operation:
        """Begin one; raise a Problem if too many are under way."""
        if len(self._tasks) >= MOST_AT_ONCE:
            raise Problem(
                429,
                "Too much at once",
                f"{MOST_AT_ONCE} operations are under way: wait for one, or stop it.",
                headers={"Retry-After": "5"},
            )
        operation = Operation(action, query, total, by)
        steps = act(action, query, until, reason=reason, told=operation.told)
        task = asyncio.create_task(operation.run(self._run(steps)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._known[operation.id] = operation
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        return operation

    def get(self, operation_id: str) -> Operation:
        """The operation; raise a Problem if it is not known."""
        operation = self._known.get(operation_id)
        if operation is None:
            raise Problem(404, "No such operation", "It is not known here, or was forgotten since.")
        return operation

    async def stop(self, operation_id: str) -> Operation:
        """Stop it, and wait a moment for the jobs it is at."""
        operation = self.get(operation_id)
        operation.stop()
        with suppress(TimeoutError):
            await asyncio.wait_for(operation.over.wait(), 1.0)
        return operation

    async def close(self) -> None:
        """Stop all of them; what was done stays done."""
        tasks: list[asyncio.Task[Any]] = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
