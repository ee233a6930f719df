from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.worker.program.programs import Shop, write_app


@pytest.fixture
def shop(conn: psycopg.Connection[Any]) -> Shop:
    """The jobs of the app in `database`."""
    return Shop(conn)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory with the app in it."""
    return write_app(tmp_path)
