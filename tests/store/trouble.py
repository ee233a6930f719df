"""Ways to make a database fail, each by what a real one would do."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import socketserver
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Literal


class Trouble:
    """Makes `is_notify_enabled` of a database misbehave. Any function would do; this one is the simplest."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        self._conn = conn
        conn.execute("create sequence public.tries")

    def fail(self, times: int, sqlstate: str, words: str = "trouble") -> None:
        """Raise an error of this kind, so many times; then answer true."""
        self._become(
            SQL(
                "begin if nextval('public.tries') <= {} then "
                "raise exception {} using errcode = {}; end if; return true; end"
            ).format(times, Literal(words), Literal(sqlstate))
        )

    def execute(self, statement: str) -> None:
        """Execute this statement, once for every call; then answer true."""
        self._become(SQL("begin execute {}; return true; end").format(Literal(statement)))

    def tries(self) -> int:
        """How often the function was called since `fail`."""
        row = self._conn.execute("select last_value from public.tries where is_called").fetchone()
        return int(row[0]) if row else 0

    def _become(self, body: psycopg.sql.Composed) -> None:
        text = body.as_string(self._conn)
        self._conn.execute(
            f"create or replace function holdfast.is_notify_enabled() returns boolean "
            f"language plpgsql security definer as $body$ {text} $body$".encode()
        )


def named(dsn: str, application_name: str) -> str:
    return make_conninfo(dsn, application_name=application_name)


def backend_pids(conn: psycopg.Connection[Any], application_name: str) -> list[int]:
    """The server's processes for the sessions of one application, the oldest first."""
    rows = conn.execute(
        "select pid from pg_stat_activity where application_name = %s order by backend_start",
        [application_name],
    ).fetchall()
    return [pid for (pid,) in rows]


@contextmanager
def frozen(*pids: int) -> Generator[None]:
    """Stop processes as a debugger or a dying disk would: they hold what they hold and answer nothing."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@contextmanager
def black_hole() -> Generator[str]:
    """The address of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken: list[socket.socket] = []
        closing = threading.Event()
        listener.settimeout(0.05)

        def take() -> None:
            while not closing.is_set():
                try:
                    taken.append(listener.accept()[0])
                except TimeoutError:
                    continue

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield f"postgresql://someone:sesame@127.0.0.1:{listener.getsockname()[1]}/somewhere"
        finally:
            closing.set()
            thread.join()
            for each in taken:
                each.close()


@contextmanager
def refusing_server(word: str, sqlstate: str, said: str) -> Generator[str]:
    """The address of a server that refuses what begins with a word, or hangs up if it has nothing to say.

    To all else it answers a number.
    """

    numbers = itertools.count(1)

    class Session(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.number = next(numbers)
            while (size := self._number()) == 8:  # encryption is asked for first, of one kind and another
                self.rfile.read(4)
                self.wfile.write(b"N")
            self.rfile.read(size - 4)
            self.wfile.write(_message(b"R", bytes(4)) + _message(b"K", bytes(8)) + _READY)
            while self.rfile.read(1) == b"Q":
                query = self.rfile.read(self._number() - 4).decode()
                if query.startswith(word) and not said:
                    return
                self._answer(query)

        def _number(self) -> int:
            return int.from_bytes(self.rfile.read(4))

        def _answer(self, query: str) -> None:
            if query.startswith(word):
                fields = f"SERROR\0VERROR\0C{sqlstate}\0M{said}\0\0"
                self.wfile.write(_message(b"E", fields.encode()) + _READY)
            else:
                column = _message(b"T", b"\0\1it\0" + bytes(6) + b"\0\0\0\x17\0\4\xff\xff\xff\xff\0\0")
                row = _message(b"D", b"\0\1\0\0\0\1%d" % (self.number % 10))
                self.wfile.write(column + row + _message(b"C", b"SELECT 1\0") + _READY)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Session) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"postgresql://someone@127.0.0.1:{server.server_address[1]}/somewhere"
        finally:
            server.shutdown()
            thread.join()


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4) + body


_READY = _message(b"Z", b"I")


@contextmanager
def locked(conn: psycopg.Connection[Any], table: str = "holdfast.jobs") -> Generator[None]:
    """Hold a lock that every reader and writer of a table has to wait for."""
    with conn.transaction(force_rollback=True):
        conn.execute(f"lock table {table} in access exclusive mode".encode())
        yield


def wait_until_blocked(conn: psycopg.Connection[Any], application_name: str) -> int:
    """Wait until a session of the application waits for a lock; its process."""
    query = (
        "select pid from pg_stat_activity where application_name = %s and wait_event_type = 'Lock' limit 1"
    )
    for _ in range(1000):
        row = conn.execute(query, [application_name]).fetchone()
        if row is not None:
            return int(row[0])
        conn.execute("select pg_sleep(0.01)")
    raise AssertionError(f"no session of {application_name} waits for a lock")
