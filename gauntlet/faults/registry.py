"""What a fault is: a name, what it does, how it is undone, and a generator of a few lines."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from random import Random
from typing import Final

from gauntlet.arena.arena import Arena

Act = Callable[[Arena, Random], Generator[float]]
"""Does it, yields how many seconds it is to last, and undoes it."""
Needs = Callable[[Arena], "str | None"]
"""Why it cannot be done here; None: it can."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault."""

    name: str
    does: str
    undone: str
    act: Act
    weight: float
    """How often, compared with others."""
    is_alone: bool
    """It concerns everybody: no other fault of this kind at the same time."""
    needs: Needs


FAULTS: Final[dict[str, Fault]] = {}


def fault(
    name: str,
    does: str,
    *,
    undone: str = "the fleet starts another",
    weight: float = 1.0,
    is_alone: bool = False,
    needs: Needs = lambda arena: None,
) -> Callable[[Act], Act]:
    """Register a kind of fault."""

    def register(act: Act) -> Act:
        assert name not in FAULTS, name
        FAULTS[name] = Fault(name, does, undone, act, weight, is_alone, needs)
        return act

    return register
