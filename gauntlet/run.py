"""One run: warm up, measure kills and restarts by themselves, a storm of faults, rest, and the verdict."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from signal import SIGKILL, SIGQUIT
from time import monotonic, sleep, time
from typing import Any, Final

import psycopg

from gauntlet import checker, collect, figures
from gauntlet.arena.arena import LEASE_S, LIMITS, QUEUES, Arena, Size
from gauntlet.arena.fleet import Member
from gauntlet.arena.server import Server
from gauntlet.checker import Verdict
from gauntlet.faults import handlers
from gauntlet.figures import Restart
from gauntlet.history import UNKNOWN, History
from gauntlet.load.mix import RESOURCES
from gauntlet.nemesis import Done, Nemesis

UNFINISHED: Final = """
select count(*) from holdfast.jobs
where state <> 'DEAD' and waiting_on = 0 and consecutive_expirations < holdfast.crash_concern_threshold()
"""
CLEAR: Final = """
select holdfast.clear_crash_concern(coalesce(name, 'j' || id), 'gauntlet') from holdfast.jobs
where consecutive_expirations >= holdfast.crash_concern_threshold()
"""
HOLDERS: Final = """
select assignee_id from holdfast.jobs where state = 'RUNNING' group by 1 order by count(*) desc
"""
PROBES: Final = 12
SETTLE_S: Final = 40.0
"""What a rest may take beside the work that is left: leases, retries, workers that start."""

CANNOT: Final = (
    "power loss: what a disk or its cache loses in the dark (of a killed server the kernel still has it all)",
    "failover to a standby that has not heard of the last commits",
)


@dataclass(slots=True)
class Plan:
    """How long, how much, and which faults."""

    seed: int
    seconds: float
    jobs: int
    faults: int
    size: Size = field(default_factory=Size)
    kinds: Sequence[str] = ()
    kills: int = 6
    restarts: int = 2
    rest_s: float | None = None
    """What a rest may take; None: by what is left, and by how much the machine has done so far."""
    patience: float = 1.5
    """How long to wait for a rest, as a multiple of what it may take."""
    first_s: float = 60.0
    """How long to wait for the first completions."""


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    verdict: Verdict
    figures: dict[str, Any]
    skipped: dict[str, str]
    faults: dict[str, int]
    troubles: dict[str, str]


Say = Callable[[str], None]


def go(
    server: Server,
    plan: Plan,
    say: Say,
    *,
    plant: Callable[[psycopg.Connection[Any]], None] | None = None,
    keep: bool = False,
    keep_failed: bool = True,
) -> Outcome:
    """Run, and judge."""
    arena = Arena(server, plan.seed, plan.size, say=say)
    say(f"journals and logs: {arena.directory}")
    deadlocks = _deadlocks(server)
    is_clean = False
    try:
        arena.prepare(plant)
        arena.populate()
        course = _Course(arena, plan, say)
        course.run()
        history = course.rest()
        history.deadlocks = _deadlocks(server) - deadlocks
        say("looking at what happened")
        verdict = checker.check(history)
        is_clean = verdict.is_clean
        outcome = Outcome(
            verdict,
            course.figures(history, verdict),
            course.nemesis.skipped,
            dict(course.nemesis.counts()),
            {each.name: each.trouble for each in course.nemesis.done if each.trouble is not None},
        )
        (arena.directory / "violations.txt").write_text("\n".join(map(str, verdict.violations)))
        (arena.directory / "deadlocks.txt").write_text("\n".join(server.deadlock_details))
        if not is_clean:
            _write_stories(arena, history, verdict)
        return outcome
    finally:
        arena.close(keep=keep or (keep_failed and not is_clean))


class _Course:
    """The way through one run."""

    def __init__(self, arena: Arena, plan: Plan, say: Say) -> None:
        self._arena, self._plan, self._say = arena, plan, say
        self._rng = Random(plan.seed)
        self.nemesis = Nemesis(arena, self._rng, plan.kinds)
        self._restarts: list[Restart] = []
        self._kills: list[tuple[float, int]] = []
        self._began = monotonic()
        self._backlog = 0
        self._rested_s: float | None = None
        self._bound_s = 0.0
        self._exits: dict[str, int] = {}

    def run(self) -> None:
        self._warm_up()
        self._measure_kills()
        self._measure_restarts()
        left = self._plan.seconds - (monotonic() - self._began)
        if self._plan.faults and left > 0:
            self._say(f"a storm of {left:.0f} s")
            self._storm(left)
        elif left > 0:
            sleep(left)

    def _storm(self, left: float) -> None:
        done = len(self.nemesis.done)
        self.nemesis.storm(left, max(1, self._plan.faults - done))
        # Whoever asked for so many jobs gets them, with what faults there are meanwhile.
        while self._number("select count(*) from public.witness where kind = 'new'") < self._plan.jobs:
            if monotonic() - self._began > 3 * self._plan.seconds + 60:
                break
            self.nemesis.storm(5, 5)

    def _warm_up(self) -> None:
        deadline = monotonic() + self._plan.first_s
        while monotonic() < deadline:
            if self._number("select count(*) from holdfast.archived_jobs") > 50:
                return
            sleep(0.1)

    def _measure_kills(self) -> None:
        for _ in range(self._plan.kills):
            sleep(self._rng.uniform(0.5, 1.0))
            # Something to hold: what most jobs do takes no time at all.
            for _ in range(PROBES):
                handlers.enqueue(self._arena, "linger", LEASE_S, "loop")
            member = self._busiest()
            begun = time()
            member.signal(SIGKILL)
            self._kills.append((begun, member.pid))
            self.nemesis.done.append(Done("worker killed", begun, time()))
            sleep(LEASE_S + 1.5)

    def _busiest(self) -> Member:
        """The worker that holds most jobs: a kill of one that holds none measures nothing."""
        workers = self._arena.fleet.of("worker")
        for _ in range(100):
            with self._arena.connect() as conn:
                for (assignee,) in conn.execute(HOLDERS).fetchall():
                    for member in workers:
                        if f":{member.pid}:" in assignee and member.is_alive:
                            return member
            sleep(0.02)
        return self._arena.fleet.pick(self._rng, "worker")

    def _measure_restarts(self) -> None:
        for _ in range(self._plan.restarts):
            sleep(7)
            down = time()
            self._arena.server.stop(SIGQUIT)
            self._arena.server.ensure_up()
            self._restarts.append(Restart(down, time()))
            sleep(7)

    def rest(self) -> History:
        """Undo everything, let everything end, stop everybody, and read what is left."""
        arena = self._arena
        arena.calm()
        arena.fleet.end("producer", "operator")
        arena.resume_all()
        self._backlog = self._number(UNFINISHED)
        done, seconds = self._number("select count(*) from holdfast.archived_jobs"), monotonic() - self._began
        pace = max(15.0, 0.25 * done / max(1.0, seconds))
        self._bound_s = self._plan.rest_s or SETTLE_S + self._backlog / pace
        self._say(f"{self._backlog} jobs are left; they may take {self._bound_s:.0f} s")
        self._rested_s = self._wait_for_rest()
        permanent = {member.name for member in arena.fleet.members}
        self._exits = {name: code for name, code in arena.fleet.end() if name in permanent}
        for name, code in self._exits.items():
            if code != 0:
                self._say(f"{name} ended with {code}; its last words: {arena.fleet.last_words(name)}")
        for each in (arena.link, arena.far_link, arena.pooler):
            if each is not None:
                each.kill()
        with arena.connect() as conn:
            history = collect.history_of(conn, arena.journals)
        history.sessions = arena.sessions_left()
        history.processes = arena.processes_left()
        history.unfinished_after_s, history.bound_s = self._rested_s, self._bound_s
        history.resources = RESOURCES
        history.limits = LIMITS
        history.capacities = {
            **history.capacities,
            **{f"queue {name}": size for name, size in QUEUES.items()},
        }
        return history

    def _wait_for_rest(self) -> float | None:
        began, at_rest = monotonic(), 0
        while monotonic() - began < self._bound_s * self._plan.patience:
            with self._arena.connect() as conn:
                with suppress(psycopg.Error):  # one of them may have moved on
                    conn.execute(CLEAR.encode())
                row = conn.execute(UNFINISHED.encode()).fetchone()
            # Twice in a row: what is enqueued by a call on its way is not there yet.
            at_rest = at_rest + 1 if row is not None and row[0] == 0 else 0
            if at_rest == 2:
                return monotonic() - began
            sleep(0.2)
        return None

    def _number(self, query: str) -> int:
        with self._arena.connect() as conn:
            row = conn.execute(query.encode()).fetchone()
        return int(row[0]) if row is not None else 0

    def figures(self, history: History, verdict: Verdict) -> dict[str, Any]:
        stories = list(history.stories().values())
        calm = figures.recoveries(stories, self._kills)
        every = [kill for member in self._arena.fleet.members for kill in member.kills] + self._kills
        stormy = figures.recoveries(stories, every)
        share, wait_s = figures.after_restarts(figures.completions(history), self._restarts)
        offered, accepted = figures.zombies(history)
        unknown = [call for call in history.calls if call.said == UNKNOWN]
        return {
            "seed": self._plan.seed,
            "seconds": round(monotonic() - self._began, 1),
            "jobs": sum(1 for story in stories if story.changes),
            "claims": sum(1 for story in stories for _ in story.claims()),
            "executions": len(history.runs),
            "faults": sum(self.nemesis.counts().values()) + len(self._restarts),
            "fault_kinds": len(self.nemesis.counts()),
            "fault_kinds_skipped": len(self.nemesis.skipped),
            "lost": verdict.counts["no acknowledged job is lost"],
            "phantom": verdict.counts["no job that nobody asked for, and none twice"],
            "double_settled": figures.double_settled(history)
            + verdict.counts["every job ends in exactly one finished state"],
            "zombie_offered": offered,
            "zombie_accepted": accepted,
            "unknown_answers": len(unknown),
            "recovery_p50_s": _rounded(figures.percentile(calm, 0.5)),
            "recovery_p99_s": _rounded(figures.percentile(calm, 0.99)),
            "recovered": len(calm),
            "storm_recovery_p50_s": _rounded(figures.percentile(stormy, 0.5)),
            "storm_recovery_p99_s": _rounded(figures.percentile(stormy, 0.99)),
            "lease_s": LEASE_S,
            "restart_throughput": _rounded(share),
            "restart_recovery_s": _rounded(wait_s),
            "deadlocks": history.deadlocks,
            "deadlocks_with_faults": self._arena.server.foreign_deadlocks,
            "leaked_sessions": history.sessions,
            "leaked_processes": len(history.processes),
            "leaked_keys": len(history.held_at_end),
            "rest_s": _rounded(self._rested_s),
            "rest_bound_s": _rounded(self._bound_s),
            "unclean_exits": {name: code for name, code in self._exits.items() if code != 0},
            "violations": sum(verdict.counts.values()),
            "violated": dict(verdict.counts),
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _deadlocks(server: Server) -> int:
    server.read_log()
    return server.deadlocks


def _write_stories(arena: Arena, history: History, verdict: Verdict) -> None:
    """All about the jobs with which something is wrong, for people."""
    stories = history.stories()
    with gzip.open(arena.directory / "changes.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(change) + "\n" for change in history.changes)
    with (arena.directory / "stories.jsonl").open("w") as file:
        for job in {violation.job for violation in verdict.violations}:
            story = stories.get(job)
            if story is None:
                continue
            told: list[tuple[float, str, Any]] = [(each.at, "change", each) for each in story.changes]
            told += [(call.begun, "call", call) for call in story.calls]
            told += [(run.begun, "run", run) for run in story.runs]
            for line in sorted(told, key=lambda each: each[0]):
                file.write(json.dumps([job, *line], default=str) + "\n")
