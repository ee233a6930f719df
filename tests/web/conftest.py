"""A real server on a free port, over a database of its own, and jobs in it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import httpx
import pytest

from holdfast.app import Holdfast
from holdfast.web.settings import WebSettings, read_tokens
from tests.console.conftest import Shop
from tests.web.serving import Running

Serve = Callable[..., Running]

SECRETS = {role: f"{role}-secret-4711" for role in ("viewer", "operator", "admin")}
TOKENS = read_tokens(f"{role}:{role}-name:{secret}" for role, secret in SECRETS.items())
VIEWER, OPERATOR, ADMIN = ({"Authorization": f"Bearer {secret}"} for secret in SECRETS.values())


@pytest.fixture
def shop(database: str) -> Generator[Shop]:
    with Holdfast(database) as app:
        yield Shop(app)


@pytest.fixture
def serve(database: str) -> Generator[Serve]:
    """Start servers with these settings; they are stopped at the end."""
    started: list[Running] = []

    def start(**settings: Any) -> Running:
        running = Running(WebSettings(**{"dsn": database, "port": 0, **settings}))
        started.append(running)
        return running

    yield start
    for running in started:
        running.stop()


@pytest.fixture
def web(serve: Serve) -> Generator[httpx.Client]:
    """A client of a server on loopback without tokens."""
    with httpx.Client(base_url=serve().address, timeout=20) as client:
        yield client
