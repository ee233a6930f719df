"""When a job that failed is tried again, and when no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from holdfast.domain.job import JsonValue
from holdfast.domain.measures import Duration, finite_number, seconds, whole_number
from holdfast.errors import InvalidArgument

Kinds: TypeAlias = "type[BaseException] | tuple[type[BaseException], ...]"
Chance: TypeAlias = Callable[[], float]
"""Gives numbers from 0 to 1, as `random.random` does."""


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """A policy: how many executions may fail, how long to wait after each, and which errors are worth it.

    `max_attempts` counts every execution that is reported as failed: 1 means no second chance. After failure
    n it waits `base` × `multiplier` ** (n - 1) seconds, give or take the share `jitter`, and never longer
    than `cap`. Errors that are none of `on`, or one of `give_up_on`, end the job at once. `on=Exception`, the
    default, also covers what is raised past it: SystemExit, KeyboardInterrupt and CancelledError.
    """

    max_attempts: int
    base_s: float
    multiplier: float
    cap_s: float
    jitter: float
    on: tuple[type[BaseException], ...]
    give_up_on: tuple[type[BaseException], ...]

    def __init__(
        self,
        max_attempts: int = 10,
        *,
        base: Duration = 15,
        multiplier: float = 2,
        cap: Duration = 3600,
        jitter: float = 0.25,
        on: Kinds = Exception,
        give_up_on: Kinds = (),
    ) -> None:
        put = object.__setattr__
        put(self, "max_attempts", whole_number(max_attempts, "max_attempts"))
        put(self, "base_s", seconds(base, "base"))
        put(self, "multiplier", _at_least(multiplier, 1, "multiplier"))
        put(self, "cap_s", seconds(cap, "cap"))
        put(self, "jitter", _at_least(jitter, 0, "jitter", most=1))
        put(self, "on", _kinds(on, "on"))
        put(self, "give_up_on", _kinds(give_up_on, "give_up_on"))

    def delay(self, attempt: int, rng: Chance | None = None) -> float:
        """Seconds to wait after failure number `attempt`, the first being 1; without `rng` no jitter."""
        try:
            waited = self.base_s * self.multiplier ** (whole_number(attempt, "attempt") - 1)
        except OverflowError:
            waited = self.cap_s
        if rng is not None:
            waited *= 1 + self.jitter * (2 * rng() - 1)
        return min(waited, self.cap_s)

    def is_worth_it(self, error: BaseException) -> bool:
        """Whether the kind of error allows another attempt."""
        if isinstance(error, self.give_up_on):
            return False
        return isinstance(error, self.on) or (Exception in self.on and not isinstance(error, Exception))

    def to_json(self) -> dict[str, JsonValue]:
        """The policy as it is stored with a job. The kinds of errors are classes and stay with the task."""
        return {
            "max_attempts": self.max_attempts,
            "base": self.base_s,
            "multiplier": self.multiplier,
            "cap": self.cap_s,
            "jitter": self.jitter,
        }

    def overruled_by(self, stored: Mapping[str, JsonValue] | None, max_attempts: int | None = None) -> Retry:
        """The policy of one job: what is stored with it, and the rest from here.

        Raises InvalidArgument for what no policy can have; plain SQL may have stored anything.
        """
        if stored is None and max_attempts is None:
            return self
        given = dict(stored or {})
        if unknown := sorted(given.keys() - _STORED):
            raise InvalidArgument(f"retry: unknown {', '.join(unknown)}; there are {', '.join(_STORED)}")
        if max_attempts is not None:
            given["max_attempts"] = max_attempts
        terms = cast("dict[str, Any]", {**self.to_json(), **given})
        return Retry(**terms, on=self.on, give_up_on=self.give_up_on)


_STORED: Final = ("max_attempts", "base", "multiplier", "cap", "jitter")


def retry_from(value: int | Retry, name: str = "retry") -> Retry:
    """A policy, or the usual one with so many attempts."""
    if isinstance(value, Retry):
        return value
    if isinstance(value, bool) or not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"{name} must be a whole number of attempts or a Retry, not {value!r}")
    return Retry(whole_number(value, name))


def _at_least(value: float, least: float, name: str, most: float | None = None) -> float:
    number = finite_number(value, name)
    if number < least or (most is not None and number > most):
        limits = f"at least {least}" if most is None else f"{least} to {most}"
        raise InvalidArgument(f"{name} must be {limits}, not {value!r}")
    return number


def _kinds(kinds: object, name: str) -> tuple[type[BaseException], ...]:
    several: tuple[object, ...] = cast("tuple[object, ...]", kinds) if isinstance(kinds, tuple) else (kinds,)
    for kind in several:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise InvalidArgument(f"{name} must be exception classes, not {kind!r}")
    return cast("tuple[type[BaseException], ...]", several)
