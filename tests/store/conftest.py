"""Stores on the test's database, and ways to make its engine fail."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from typing import Any

import psycopg
import pytest

from holdfast.store import Store, SyncStore
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
def trouble(conn: psycopg.Connection[Any]) -> Trouble:
    """Errors on demand from functions of the engine in `database`."""
    return Trouble(conn)
