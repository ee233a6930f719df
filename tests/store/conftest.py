"""Stores and signals of the test's database, and ways to make its engine fail."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.store import Store, SyncStore
from holdfast.store.signals import Signals
from tests.store.ears import Lines, Sharing
from tests.store.servers import OwnServer
from tests.store.trouble import Trouble


@pytest.fixture
def store(database: str) -> Generator[SyncStore]:
    with SyncStore(database) as opened:
        yield opened


@pytest.fixture
async def async_store(database: str) -> AsyncGenerator[Store]:
    async with Store(database) as opened:
        yield opened


@pytest.fixture
def loop() -> Generator[asyncio.AbstractEventLoop]:
    """An event loop that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(params=["by thread", "by loop"])
def signals(database: str, request: pytest.FixtureRequest) -> Generator[Signals]:
    """Signals that their own thread reads, and signals that an event loop reads."""
    loop = request.getfixturevalue("loop") if request.param == "by loop" else None
    with Sharing(database, loop) as shared:
        yield shared


@pytest.fixture
def lines() -> Generator[Lines]:
    """What is logged about signals."""
    logger = logging.getLogger("holdfast.signals")
    handler, level = Lines(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture
def server(open_directory: Path) -> Generator[OwnServer]:
    """A server of the test's own."""
    started = OwnServer(open_directory / "pg")
    yield started
    started.stop()


@pytest.fixture
def trouble(conn: psycopg.Connection[Any]) -> Trouble:
    """Errors on demand from functions of the engine in `database`."""
    return Trouble(conn)
