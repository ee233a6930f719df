"""Submissions of threads that meet; see `grouping`."""

from __future__ import annotations

import threading
from collections.abc import Callable

from holdfast.store.grouping import Line, Submission, Ticket, as_one, interrupted, share, share_error


class SyncGroup:
    """Each call runs in the thread of a caller: the first in line leads next, for all who wait by then."""

    def __init__(self, run: Callable[[Submission], list[str]]) -> None:
        self._run = run
        self._line: Line[Ticket] = Line()
        self._lock = threading.Lock()

    def submit(self, submission: Submission) -> list[str]:
        """Run it, alone or with others; the job is committed when this returns."""
        with self._lock:
            waiting = None if self._line.may_go() else self._in_line(submission)
        if waiting is None:
            try:
                return self._run(submission)
            finally:
                self._hand_over()
        told = self._accompanied(*waiting)
        return self._run(submission) if told is None else told

    def _in_line(self, submission: Submission) -> tuple[Ticket, threading.Event]:
        woken = threading.Event()
        ticket = Ticket(submission, woken.set)
        self._line.wait(ticket)
        return ticket, woken

    def _accompanied(self, ticket: Ticket, woken: threading.Event) -> list[str] | None:
        try:
            woken.wait(ticket.patience_s())
            batch = self._led_by(ticket)
        except BaseException:
            self._give_up(ticket)
            raise
        if batch:
            try:
                self._send(batch)
            finally:
                self._hand_over()
        elif not woken.wait(ticket.longest_s()):
            raise interrupted()
        return ticket.told()

    def _led_by(self, ticket: Ticket) -> list[Ticket]:
        """What this one takes along, if it is to lead: it was told to, or has lost its patience."""
        with self._lock:
            if self._line.forget(ticket):
                ticket.refuse_if_late()
                self._line.go_too()
                ticket.leads = True
            return self._line.batch(ticket) if ticket.leads else []

    def _send(self, batch: list[Ticket]) -> None:
        try:
            share(batch, self._run(as_one(batch)))
        except BaseException as error:
            share_error(batch, error)
            if not isinstance(error, Exception):
                raise

    def _hand_over(self) -> None:
        with self._lock:
            first = self._line.first()
            if first is None:
                self._line.leave()
                return
            self._line.forget(first)
            first.leads = True
        first.wake()

    def _give_up(self, ticket: Ticket) -> None:
        with self._lock:
            leads = not self._line.forget(ticket) and ticket.leads
        if leads:
            self._hand_over()
