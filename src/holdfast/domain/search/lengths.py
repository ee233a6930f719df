"""Durations as people write them: 90s, 5m, 1h30m, 2d; whole milliseconds within."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

UNITS_MS: Final = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}

LONGEST_MS: Final = 1_000_000_000_000
"""As long as any duration of the engine: a billion seconds."""

_PART: Final = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)(ms|w|d|h|m|s)", re.ASCII)


def read(text: str) -> int | None:
    """The milliseconds of a duration; None if it is none, or longer than any can be."""
    total, place = Decimal(0), 0
    while part := _PART.match(text, place):
        total += Decimal(part[1]) * UNITS_MS[part[2]]
        place = part.end()
    if not place or place < len(text) or total > LONGEST_MS:
        return None
    return int(total)


def written(milliseconds: int) -> str:
    """A duration as `read` understands it."""
    parts: list[str] = []
    for unit, size in UNITS_MS.items():
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
