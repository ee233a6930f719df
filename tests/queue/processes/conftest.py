"""Ways to the database, and processes with a queue that take them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from tests.pgbouncer import PgBouncer
from tests.queue.processes.parent import Actor, Crew

Hire = Callable[..., Actor]


@dataclass(frozen=True, slots=True)
class Route:
    """How processes reach the database, and what a stream needs to learn in time what others did."""

    dsn: str
    signals: bool
    stream_face: str

    @property
    def options(self) -> dict[str, float]:
        """A lease and a poll so long that only signals can be quick; where there are none, short ones."""
        return {"lease": 120.0, "poll": 60.0} if self.signals else {"lease": 2.0, "poll": 0.1}

    @property
    def other_face(self) -> str:
        return "sync" if self.stream_face == "async" else "async"


WITH_STRESS = pytest.mark.stress
"""Every way with every face takes two minutes; the gate takes one face each way."""


@pytest.fixture(
    params=[
        "direct-async",
        "pgbouncer-sync",
        pytest.param("direct-sync", marks=WITH_STRESS),
        pytest.param("pgbouncer-async", marks=WITH_STRESS),
        pytest.param("silent-async", marks=WITH_STRESS),
        pytest.param("silent-sync", marks=WITH_STRESS),
    ]
)
def route(request: pytest.FixtureRequest, database: str, conn: psycopg.Connection[Any]) -> Route:
    """Direct with signals, direct without, and through a pooler that passes none on; either face streams."""
    way, face = request.param.split("-")
    if way == "pgbouncer":
        pooler: PgBouncer = request.getfixturevalue("pgbouncer")
        return Route(pooler.dsn(database), signals=False, stream_face=face)
    if way == "silent":
        conn.execute("select holdfast.set_notify(false)")
    return Route(database, signals=way == "direct", stream_face=face)


@pytest.fixture(scope="session")
def crew() -> Generator[Crew]:
    crew = Crew()
    yield crew
    crew.close()


@pytest.fixture
def hire(crew: Crew, route: Route) -> Generator[Hire]:
    """Take a process with an open queue on the route; streams are read by the route's face."""

    def take_on(*, streams: bool = False, **options: Any) -> Actor:
        face = route.stream_face if streams else route.other_face
        return crew.hire(route.dsn, face, **{**route.options, **options})

    yield take_on
    crew.dismiss()
