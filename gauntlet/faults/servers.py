"""What can happen to the server as a whole."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from signal import SIGINT, SIGQUIT

from gauntlet.arena.arena import Arena
from gauntlet.faults.registry import fault

UP = "it is started again"


@fault(
    "server stopped at once",
    "immediate stop, as in a crash: no goodbye, no checkpoint",
    undone=UP,
    is_alone=True,
)
def stop_immediately(arena: Arena, rng: Random) -> Generator[float]:
    arena.server.stop(SIGQUIT)
    yield rng.uniform(0, 1)
    arena.server.ensure_up()


@fault(
    "server stopped fast", "fast stop: sessions are ended, transactions rolled back", undone=UP, is_alone=True
)
def stop_fast(arena: Arena, rng: Random) -> Generator[float]:
    arena.server.stop(SIGINT)
    yield rng.uniform(0, 1)
    arena.server.ensure_up()


@fault("server killed", "SIGKILL to all its processes", undone=UP, is_alone=True)
def kill_server(arena: Arena, rng: Random) -> Generator[float]:
    arena.server.kill()
    yield rng.uniform(0, 1)
    arena.server.ensure_up()


@fault(
    "server away for longer than a lease",
    "immediate stop; it stays down while leases end",
    undone=UP,
    weight=0.4,
    is_alone=True,
)
def stay_down(arena: Arena, rng: Random) -> Generator[float]:
    arena.server.stop(SIGQUIT)
    yield rng.uniform(2.5, 4)
    arena.server.ensure_up()


@fault("server frozen", "SIGSTOP to all its processes", undone="SIGCONT", is_alone=True, weight=0.7)
def freeze(arena: Arena, rng: Random) -> Generator[float]:
    frozen = arena.server.freeze()
    try:
        yield rng.uniform(0.3, 3)
    finally:
        arena.server.thaw(frozen)


@fault(
    "disk full",
    "nothing can be written any more, not even the log of transactions",
    undone="there is room again, and the server is started if it gave up",
    weight=0.3,
    is_alone=True,
    needs=lambda arena: None if arena.server.is_mounted else "only root may mount a small disk",
)
def fill_disk(arena: Arena, rng: Random) -> Generator[float]:
    try:
        arena.server.fill_disk()
        yield rng.uniform(0.5, 2)
    finally:
        arena.server.filler.unlink(missing_ok=True)
        arena.server.ensure_up()


@fault("checkpoints forced", "checkpoint and a new segment of the log, five times", undone="nothing to undo")
def force_checkpoints(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn:
        for _ in range(5):
            conn.execute("checkpoint")
            conn.execute("select pg_switch_wal()")
    yield 0


@fault("configuration reloaded", "SIGHUP to the server, under load", undone="nothing to undo", weight=0.5)
def reload_configuration(arena: Arena, rng: Random) -> Generator[float]:
    with arena.connect() as conn:
        conn.execute("select pg_reload_conf()")
    yield 0
