"""Whoever acts on signals on an event loop has them read there, and nobody else waits for that loop.

That all else is as with signals read by their thread is seen by the fixture `signals`, which is both.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping
from typing import Any

import psycopg

from holdfast.store.signals import Signals
from tests.store.ears import NAME, PATIENCE_S, Ear, Sharing, listening, notify, thread_of, wait_until
from tests.store.trouble import backend_pids


def test_a_signal_is_passed_on_by_the_loop_itself(
    database: str, conn: psycopg.Connection[Any], loop: asyncio.AbstractEventLoop
) -> None:
    callers: list[threading.Thread] = []
    ear = Ear()

    def hear(channels: Mapping[str, str]) -> None:
        callers.append(threading.current_thread())
        ear(channels)

    with Sharing(database, loop) as signals:
        signals.subscribe(["a"], hear)
        ear.next()
        notify(conn, "a")
        ear.next()

        first, second = callers
        assert first is thread_of(signals)
        assert second is _thread_of_loop(loop)


def test_who_names_no_loop_does_not_wait_for_one_that_is_blocked(
    database: str, conn: psycopg.Connection[Any], loop: asyncio.AbstractEventLoop
) -> None:
    free = threading.Event()
    with Sharing(database, loop) as on_loop, Sharing(database) as on_thread:
        slow, _ = listening(on_loop, "a")
        quick, _ = listening(on_thread, "a")
        loop.call_soon_threadsafe(free.wait, PATIENCE_S)
        try:
            notify(conn, "a")
            assert quick.next() == {"a"}
            assert slow.is_silent()
        finally:
            free.set()
        assert slow.next() == {"a"}


def test_signals_of_a_loop_that_was_closed_are_read_by_their_thread(
    database: str, conn: psycopg.Connection[Any]
) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with Sharing(database, loop) as signals:
        ear, _ = listening(signals, "a")
        notify(conn, "a")
        assert ear.next() == {"a"}


def test_nothing_stays_open_when_the_signals_of_a_loop_are_released(
    database: str, loop: asyncio.AbstractEventLoop
) -> None:
    _thread_of_loop(loop)  # it runs, and has opened what it needs
    before = _open_files()
    for _ in range(3):
        with Sharing(database, loop) as signals:
            listening(signals, "a")
    wait_until(lambda: _open_files() == before)


def test_sessions_that_were_lost_leave_nothing_open(
    database: str, conn: psycopg.Connection[Any], loop: asyncio.AbstractEventLoop
) -> None:
    with Sharing(database, loop) as signals:
        ear, _ = listening(signals, "a")
        before = _open_files()
        for _ in range(3):
            conn.execute("select pg_terminate_backend(%s)", backend_pids(conn, NAME))
            assert ear.next() == {"a"}
        wait_until(lambda: _open_files() == before)


def test_a_loop_that_ends_before_its_signals_are_released_leaves_nothing_open(database: str) -> None:
    before = _open_files()

    async def leave_them() -> Signals:
        signals = Signals.share(database, asyncio.get_running_loop())
        ear = Ear()
        signals.subscribe(["a"], ear)
        await asyncio.to_thread(ear.next)
        return signals

    signals = asyncio.run(leave_them())
    signals.release()
    wait_until(lambda: _open_files() == before)


def _thread_of_loop(loop: asyncio.AbstractEventLoop) -> threading.Thread:
    async def ask() -> threading.Thread:
        return threading.current_thread()

    return asyncio.run_coroutine_threadsafe(ask(), loop).result(PATIENCE_S)


def _open_files() -> int:
    return len(os.listdir("/dev/fd"))
