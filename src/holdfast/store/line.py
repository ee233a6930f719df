"""A connection for one thread that waits for signals: each wait has a deadline and can be ended from outside.

The driver's own connections wait for the server alone. A thread that others must be able to stop, or to give
something to do, waits for their word at the same time; so this speaks to libpq without a wait of its own.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any, Final

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, PollingStatus
from psycopg.pq.abc import PGconn, PGresult

from holdfast.store.address import CONNECT_TIMEOUT_S, Address
from holdfast.store.sqlstates import DeadlinePassed

Wait = Callable[[int, int, float], bool]
"""Wait for these events of this descriptor up to a moment of the monotonic clock: whether they came."""

ANSWER_S: Final = 5.0
"""How long the server may take for an answer: nothing is asked here that takes time."""

_KEEPALIVES: Final = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_READS: Final = 100


class Line:
    """One session, used by one thread, in autocommit mode."""

    def __init__(self, pgconn: PGconn, wait: Wait) -> None:
        self._pgconn = pgconn
        self._wait = wait
        self._last_words = ""
        pgconn.nonblocking = 1
        pgconn.notice_handler = self._take_notice
        self.told_pid: Final = pgconn.backend_pid
        self.descriptor: Final = pgconn.socket
        self._inode: Final = os.fstat(self.descriptor).st_ino

    @classmethod
    def open(cls, address: Address, wait: Wait, purpose: str) -> Line:
        """Connect, to the first host that answers; the purpose is seen in the application's name."""
        problem: psycopg.Error | None = None
        for conninfo, timeout_s in _conninfos(address, purpose):
            try:
                return cls(_connected(conninfo, monotonic() + timeout_s, wait), wait)
            except psycopg.Error as error:
                problem = error
        raise problem or psycopg.OperationalError("no host to connect to")

    def close(self) -> None:
        """End the session, without waiting for anything."""
        self._pgconn.finish()

    def abandon(self) -> None:
        """In a child process: let go of the parent's session and leave it as it is."""
        # To finish it would end the parent's. Kept open, it would outlive the parent and be sent signals.
        # The number may be another file's by now.
        try:
            if os.fstat(self.descriptor).st_ino == self._inode:
                os.close(self.descriptor)
        except OSError:
            return

    def ask(self, statements: str | bytes) -> str:
        """Execute statements in one transaction: the first value of the last answer, "" if it has none."""
        deadline = monotonic() + ANSWER_S
        pgconn = self._pgconn
        pgconn.send_query(statements.encode() if isinstance(statements, str) else statements)
        while pgconn.flush():
            self._await(select.POLLIN | select.POLLOUT, deadline)
        value, error = "", None
        for result in self._results(deadline):
            if result.status == ExecStatus.FATAL_ERROR:
                error = error or _error_of(result)
            elif result.status == ExecStatus.TUPLES_OK and result.ntuples:
                value = (result.get_value(0, 0) or b"").decode(errors="replace")
        if error is not None:
            raise error
        return value

    def heard(self) -> dict[str, str]:
        """The channels whose signals have arrived by now; with what was said, where there was only one."""
        channels: dict[str, str] = {}
        for _ in range(_READS):
            while (signal := self._pgconn.notifies()) is not None:
                channel = signal.relname.decode(errors="replace")
                channels[channel] = "" if channel in channels else signal.extra.decode(errors="replace")
            if not _is_readable(self.descriptor):
                break
            self._consume()
        return channels

    def quoted(self, channel: str) -> bytes:
        """A channel's name as SQL."""
        return bytes(pq.Escaping(self._pgconn).escape_identifier(channel.encode()))

    def _results(self, deadline: float) -> Iterator[PGresult]:
        while True:
            while self._pgconn.is_busy():
                self._await(select.POLLIN, deadline)
            result = self._pgconn.get_result()
            if result is None:
                return
            yield result

    def _await(self, events: int, deadline: float) -> None:
        if not self._wait(self.descriptor, events, deadline):
            raise DeadlinePassed("the server does not answer")
        # While sending as well: a server that waits for us to read does not read.
        if _is_readable(self.descriptor):
            self._consume()

    def _consume(self) -> None:
        try:
            self._pgconn.consume_input()
        except psycopg.OperationalError as error:
            self._pgconn.is_busy()  # what the server said at the end is read, but not looked at yet
            raise psycopg.OperationalError(self._last_words or _in_one_line(str(error))) from None

    def _take_notice(self, result: PGresult) -> None:
        if (result.error_field(DiagnosticField.SEVERITY_NONLOCALIZED) or b"") in (b"FATAL", b"PANIC"):
            said = result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b""
            self._last_words = said.decode(errors="replace")


def _connected(conninfo: str, deadline: float, wait: Wait) -> PGconn:
    pgconn = pq.PGconn.connect_start(conninfo.encode())
    try:
        status: int = PollingStatus.WRITING
        while pgconn.status != ConnStatus.BAD:
            if status == PollingStatus.OK:
                return pgconn
            if status == PollingStatus.FAILED:
                break
            events = select.POLLIN if status == PollingStatus.READING else select.POLLOUT
            if not wait(pgconn.socket, events, deadline):
                raise psycopg.OperationalError("the server does not answer")
            status = pgconn.connect_poll()
        raise psycopg.OperationalError(_in_one_line(pgconn.get_error_message("utf-8")))
    except BaseException:
        pgconn.finish()
        raise


def _conninfos(address: Address, purpose: str) -> Iterator[tuple[str, float]]:
    """One address for each host: libpq would wait for the first one as long as the network does."""
    facts: dict[str, Any] = {**_KEEPALIVES, **address.options, **conninfo_to_dict(address.dsn)}
    facts |= {"application_name": f"{facts['application_name']} {purpose}", "client_encoding": "UTF8"}
    timeout_s = float(facts.get("connect_timeout") or 0) or CONNECT_TIMEOUT_S
    several = {key: str(facts[key]).split(",") for key in ("host", "hostaddr", "port") if facts.get(key)}
    for number in range(max(len(each) for each in several.values()) if several else 1):
        own = {key: each[min(number, len(each) - 1)] for key, each in several.items()}
        yield make_conninfo("", **{**facts, **own}), timeout_s


def _error_of(result: PGresult) -> psycopg.Error:
    sqlstate = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
    said = result.error_field(DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    try:
        # Without a code it is libpq that speaks: the connection is gone.
        kind = psycopg.errors.lookup(sqlstate) if sqlstate else psycopg.OperationalError
    except KeyError:
        kind = psycopg.DatabaseError
    return kind(_in_one_line(said.decode(errors="replace")))


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
