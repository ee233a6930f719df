"""Submissions of the tasks of one event loop that meet; see `grouping`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.errors import DatabaseUnavailable
from holdfast.store.grouping import Line, Submission, Ticket, as_one, share, share_error


class _Waiting(Ticket):
    """A task in line."""

    __slots__ = ("woken",)

    def __init__(self, submission: Submission, woken: asyncio.Future[None]) -> None:
        super().__init__(submission, self._wake)
        self.woken = woken

    def _wake(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)


class Group:
    """Whoever is alone goes in the caller's own task; those in line go in one of ours, which none can end."""

    def __init__(self, run: Callable[[Submission], Awaitable[list[str]]]) -> None:
        self._run = run
        self._line: Line[_Waiting] = Line()
        self._carriers: set[asyncio.Task[None]] = set()

    async def submit(self, submission: Submission) -> list[str]:
        """Run it, alone or with others; the job is committed when this returns."""
        if self._line.may_go():
            try:
                return await self._run(submission)
            finally:
                self._go_on()
        told = await self._carried(submission)
        return await self._run(submission) if told is None else told

    async def _carried(self, submission: Submission) -> list[str] | None:
        loop = asyncio.get_running_loop()
        ticket = _Waiting(submission, loop.create_future())
        self._line.wait(ticket)
        patience = loop.call_later(ticket.patience_s(), self._lose_patience, ticket)
        try:
            await ticket.woken
        finally:
            patience.cancel()
            self._line.forget(ticket)
        return ticket.told()

    def _lose_patience(self, ticket: _Waiting) -> None:
        if not self._line.forget(ticket):
            return
        try:
            ticket.refuse_if_late()
        except DatabaseUnavailable as error:
            ticket.tell(error=error)
        else:
            self._line.go_too()
            self._carry(self._line.batch(ticket))

    def _go_on(self) -> None:
        """Whoever was under way is not any more: carry those who wait, if there are any."""
        if self._line.first() is None:
            self._line.leave()
        else:
            self._carry([])

    def _carry(self, batch: list[_Waiting]) -> None:
        task = asyncio.get_running_loop().create_task(self._carry_on(batch))
        self._carriers.add(task)
        task.add_done_callback(self._arrive)

    def _arrive(self, carrier: asyncio.Task[None]) -> None:
        self._carriers.discard(carrier)
        if carrier.cancelled() or carrier.exception() is not None:  # perhaps before it had begun
            self._go_on()

    async def _carry_on(self, batch: list[_Waiting]) -> None:
        """Carry this batch and then, batch by batch, all who wait."""
        while batch := batch or self._line.batch():
            await self._send([ticket for ticket in batch if not ticket.woken.cancelled()])
            if len(batch) > 1:
                await asyncio.sleep(0)  # those who were served may come again, and go along
            batch = []
        self._line.leave()

    async def _send(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        try:
            share(batch, await self._run(as_one(batch)))
        except BaseException as error:
            share_error(batch, error)
            if not isinstance(error, Exception):
                raise
