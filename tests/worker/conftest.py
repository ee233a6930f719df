"""An app on the test's database."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator

import pytest

from holdfast import Holdfast
from tests.worker import app


@pytest.fixture
async def hf(database: str) -> AsyncGenerator[Holdfast]:
    app = Holdfast(database)
    yield app
    await app.aclose()


@pytest.fixture(autouse=True)
def _see_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "holdfast")


@pytest.fixture
async def shop(database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Holdfast]:
    """The app of `tests.worker.app`, which other processes can import, on the test's database."""
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", database)
    yield app.hf
    await app.hf.aclose()
