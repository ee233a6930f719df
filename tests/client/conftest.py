"""An app on the test's database, and hands that do a worker's work."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from holdfast import Holdfast
from holdfast.store import SyncStore
from tests.client.shop import Shop


@pytest.fixture
def hf(database: str) -> Generator[Holdfast]:
    with Holdfast(database) as app:
        yield app


@pytest.fixture
def shop(hf: Holdfast) -> Shop:
    return Shop(hf)


@pytest.fixture
def store(database: str) -> Generator[SyncStore]:
    """What a worker would settle with, and what tests look with."""
    with SyncStore(database) as opened:
        yield opened
