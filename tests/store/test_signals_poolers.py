"""Where signals do not get through this is found out, said once, and nothing is left behind."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.store import probe
from holdfast.store import signals as signals_module
from holdfast.store.signals import Mode
from tests.pgbouncer import POOL_SIZE, PgBouncer
from tests.store.ears import (
    Lines,
    Sharing,
    listening,
    notify,
    wait_for_mode,
    wait_until,
)
from tests.store.servers import OwnServer
from tests.store.trouble import refusing_server

local = pytest.mark.skipif(
    "HOLDFAST_TEST_DATABASE_URL" in os.environ, reason="needs the server's processes on this machine"
)


def test_behind_a_pooler_in_transaction_mode_there_is_only_polling_and_one_line_says_so(
    pgbouncer: PgBouncer, database: str, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals_module, "POLL_ONLY_S", 0.05)
    asked = _counted(monkeypatch, probe.check)
    with Sharing(pgbouncer.dsn(database)) as signals:
        wait_for_mode(signals, Mode.POLLING)
        wait_until(lambda: len(asked) > 3)

        assert signals.mode is Mode.POLLING
    (warning,) = lines.at(logging.WARNING)
    assert warning.endswith(
        "does not pass on signals (a pooler in transaction mode?): polling instead; "
        "point Holdfast at the server itself for instant wake-ups"
    )


@pytest.mark.parametrize("round_robin", [0, 1])
def test_a_pooler_whose_sessions_seem_to_be_ours_is_found_out_and_left_as_it_was(
    server_dsn: str,
    database: str,
    open_directory: Path,
    lines: Lines,
    monkeypatch: pytest.MonkeyPatch,
    round_robin: int,
) -> None:
    """As when others take the sessions in between, so that nobody is given the same one twice."""
    monkeypatch.setattr(probe, "refuse_shared_session", lambda *_: None)
    bouncer = PgBouncer(open_directory, server_dsn, server_round_robin=round_robin)
    try:
        dsn = bouncer.dsn(database)
        with several_sessions(dsn, 5):
            pass
        with Sharing(dsn) as signals:
            wait_for_mode(signals, Mode.POLLING)
        with several_sessions(dsn, POOL_SIZE) as sessions:
            left = [conn.execute("select * from pg_listening_channels()").fetchall() for conn in sessions]
    finally:
        bouncer.stop()
    assert left == [[]] * POOL_SIZE
    assert len(lines.at(logging.WARNING)) == 1


def test_behind_a_pooler_in_session_mode_signals_are_heard(
    server_dsn: str, database: str, conn: psycopg.Connection[Any], open_directory: Path
) -> None:
    bouncer = PgBouncer(open_directory, server_dsn, mode="session")
    try:
        with Sharing(bouncer.dsn(database)) as signals:
            ear, _ = listening(signals, "a")
            notify(conn, "a")

            assert ear.next() == {"a"}
            assert signals.mode is Mode.LISTENING
    finally:
        bouncer.stop()


def test_a_server_that_refuses_to_listen_is_polled(lines: Lines) -> None:
    with refusing_server("listen", "0A000", "LISTEN is not supported") as dsn, Sharing(dsn) as signals:
        wait_for_mode(signals, Mode.POLLING)

    (warning,) = lines.at(logging.WARNING)
    assert "does not pass on signals (it refuses to LISTEN: LISTEN is not supported): polling" in warning


def test_a_server_that_hangs_up_is_not_taken_for_one_that_refuses(lines: Lines) -> None:
    with refusing_server("listen", "", "") as dsn, Sharing(dsn) as signals:
        line = lines.wait_for("no signals from")
        assert signals.mode is Mode.CONNECTING

    assert "server closed the connection unexpectedly" in line


@local
def test_on_a_server_without_room_for_a_second_connection_signals_are_heard_too(open_directory: Path) -> None:
    full = OwnServer(open_directory / "pg", max_connections="6")
    try:
        others = _fill(full.dsn)
        others.pop().close()
        with Sharing(full.dsn) as signals:
            ear, _ = listening(signals, "a")
            notify(others[0], "a")

            assert ear.next() == {"a"}
        for conn in others:
            conn.close()
    finally:
        full.stop()


class several_sessions:
    """So many connections, each in a transaction, so that a pooler needs a session for each."""

    def __init__(self, dsn: str, number: int) -> None:
        self._conns = [psycopg.connect(dsn, prepare_threshold=None) for _ in range(number)]

    def __enter__(self) -> list[psycopg.Connection[Any]]:
        for conn in self._conns:
            conn.execute("select 1")
        return self._conns

    def __exit__(self, *_: object) -> None:
        for conn in self._conns:
            conn.rollback()  # a session that is left in a transaction is not kept
        for conn in self._conns:
            conn.close()


def _fill(dsn: str) -> list[psycopg.Connection[Any]]:
    """Take every connection the server has."""
    taken: list[psycopg.Connection[Any]] = []
    while True:
        try:
            taken.append(psycopg.connect(dsn, autocommit=True))
        except psycopg.OperationalError:
            return taken


def _counted(monkeypatch: pytest.MonkeyPatch, function: Callable[..., None]) -> list[None]:
    """A list that grows with every call of a function of the probe."""
    calls: list[None] = []

    def counted(*arguments: Any) -> None:
        calls.append(None)
        function(*arguments)

    monkeypatch.setattr(probe, function.__name__, counted)
    return calls
