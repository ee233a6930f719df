"""What a contender is: data. What it does is in its adapter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Value = int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class Setting:
    """One choice made for a contender, and where its documentation speaks of it."""

    name: str
    value: Value
    source: str
    why: str


@dataclass(frozen=True, slots=True)
class Peer:
    """One contender: `adapter` knows how to call it, everything said about it is here."""

    key: str
    """Its name on the command line and in versions.toml."""
    title: str
    adapter: str
    """The file in adapters/; one ending in .mjs runs on Node."""
    broker: Literal["postgresql", "redis"]
    settings: tuple[Setting, ...]
    jobs: int
    """Jobs of a drain: some seconds' worth. Rates are what counts, so slow peers get fewer."""
    singles: int
    """Jobs enqueued one by one."""
    durability: str
    """What a reported success is worth."""
    history: str
    """What is kept of a job that is done."""
    unfinished: str | None = None
    """SQL that counts the jobs whose completion is not committed; None where only handlers can be asked."""
    supervises: bool = False
    """Whether one command starts all its processes, instead of one command each."""

    def chosen(self) -> dict[str, Value]:
        """The settings as the adapter gets them."""
        return {setting.name: setting.value for setting in self.settings}
