"""Signals are heard again whatever befalls the connection, and nothing keeps their thread from ending."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import ExecStatus

from holdfast.store import Action, action_for
from holdfast.store import line as line_module
from holdfast.store import signals as signals_module
from holdfast.store.signals import Mode, Signals
from holdfast.store.subscriptions import Subscription
from tests.store.ears import (
    NAME,
    Ear,
    Lines,
    Sharing,
    listening,
    notify,
    thread_of,
    wait_for_mode,
)
from tests.store.servers import OwnServer
from tests.store.trouble import backend_pids, black_hole, frozen

local = pytest.mark.skipif(
    "HOLDFAST_TEST_DATABASE_URL" in os.environ, reason="needs the server's processes on this machine"
)


def test_after_a_lost_session_everybody_is_called_with_all_their_channels(
    signals: Signals, conn: psycopg.Connection[Any], lines: Lines
) -> None:
    first, _ = listening(signals, "a", "b")
    second, _ = listening(signals, "b", "c")

    _terminate(conn)

    assert (first.next(), second.next()) == ({"a", "b"}, {"b", "c"})
    notify(conn, "c")
    assert second.next() == {"c"}
    (warning,) = lines.at(logging.WARNING)
    assert "are lost: terminating connection due to administrator command; polling meanwhile" in warning
    assert lines.at(logging.INFO) == [f"signals from {_place(signals)} are back"]


def test_a_session_that_is_lost_again_and_again_comes_back_each_time(
    signals: Signals, conn: psycopg.Connection[Any]
) -> None:
    ear, _ = listening(signals, "a", "b")
    for _ in range(4):
        _terminate(conn)
        assert ear.next() == {"a", "b"}


@local
def test_a_server_that_was_stopped_and_started_is_heard_again(server: OwnServer, lines: Lines) -> None:
    with Sharing(server.dsn) as signals:
        ear, _ = listening(signals, "a", "b")
        server.stop()
        lines.wait_for("are lost")
        wait_for_mode(signals, Mode.CONNECTING)
        server.start()

        assert ear.next() == {"a", "b"}
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            notify(conn, "b")
        assert ear.next() == {"b"}
        assert len(lines.at(logging.WARNING)) == 1
        assert len(lines.at(logging.INFO)) == 1


@local
def test_a_server_that_was_not_there_at_first_is_heard_when_it_comes(server: OwnServer, lines: Lines) -> None:
    server.stop()
    ear = Ear()
    with Sharing(server.dsn) as signals:
        signals.subscribe(["a"], ear)
        lines.wait_for("no signals from")
        server.start()

        assert ear.next() == {"a"}
        assert signals.mode is Mode.LISTENING


@local
def test_a_connection_that_died_silently_is_noticed_and_replaced(
    database: str, conn: psycopg.Connection[Any], lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals_module, "LIVENESS_S", 0.2)
    monkeypatch.setattr(line_module, "ANSWER_S", 2.0)
    with Sharing(database) as signals:
        ear, _ = listening(signals, "a")
        (pid,) = backend_pids(conn, NAME)
        with frozen(pid):
            assert ear.next() == {"a"}
            assert len(backend_pids(conn, NAME)) == 2
    assert "are lost: the server does not answer" in lines.wait_for("are lost")


def test_a_standby_is_asked_again_until_it_is_promoted(server: OwnServer, lines: Lines) -> None:
    server.stop()
    server.become_standby()
    server.start()
    ear = Ear()
    with Sharing(server.dsn) as signals:
        signals.subscribe(["a"], ear)
        assert "during recovery" in lines.wait_for("no signals from")
        assert signals.mode is Mode.CONNECTING
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            conn.execute("select pg_promote()")

        assert ear.next() == {"a"}


def test_of_several_hosts_the_first_that_answers_is_used(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    facts = conninfo_to_dict(database)
    several = {"host": f"/nowhere,{facts.get('host')}", "port": f"{facts.get('port')},{facts.get('port')}"}
    with Sharing(make_conninfo(database, **several)) as signals:
        ear, _ = listening(signals, "a")
        notify(conn, "a")

        assert ear.next() == {"a"}


def test_a_server_that_says_nothing_does_not_keep_the_thread_from_ending(lines: Lines) -> None:
    with black_hole() as dsn:
        signals = Signals.share(dsn)
        signals.subscribe(["a"], Ear())
        assert _seconds(signals.release) < 5
        assert not thread_of(signals).is_alive()


def test_no_secret_is_logged(lines: Lines) -> None:
    with black_hole() as dsn, Sharing(make_conninfo(dsn, connect_timeout=1)) as signals:
        line = lines.wait_for("no signals from host=127.0.0.1")

    assert "the server does not answer; polling meanwhile, trying again" in line
    assert "sesame" not in line + repr(signals)


@local
def test_a_frozen_session_does_not_keep_the_thread_from_ending(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    signals = Signals.share(database)
    listening(signals, "a")
    with frozen(*backend_pids(conn, NAME)):
        signals.subscribe(["b"], Ear())
        assert _seconds(signals.release) < 5
        assert not thread_of(signals).is_alive()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_process_has_a_connection_of_its_own_and_leaves_the_parents_alone(
    database: str, signals: Signals, conn: psycopg.Connection[Any], lines: Lines
) -> None:
    ear, subscription = listening(signals, "a")
    assert signals._line is not None
    session = os.fstat(signals._line.descriptor).st_ino
    child = os.fork()
    if child == 0:
        failed = 99
        try:
            failed = _hear_in_child(database, signals, subscription, session)
        finally:
            os._exit(failed)  # whatever happened: the rest of the tests, and their server, are the parent's
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    notify(conn, "a")
    assert ear.until("a")
    assert lines.at(logging.WARNING) == []


def _hear_in_child(dsn: str, inherited: Signals, subscription: Subscription, session: int) -> int:
    """How many claims did not hold."""
    is_open = f"socket:[{session}]" in (os.readlink(each) for each in _own_files())
    subscription.close()
    inherited.release()
    with Sharing(dsn) as signals, psycopg.connect(dsn, autocommit=True) as conn:
        ear, _ = listening(signals, "child")
        notify(conn, "child")
        claims = [
            ear.next() == {"child"},
            signals is not inherited,
            not is_open,
            inherited.mode is Mode.POLLING,
            len(backend_pids(conn, NAME)) == 2,
        ]
    gc.collect()
    return claims.count(False)


def _own_files() -> list[Path]:
    """The open files of this process, where the system shows them."""
    return [each for each in Path("/proc/self/fd").glob("*") if each.is_symlink()]


def test_an_error_without_a_code_is_a_lost_connection(conn: psycopg.Connection[Any]) -> None:
    """libpq speaks so when the server hung up; a server that refused something would say which."""
    result = conn.pgconn.make_empty_result(ExecStatus.FATAL_ERROR)

    assert action_for(line_module._error_of(result)) is Action.RECONNECT


def _terminate(conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = %s", [NAME]
    )


def _place(signals: Signals) -> str:
    return repr(signals).removeprefix("Signals(").removesuffix(")")


def _seconds(action: Callable[[], None]) -> float:
    before = monotonic()
    action()
    return monotonic() - before
