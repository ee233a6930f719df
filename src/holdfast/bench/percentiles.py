"""Percentiles that are values which occurred."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(values: Sequence[float], percent: int) -> float:
    """The value that so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
