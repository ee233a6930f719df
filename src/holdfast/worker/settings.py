"""How a worker behaves: each setting with its keyword, environment variable, default and bounds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from holdfast.domain import measures
from holdfast.errors import InvalidArgument

ENVIRONMENT = "HOLDFAST_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Durations are seconds. Keyword > environment (HOLDFAST_LEASE, …) > default."""

    lease: float = 30.0
    """How long a job is held between two signs of life of the worker; at least 1."""
    shutdown_timeout: float = 25.0
    """How long a stop waits for handlers before it asks them to give up."""
    resource_busy_delay: float = 2.0
    """When a job whose resource is busy is tried again."""
    poll_active: float = 0.1
    """The shortest poll, after work was found."""
    poll_idle: float = 5.0
    """The longest poll, when there is none."""
    kill_after: float = 2.0
    """How long a child process has between SIGTERM and SIGKILL."""
    child_max_jobs: int | None = None
    """A child process is replaced after so many jobs; None: never for that reason."""
    child_max_rss: int | None = None
    """A child process that uses more bytes of memory after a job is replaced."""


def settings_from(given: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
    """The settings a worker is started with; raise InvalidArgument that names what cannot be."""
    surroundings = os.environ if environment is None else environment
    names = {each.name for each in fields(Settings)}
    if unknown := set(given) - names:
        raise InvalidArgument(
            f"a worker has no setting {', '.join(sorted(unknown))}; it has: {', '.join(sorted(names))}"
        )
    found: dict[str, Any] = {}
    for each in fields(Settings):
        variable = ENVIRONMENT + each.name.upper()
        if given.get(each.name) is not None:
            found[each.name] = _checked(each.name, given[each.name], each.name)
        elif surroundings.get(variable):
            found[each.name] = _checked(
                each.name, _read(each.name, surroundings[variable], variable), variable
            )
    return Settings(**found)


def _read(name: str, text: str, variable: str) -> float | int:
    if name == "child_max_rss":
        return measures.byte_size(text, variable)
    try:
        return int(text) if text.strip().isdigit() else float(text)
    except ValueError:
        raise InvalidArgument(f"{variable} must be a number, not {text!r}") from None


def _checked(name: str, value: Any, shown: str) -> float | int:
    if name == "child_max_rss":
        return measures.byte_size(value, shown)
    if name == "child_max_jobs":
        return measures.whole_number(value, shown)
    seconds = measures.seconds(value, shown, positive=name not in ("shutdown_timeout", "resource_busy_delay"))
    if name == "lease" and seconds < 1:
        raise InvalidArgument(f"{shown} must be at least 1 second, not {seconds:g}")
    return seconds
