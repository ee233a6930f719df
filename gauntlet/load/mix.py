"""What is enqueued, at random from a seed: which task, with which arguments and options."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

SINGLETONS: Final = 24
RESOURCES: Final = {f"r{number}": 1 + number % 3 for number in range(12)}
"""Capacities by key."""

KINDS: Final = {
    "plain": 49,
    "linger": 7,
    "brief": 9,
    "child": 2,
    "flaky": 6,
    "snoozy": 3,
    "doomed": 1,
    "overdue": 1,
    "singleton": 4,
    "resource": 3,
    "dependent": 6,
    "delayed": 3,
    "hand": 4,
    "sql": 2,
}
BUSY_KINDS: Final = {
    **KINDS,
    "plain": 20,
    "flaky": 12,
    "snoozy": 8,
    "singleton": 14,
    "resource": 12,
    "dependent": 14,
    "hand": 10,
    "sql": 8,
    "linger": 14,
}
"""More of what can go wrong: for short runs with one mistake to find."""


@dataclass(slots=True)
class Mix:
    """Chooses jobs, and remembers those that others can wait for."""

    rng: Random
    kinds: dict[str, int] = field(default_factory=lambda: dict(KINDS))
    recent: deque[str] = field(default_factory=lambda: deque[str](maxlen=200))
    """Jobs whose enqueue was acknowledged."""
    pace: float = 1.0
    """How much longer than usual handlers take."""

    def choose(self) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """Task, arguments and options of a job."""
        rng = self.rng
        kind = rng.choices(list(self.kinds), list(self.kinds.values()))[0]
        options: dict[str, Any] = {}
        if rng.random() < 0.1:
            options["priority"] = rng.choice((-5, 5, 9))
        match kind:
            case "linger":
                return "linger", (rng.uniform(0, 0.5) * self.pace,), options
            case "brief" | "child":
                return kind, (rng.uniform(0, 0.03),), options
            case "flaky":
                # The eighth failure is the last.
                return "flaky", (rng.choice((1, 1, 1, 2, 3, 8)),), options
            case "singleton":
                return (
                    "linger",
                    (rng.uniform(0, 0.02) * self.pace,),
                    {**options, "singleton_key": f"s{rng.randrange(SINGLETONS)}"},
                )
            case "resource":
                keys = rng.sample(sorted(RESOURCES), rng.choice((1, 1, 2)))
                return "linger", (rng.uniform(0, 0.02) * self.pace,), {**options, "resources": keys}
            case "dependent" if self.recent:
                parents = {rng.choice(self.recent) for _ in range(rng.choice((1, 1, 2, 5)))}
                failing = rng.choice(("run", "run", "wait", "cancel"))
                return "plain", (), {**options, "wait_for": sorted(parents), "if_parent_fails": failing}
            case "delayed":
                return "plain", (), {**options, "delay": round(rng.uniform(0.2, 2), 3)}
            case "hand":
                return "plain", (), {**options, "queue": "hand", "retry": rng.choice((1, 1, 2, 5))}
            case "sql":
                return "plain", (), {**options, "queue": "sql"}
            case "dependent":
                return "plain", (), options
            case _:
                return kind, (), options
