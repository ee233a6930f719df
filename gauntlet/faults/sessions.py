"""What can happen to sessions in the server."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import suppress
from random import Random
from signal import SIGKILL
from typing import Any

import psycopg

from gauntlet.arena.arena import Arena
from gauntlet.faults.registry import fault

OURS = "datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()"


def _ask(arena: Arena, query: str) -> list[int]:
    with arena.connect() as conn:
        return [int(row[0] or 0) for row in conn.execute(query.encode()).fetchall()]


@fault(
    "session terminated",
    "pg_terminate_backend for some session",
    undone="its client connects again",
    weight=5,
)
def terminate_one(arena: Arena, rng: Random) -> Generator[float]:
    _ask(
        arena,
        f"select pg_terminate_backend(pid)::int from pg_stat_activity where {OURS} order by random() limit 1",
    )
    yield 0


@fault(
    "busy session terminated",
    "pg_terminate_backend for a session in the middle of a statement",
    undone="its client connects again",
    weight=4,
)
def terminate_busy(arena: Arena, rng: Random) -> Generator[float]:
    _ask(
        arena,
        "select pg_terminate_backend(pid)::int from pg_stat_activity "
        f"where {OURS} and state = 'active' limit 2",
    )
    yield 0


@fault(
    "all sessions terminated", "pg_terminate_backend for everybody", undone="clients connect again", weight=1
)
def terminate_all(arena: Arena, rng: Random) -> Generator[float]:
    _ask(arena, f"select pg_terminate_backend(pid)::int from pg_stat_activity where {OURS}")
    yield 0


@fault(
    "statements cancelled",
    "pg_cancel_backend for whoever is busy, ten times",
    undone="clients try again",
    weight=3,
)
def cancel_statements(arena: Arena, rng: Random) -> Generator[float]:
    for _ in range(10):
        _ask(
            arena,
            f"select pg_cancel_backend(pid)::int from pg_stat_activity where {OURS} and state = 'active'",
        )
    yield 0


@fault(
    "listener terminated",
    "pg_terminate_backend for sessions that listen for signals",
    undone="they listen again; polling covers the gap",
    weight=2,
)
def terminate_listeners(arena: Arena, rng: Random) -> Generator[float]:
    _ask(
        arena,
        f"select pg_terminate_backend(pid)::int from pg_stat_activity where {OURS} and query ilike 'listen%'",
    )
    yield 0


@fault(
    "session killed",
    "SIGKILL to a backend: the server ends all sessions and recovers from its log",
    undone="clients connect again",
    weight=0.8,
    is_alone=True,
)
def kill_backend(arena: Arena, rng: Random) -> Generator[float]:
    for pid in _ask(
        arena, f"select pid from pg_stat_activity where {OURS} order by state = 'active' desc limit 1"
    ):
        with suppress(ProcessLookupError):
            os.kill(pid, SIGKILL)
    yield 0.2
    arena.server.ensure_up()


@fault(
    "connections exhausted",
    "every connection of the server is taken",
    undone="they are given back",
    weight=0.7,
)
def exhaust(arena: Arena, rng: Random) -> Generator[float]:
    taken: list[psycopg.Connection[Any]] = []
    try:
        with suppress(Exception):
            while len(taken) < 150:
                taken.append(psycopg.connect(arena.dsn, application_name="gauntlet", connect_timeout=1))
        yield rng.uniform(0.5, 2)
    finally:
        for conn in taken:
            conn.close()
