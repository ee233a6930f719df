"""Streams over HTTP on the test's database, for scenarios of their own and for those of all streams."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from tests.queue.streaming import Table
from tests.web.streams.face import RemoteFace, open_remote_face


@pytest.fixture(
    params=[
        # The same way but for one step, and minutes of it: `make stress`.
        pytest.param(False, id="written", marks=pytest.mark.stress),
        pytest.param(True, id="acknowledged"),
    ]
)
def side(request: pytest.FixtureRequest) -> Generator[RemoteFace]:
    """Streams over HTTP: jobs have arrived when they are written, or when they are acknowledged."""
    with open_remote_face(request.param) as face:
        yield face


@pytest.fixture
def table(conn: psycopg.Connection[Any]) -> Table:
    """What `database` itself says of the jobs."""
    return Table(conn)
