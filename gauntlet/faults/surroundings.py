"""What surrounds a worker: its clock, its system calls, its version."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Generator, Mapping
from glob import glob
from pathlib import Path
from random import Random
from signal import SIGKILL

from gauntlet.arena.arena import Arena
from gauntlet.arena.fleet import ROOT, has
from gauntlet.faults.registry import fault

_numbers = itertools.count(1)
FAKETIME = "/usr/lib/*/faketime/libfaketime.so.1"
OLD = ("src/holdfast",)


def _needs_faketime(arena: Arena) -> str | None:
    return None if glob(FAKETIME) else "libfaketime is not installed"


def _needs_strace(arena: Arena) -> str | None:
    if why := has("strace"):
        return why
    tried = subprocess.run(["strace", "-o", os.devnull, "true"], capture_output=True, check=False)
    return None if tried.returncode == 0 else "strace may not trace here"


def _guest(
    arena: Arena,
    seconds: float,
    *,
    prefix: tuple[str, ...] = (),
    environment: Mapping[str, str] | None = None,
) -> Generator[float]:
    """A worker beside the others for a while; then it is killed, if it still lives."""
    member = arena.add_worker(
        f"guest{next(_numbers)}", arena.dsn, prefix=prefix, environment=environment, is_temporary=True
    )
    try:
        yield seconds
    finally:
        if member.is_alive:
            member.signal(SIGKILL)
        member.process.wait()


def _clock(name: str, does: str, faketime: str) -> None:
    def act(arena: Arena, rng: Random) -> Generator[float]:
        (library, *_) = glob(FAKETIME)
        clock = {"LD_PRELOAD": library, "FAKETIME": faketime, "DONT_FAKE_MONOTONIC": "1"}
        yield from _guest(arena, rng.uniform(2, 5), environment=clock)

    fault(name, does, undone="it is killed", needs=_needs_faketime, weight=0.5)(act)


_clock("clock an hour ahead", "a worker whose clock is an hour ahead", "+1h")
_clock("clock an hour behind", "a worker whose clock is an hour behind", "-1h")
_clock("clock twice as fast", "a worker whose clock runs at double speed", "+0 x2")


@fault(
    "killed at a system call",
    "SIGKILL to a worker at its n-th send, for another n each time",
    undone="its jobs come back when their leases end",
    needs=_needs_strace,
    weight=2,
)
def crash_point(arena: Arena, rng: Random) -> Generator[float]:
    number = next(_crash_points)
    call = rng.choice(("sendto", "sendto", "recvfrom", "write"))
    strace = (
        "strace",
        "-D",
        "-f",
        "-o",
        os.devnull,
        "-e",
        f"trace={call}",
        "-e",
        f"inject={call}:signal=KILL:when={number}",
    )
    yield from _guest(arena, 6, prefix=strace)


_crash_points = itertools.count(1)


@fault(
    "system calls slow",
    "every send of a worker takes 30 ms longer",
    undone="it is killed",
    needs=_needs_strace,
    weight=0.5,
)
def slow_calls(arena: Arena, rng: Random) -> Generator[float]:
    strace = (
        "strace",
        "-D",
        "-f",
        "-o",
        os.devnull,
        "-e",
        "trace=sendto",
        "-e",
        "inject=sendto:delay_enter=30000",
    )
    yield from _guest(arena, rng.uniform(3, 5), prefix=strace)


@fault(
    "sends fail",
    "every fifth send of a worker fails with ECONNRESET",
    undone="it is killed",
    needs=_needs_strace,
    weight=0.5,
)
def failing_sends(arena: Arena, rng: Random) -> Generator[float]:
    strace = (
        "strace",
        "-D",
        "-f",
        "-o",
        os.devnull,
        "-e",
        "trace=sendto",
        "-e",
        f"inject=sendto:error=ECONNRESET:when={rng.randint(5, 30)}+5",
    )
    yield from _guest(arena, rng.uniform(3, 5), prefix=strace)


def _older(arena: Arena) -> Path | str:
    """The source of an older release, taken from the repository's history; or why there is none."""
    if why := has("git"):
        return why
    place = arena.directory / "older"
    if place.exists():
        return place
    with_same_tables = subprocess.run(
        ["git", "-C", str(ROOT), "log", "--format=%H", "-n", "40", "--", *OLD],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    if len(with_same_tables) < 2:
        return "the repository has no history here"
    place.mkdir()
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", with_same_tables[min(5, len(with_same_tables) - 1)], "src"],
        capture_output=True,
        check=False,
    )
    unpacked = subprocess.run(["tar", "-x", "-C", str(place)], input=archive.stdout, check=False)
    if archive.returncode or unpacked.returncode:
        shutil.rmtree(place)
        return "the repository's history cannot be read here"
    return place


def _needs_older(arena: Arena) -> str | None:
    found = _older(arena)
    return found if isinstance(found, str) else None


@fault(
    "older worker beside",
    "a worker of an older version works beside the others",
    undone="it is killed",
    needs=_needs_older,
    weight=0.5,
)
def older_worker(arena: Arena, rng: Random) -> Generator[float]:
    older = _older(arena)
    assert isinstance(older, Path)
    yield from _guest(arena, rng.uniform(3, 6), environment={"PYTHONPATH": str(older / "src")})


@fault(
    "starved",
    "a worker on the lowest priority while something else takes the processor",
    undone="it is killed",
)
def starve(arena: Arena, rng: Random) -> Generator[float]:
    yield from _guest(arena, rng.uniform(2, 4), prefix=("nice", "-n", "19"))


@fault(
    "few descriptors",
    "a worker that may open 64 files",
    undone="it is killed",
    weight=0.5,
    needs=lambda arena: has("prlimit"),
)
def few_descriptors(arena: Arena, rng: Random) -> Generator[float]:
    yield from _guest(arena, rng.uniform(2, 4), prefix=("prlimit", "--nofile=64"))
