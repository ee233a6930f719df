"""What can happen on the way to the server: in our proxy, in pgbouncer, on a wire of our own."""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from signal import SIGCONT, SIGSTOP

from gauntlet.arena.arena import Arena
from gauntlet.faults.registry import Act, fault

FREE = "the way is free again"


def _needs_link(arena: Arena) -> str | None:
    return None if arena.link is not None else "no proxy in this run"


def _needs_pooler(arena: Arena) -> str | None:
    return None if arena.pooler is not None else arena.skipped.get("pgbouncer", "no pgbouncer in this run")


def _needs_spaces(arena: Arena) -> str | None:
    return None if arena.spaces is not None else arena.skipped.get("namespaces", "no namespaces in this run")


@fault(
    "connections reset",
    "RST on every connection through the proxy",
    undone="clients connect again",
    weight=3,
    needs=_needs_link,
)
def reset(arena: Arena, rng: Random) -> Generator[float]:
    assert arena.link is not None
    arena.link.order(do="reset")
    yield 0


def _weather(name: str, does: str, mode: str, least_s: float, most_s: float, weight: float = 1.0) -> None:
    def act(arena: Arena, rng: Random) -> Generator[float]:
        assert arena.link is not None
        arena.link.order(do="set", mode=mode, seconds=rng.uniform(0.02, 0.3))
        try:
            yield rng.uniform(least_s, most_s)
        finally:
            arena.link.order(do="set", mode="pass")
            if mode in ("deaf", "mute", "gone"):
                # What was swallowed is missing from the stream of bytes: as after a long loss, it is reset.
                arena.link.order(do="reset")

    fault(name, does, undone=FREE, weight=weight, needs=_needs_link)(act)


_weather("way black", "nothing arrives in either direction, and nothing is said about it", "gone", 0.5, 6)
_weather("answers lost", "requests arrive, answers do not", "deaf", 0.5, 4)
_weather("requests lost", "answers arrive, requests do not", "mute", 0.5, 4)
_weather("way slow", "every message takes up to 0.3 s longer", "slow", 1, 4)
_weather("way trickles", "messages arrive seven bytes at a time", "trickle", 1, 4)
_weather("connections refused", "no new connection gets through", "refuse", 0.5, 3)
_weather("connections stall", "new connections are accepted, and then nothing", "stall", 0.5, 3)


def _cut(name: str, does: str, word: str, how: str = "reply", weight: float = 2.0) -> Act:
    def act(arena: Arena, rng: Random) -> Generator[float]:
        assert arena.link is not None
        arena.link.order(do="cut", word=word, how=how, times=rng.randint(1, 3))
        yield rng.uniform(0.3, 1)
        arena.link.order(do="cut", word="", how=how, times=0)

    return fault(
        name,
        does,
        undone="clients connect again, and find out what happened",
        weight=weight,
        needs=_needs_link,
    )(act)


_cut("enqueue not answered", "cut after the commit of an enqueue, before its answer", "submit")
_cut("claim not answered", "cut after the commit of a claim, before its answer", "claim")
_cut("settle not answered", "cut after the commit of a settle, before its answer", "settle")
_cut("extension not answered", "cut after the commit of an extension, before its answer", "extend")
_cut(
    "commit not answered",
    "cut after a COMMIT of a caller's transaction, before its answer",
    "COMMIT",
    weight=1,
)
_cut("anything not answered", "cut before the answer of whatever comes next", "", weight=1)
_cut("answer cut short", "half of an answer, and then a reset", "", "middle", weight=1)
_cut("request cut short", "half of a request, and then a reset", "", "request", weight=1)


@fault(
    "proxy killed",
    "the way itself dies with all its connections",
    undone="it is there again",
    needs=_needs_link,
)
def kill_link(arena: Arena, rng: Random) -> Generator[float]:
    assert arena.link is not None
    arena.link.kill()
    yield rng.uniform(0, 1)
    arena.link.start()


@fault(
    "partition",
    "a wire between two network namespaces is down: no FIN, no RST",
    undone="it is up again",
    needs=_needs_spaces,
)
def partition(arena: Arena, rng: Random) -> Generator[float]:
    assert arena.spaces is not None
    arena.spaces.cut()
    try:
        yield rng.uniform(0.5, 6)
    finally:
        arena.spaces.mend()


@fault(
    "pgbouncer killed",
    "SIGKILL to the pooler in the middle",
    undone="it is started again",
    needs=_needs_pooler,
)
def kill_pooler(arena: Arena, rng: Random) -> Generator[float]:
    assert arena.pooler is not None
    arena.pooler.kill()
    yield rng.uniform(0, 1)
    arena.pooler.start()


@fault("pgbouncer frozen", "SIGSTOP to the pooler in the middle", undone="SIGCONT", needs=_needs_pooler)
def freeze_pooler(arena: Arena, rng: Random) -> Generator[float]:
    assert arena.pooler is not None
    arena.pooler.freeze(SIGSTOP)
    try:
        yield rng.uniform(0.5, 3)
    finally:
        arena.pooler.freeze(SIGCONT)
