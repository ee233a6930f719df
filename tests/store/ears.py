"""Subscribers to signals that remember what they heard."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from time import monotonic
from types import TracebackType
from typing import Any

import psycopg
from psycopg.sql import SQL, Literal

from holdfast.store.signals import Mode, Signals, Subscription

PATIENCE_S = 60.0
"""How long a test waits for what happens within milliseconds on a machine with nothing else to do."""


NAME = "holdfast signals"
"""How the connection calls itself."""


class Ear:
    """A callback that keeps its calls until somebody asks for them."""

    def __init__(self) -> None:
        self._calls: queue.Queue[Mapping[str, str]] = queue.Queue()

    def __call__(self, channels: Mapping[str, str]) -> None:
        self._calls.put(channels)

    def next(self) -> set[str]:
        """The channels the next call told of, waiting for it."""
        return set(self.next_words())

    def next_words(self) -> Mapping[str, str]:
        """What the next call told, waiting for it."""
        return self._calls.get(timeout=PATIENCE_S)

    def is_silent(self) -> bool:
        """Whether there is no call that nobody has asked for."""
        return self._calls.empty()

    def until(self, channel: str) -> list[set[str]]:
        """All calls up to the first that told of this channel."""
        calls = [self.next()]
        while channel not in calls[-1]:
            calls.append(self.next())
        return calls


class Sharing:
    """Shares the signals of a database for as long as the block lasts."""

    def __init__(self, dsn: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._dsn = dsn
        self._loop = loop

    def __enter__(self) -> Signals:
        self.signals = Signals.share(self._dsn, self._loop)
        return self.signals

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.signals.release()


class Lines(logging.Handler):
    """The lines that were logged, to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._more = threading.Condition()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        with self._more:
            self.records.append(record)
            self._more.notify_all()

    def at(self, level: int) -> list[str]:
        return [record.getMessage() for record in self.records if record.levelno == level]

    def wait_for(self, words: str) -> str:
        """The first line with these words."""
        with self._more:
            assert self._more.wait_for(lambda: self._with(words), PATIENCE_S), (words, self.records)
            return self._with(words)[0]

    def _with(self, words: str) -> list[str]:
        return [line for line in (record.getMessage() for record in self.records) if words in line]


def notify(conn: psycopg.Connection[Any], *channels: str) -> None:
    """Send a signal on each of the channels, all in one transaction."""
    calls = SQL(", ").join(SQL("pg_notify({}, '')").format(Literal(channel)) for channel in channels)
    conn.execute(SQL("select {}").format(calls))


def listening(signals: Signals, *channels: str) -> tuple[Ear, Subscription]:
    """A subscriber whose first call, that the channels are listened to, is over."""
    ear = Ear()
    subscription = signals.subscribe(channels, ear)
    assert ear.next() == set(channels)
    return ear, subscription


def thread_of(signals: Signals) -> threading.Thread:
    return signals._thread


def wait_for_mode(signals: Signals, mode: Mode) -> None:
    wait_until(lambda: signals.mode is mode)


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait for what gives no signal."""
    deadline = monotonic() + PATIENCE_S
    pause = threading.Event()
    while not happened():
        assert monotonic() < deadline, "it has not happened"
        pause.wait(0.005)
