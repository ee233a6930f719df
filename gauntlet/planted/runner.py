"""A short run for every planted mistake: each has to be caught, and nothing where nothing is planted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from time import monotonic

from gauntlet.arena.arena import Size
from gauntlet.arena.server import Server
from gauntlet.planted.catalogue import PLANTED
from gauntlet.planted.plant import Plant, plant
from gauntlet.run import Plan, go

SECONDS = 7.0
AGAIN_S = 25.0
"""A mistake that chance has spared gets another seed and more time, once."""
REST_S = 4.0
"""Not for a verdict: what is caught is caught by what it does, not by how long it takes."""


@dataclass(frozen=True, slots=True)
class Catch:
    """Whether a mistake was seen, by which invariants, and how long that took."""

    name: str
    does: str
    is_caught: bool
    by: tuple[str, ...]
    seconds: float


def control(server: Server, seed: int, say: Callable[[str], None]) -> Catch:
    """The same short run without a mistake: it must be clean."""
    return _run(
        server, "nothing", Plant("nothing is planted", faults=("worker killed",)), seed, say, is_control=True
    )


def catches(server: Server, names: Iterable[str], seed: int, say: Callable[[str], None]) -> Iterable[Catch]:
    for name in names:
        catch = _run(server, name, PLANTED[name], seed, say)
        if not catch.is_caught:
            catch = _run(server, name, PLANTED[name], seed + 1, say, seconds=AGAIN_S)
        yield catch


def _run(
    server: Server,
    name: str,
    mistake: Plant,
    seed: int,
    say: Callable[[str], None],
    *,
    seconds: float = SECONDS,
    is_control: bool = False,
) -> Catch:
    began = monotonic()
    needs_ways = any("answered" in fault for fault in mistake.faults)
    size = Size(rate=120, workers=2, producers=1, busy=True, with_ways=needs_ways)
    plan = Plan(
        seed,
        seconds,
        0,
        8 if mistake.faults else 0,
        size,
        mistake.faults,
        kills=0,
        restarts=0,
        rest_s=None if is_control else REST_S,
        patience=1.5 if is_control else 1.0,
        first_s=8,
    )
    outcome = go(
        server,
        plan,
        lambda _: None,
        plant=None if is_control else partial(_plant, mistake),
        keep_failed=is_control,
    )
    by = tuple(outcome.verdict.counts)
    fits = bool(by) and (not mistake.caught_by or any(name in by for name in mistake.caught_by))
    catch = Catch(name, mistake.does, fits, by, monotonic() - began)
    word = ("caught" if fits else "NOT caught") if not is_control else "NOT clean" if by else "clean"
    say(f"{name}: {word} in {catch.seconds:.0f} s: {', '.join(by)}")
    return catch


def _plant(mistake: Plant, conn: object) -> None:
    plant(conn, mistake)  # type: ignore[arg-type]
