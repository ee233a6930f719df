"""Signals to the processes of the load, in whatever phase they are."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import suppress
from random import Random
from signal import SIGCONT, SIGINT, SIGKILL, SIGSTOP, SIGTERM
from time import sleep

from gauntlet.arena.arena import LEASE_S, Arena
from gauntlet.faults.registry import fault

SHUTDOWN_S = 2.0


@fault("worker killed", "SIGKILL to a worker", weight=6)
def kill_worker(arena: Arena, rng: Random) -> Generator[float]:
    arena.fleet.pick(rng, "worker").signal(SIGKILL)
    yield 0


@fault("all workers killed", "SIGKILL to every worker at once", weight=0.3)
def kill_all_workers(arena: Arena, rng: Random) -> Generator[float]:
    for member in arena.fleet.of("worker"):
        member.signal(SIGKILL)
    yield 0


@fault("worker told to stop", "SIGTERM to a worker: it hands back what it cannot finish", weight=2)
def stop_worker(arena: Arena, rng: Random) -> Generator[float]:
    arena.fleet.pick(rng, "worker").signal(SIGTERM)
    yield 0


@fault("worker killed while it stops", "SIGTERM, and SIGKILL somewhere in its shutdown", weight=2)
def kill_stopping_worker(arena: Arena, rng: Random) -> Generator[float]:
    member = arena.fleet.pick(rng, "worker")
    member.signal(SIGTERM)
    yield rng.choice((0, 0.02, 0.1, 0.25, 0.5, 1)) * SHUTDOWN_S
    if member.is_alive:
        member.signal(SIGKILL)


@fault("worker interrupted twice", "SIGINT, and another: it stops in a hurry", weight=1)
def interrupt_worker(arena: Arena, rng: Random) -> Generator[float]:
    member = arena.fleet.pick(rng, "worker")
    member.signal(SIGINT)
    yield rng.uniform(0, 0.5)
    if member.is_alive:
        member.signal(SIGINT)


@fault(
    "worker killed as it starts", "SIGKILL to a worker, and to its successor in its first second", weight=1
)
def kill_starting_worker(arena: Arena, rng: Random) -> Generator[float]:
    member = arena.fleet.pick(rng, "worker")
    starts = member.starts
    member.signal(SIGKILL)
    yield rng.uniform(0.3, 1.3)
    if member.starts > starts and member.is_alive:
        member.signal(SIGKILL)


@fault(
    "worker frozen beyond its lease",
    "SIGSTOP until its jobs are somebody else's",
    undone="SIGCONT: a zombie",
    weight=2,
)
def freeze_worker(arena: Arena, rng: Random) -> Generator[float]:
    member = arena.fleet.pick(rng, "worker")
    try:
        member.signal(SIGSTOP)
        yield LEASE_S * rng.uniform(1.2, 2.5)
    finally:
        member.signal(SIGCONT)


@fault(
    "worker frozen for just its lease",
    "SIGSTOP for the length of a lease, give or take 100 ms",
    undone="SIGCONT",
)
def freeze_worker_at_boundary(arena: Arena, rng: Random) -> Generator[float]:
    member = arena.fleet.pick(rng, "worker")
    try:
        member.signal(SIGSTOP)
        yield LEASE_S + rng.uniform(-0.1, 0.1)
    finally:
        member.signal(SIGCONT)


@fault("worker stutters", "SIGSTOP and SIGCONT, ten times, quickly", undone="SIGCONT")
def stutter(arena: Arena, rng: Random) -> Generator[float]:
    member = arena.fleet.pick(rng, "worker")
    try:
        for _ in range(10):
            member.signal(SIGSTOP)
            pause_s = rng.uniform(0.01, 0.1)
            sleep(pause_s)
            member.signal(SIGCONT)
            sleep(pause_s)
        yield 0
    finally:
        member.signal(SIGCONT)


@fault(
    "child of a worker killed", "SIGKILL to a process that runs handlers", undone="the worker starts another"
)
def kill_child(arena: Arena, rng: Random) -> Generator[float]:
    children = arena.fleet.pick(rng, "worker").children()
    if children:
        with suppress(ProcessLookupError):
            os.kill(rng.choice(children), SIGKILL)
    yield 0


@fault(
    "child of a worker frozen", "SIGSTOP to a process that runs handlers", undone="SIGCONT, if it still is"
)
def freeze_child(arena: Arena, rng: Random) -> Generator[float]:
    children = arena.fleet.pick(rng, "worker").children()
    child = rng.choice(children) if children else None
    with suppress(ProcessLookupError):
        if child is not None:
            os.kill(child, SIGSTOP)
        yield rng.uniform(0.5, 2)
        if child is not None:
            os.kill(child, SIGCONT)


@fault("producer killed", "SIGKILL to a producer, with or without a call under way")
def kill_producer(arena: Arena, rng: Random) -> Generator[float]:
    arena.fleet.pick(rng, "producer").signal(SIGKILL)
    yield 0


@fault("stream reader killed", "SIGKILL to a process that reads streams by hand")
def kill_hand(arena: Arena, rng: Random) -> Generator[float]:
    arena.fleet.pick(rng, "hand").signal(SIGKILL)
    yield 0


@fault(
    "stream reader frozen beyond its lease", "SIGSTOP until its jobs are somebody else's", undone="SIGCONT"
)
def freeze_hand(arena: Arena, rng: Random) -> Generator[float]:
    member = arena.fleet.pick(rng, "hand")
    try:
        member.signal(SIGSTOP)
        yield LEASE_S * rng.uniform(1.2, 2)
    finally:
        member.signal(SIGCONT)


@fault("web server killed", "SIGKILL to the server that streams over HTTP", weight=2)
def kill_web(arena: Arena, rng: Random) -> Generator[float]:
    arena.fleet.pick(rng, "web").signal(SIGKILL)
    yield 0


@fault("web server told to stop", "SIGTERM to the server that streams over HTTP")
def stop_web(arena: Arena, rng: Random) -> Generator[float]:
    arena.fleet.pick(rng, "web").signal(SIGTERM)
    yield 0


@fault("web server frozen beyond its leases", "SIGSTOP until its jobs are somebody else's", undone="SIGCONT")
def freeze_web(arena: Arena, rng: Random) -> Generator[float]:
    member = arena.fleet.pick(rng, "web")
    try:
        member.signal(SIGSTOP)
        yield LEASE_S * rng.uniform(1.2, 2)
    finally:
        member.signal(SIGCONT)


@fault("SQL client killed", "SIGKILL to a client with a transaction open, perhaps")
def kill_sql_client(arena: Arena, rng: Random) -> Generator[float]:
    arena.fleet.pick(rng, "sql").signal(SIGKILL)
    yield 0


@fault("operator killed", "SIGKILL to whoever cancels, pauses and revives", weight=0.5)
def kill_operator(arena: Arena, rng: Random) -> Generator[float]:
    arena.fleet.pick(rng, "operator").signal(SIGKILL)
    yield 0
