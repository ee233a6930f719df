"""Who does it: faults at random from a seed, several at a time, each written down with its times."""

from __future__ import annotations

import json
import threading
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from random import Random
from time import monotonic, time
from typing import Final

import psycopg

from gauntlet.arena.arena import Arena
from gauntlet.faults import FAULTS, Fault

AT_A_TIME: Final = 6


@dataclass(frozen=True, slots=True)
class Done:
    """A fault that happened."""

    name: str
    begun: float
    ended: float
    trouble: str | None = None
    """Why it did not happen, or not wholly."""


@dataclass(slots=True)
class Nemesis:
    """Carries out faults, and remembers them."""

    arena: Arena
    rng: Random
    kinds: Sequence[str] = ()
    done: list[Done] = field(default_factory=list[Done])
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    _alone: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)

    def choose_kinds(self) -> list[Fault]:
        """What can be done here; what cannot is remembered with the reason."""
        wanted = [FAULTS[name] for name in (self.kinds or FAULTS)]
        possible: list[Fault] = []
        for fault in wanted:
            why = fault.needs(self.arena)
            if why is None:
                possible.append(fault)
            else:
                self.skipped[fault.name] = why
        return possible

    def storm(self, seconds: float, faults: int) -> None:
        """So many faults in so long: each kind once, in some order, and then by weight."""
        possible = self.choose_kinds()
        pause_s = seconds / max(1, faults)
        first = self.rng.sample(possible, len(possible))
        until = monotonic() + seconds
        slots = threading.Semaphore(AT_A_TIME)
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            next_at = monotonic()
            while monotonic() < until:
                fault = first.pop() if first else self._weighted(possible)
                while not slots.acquire(timeout=0.2):
                    if monotonic() > until:
                        return
                pool.submit(self._one_of_many, fault, self.rng.random(), slots)
                next_at = max(next_at + self.rng.expovariate(1 / pause_s), monotonic() - 5)
                self._over.wait(max(0.0, min(next_at, until) - monotonic()))

    def do(self, name: str) -> Done:
        """One fault, now."""
        return self._carry_out(FAULTS[name], self.rng.random())

    def counts(self) -> Counter[str]:
        return Counter(each.name for each in self.done if each.trouble is None)

    def _weighted(self, possible: Sequence[Fault]) -> Fault:
        return self.rng.choices(possible, [fault.weight for fault in possible])[0]

    def _one_of_many(self, fault: Fault, seed: float, slots: threading.Semaphore) -> None:
        try:
            self._carry_out(fault, seed)
        finally:
            slots.release()

    def _carry_out(self, fault: Fault, seed: float) -> Done:
        trouble: str | None = None
        with self._alone if fault.is_alone else nullcontext():
            begun = time()
            act = fault.act(self.arena, Random(seed))
            try:
                lasts_s = next(act)
                self._over.wait(lasts_s)
                # It has happened. Another fault may have ended its session meanwhile, and so undone it.
                with suppress(psycopg.Error):
                    next(act, None)
            except Exception as error:  # the next one is not to suffer
                trouble = "".join(traceback.format_exception_only(error)).strip()
            finally:
                act.close()
        done = Done(fault.name, begun, time(), trouble)
        self.done.append(done)
        with (self.arena.directory / "faults.jsonl").open("a") as file:
            file.write(json.dumps([done.name, seed, done.begun, done.ended, done.trouble]) + "\n")
        return done
