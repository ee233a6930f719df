"""What must be true of every run, whatever happened in it. Pure: history in, violations out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from holdfast.domain.lifecycle import TRANSITIONS, Operation
from holdfast.domain.states import FINISHED, HELD, JobState
from tests.queue.stress.history import Call, Change, Delivery, History, Said

SLACK_S: Final = 0.0005
"""The clock is the same for all, in microseconds."""

WIDE_S: Final = 0.05
"""As long as there is no other explanation: somebody may have set the clock."""

LATE_S: Final = 5.0
"""How long after a job was ended by somebody else a stream may still give it to its reader."""

O = Operation  # noqa: E741
OPERATIONS: Final = {
    "enqueue_job": O.SUBMIT,
    "enqueue_jobs": O.SUBMIT,
    "complete_job": O.COMPLETE,
    "complete_jobs": O.COMPLETE,
    "fail_job": O.FAIL,
    "fail_jobs": O.FAIL,
    "stop_job": O.STOP,
    "stop_job_with_retry": O.STOP_WITH_RETRY,
    "mark_job_unknown_stopped": O.MARK_UNKNOWN_STOPPED,
    "acknowledge_executing": O.ACKNOWLEDGE_CANCELLATION,
    "acknowledge_not_executing": O.ACKNOWLEDGE_CANCELLATION,
    "requeue_job": O.REQUEUE,
    "reschedule_job": O.RESCHEDULE,
    "retry_later": O.RESCHEDULE,
    "release": O.RELEASE,
    "cancel_jobs": O.CANCEL,
    "revive_job": O.REVIVE,
    "mark_worker_unresponsive": O.MARK_WORKER_UNRESPONSIVE,
}
COUNTED: Final = frozenset({O.FAIL, O.REQUEUE, O.STOP_WITH_RETRY})
STEPS: Final[dict[Operation, frozenset[tuple[JobState | None, JobState | None]]]] = {
    operation: frozenset((step.source, step.target) for step in TRANSITIONS if step.operation is operation)
    for operation in O
}


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never be."""

    kind: str
    job: str
    why: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.job}: {self.why}"


@dataclass(slots=True)
class Findings:
    """What the checker saw."""

    violations: list[Violation] = field(default_factory=list[Violation])
    figures: Counter[str] = field(default_factory=Counter[str])

    def say(self, kind: str, job: str, why: str) -> None:
        self.violations.append(Violation(kind, job, why))


def check(history: History) -> Findings:
    """Everything that is wrong with a run that has come to rest."""
    found = Findings()
    calls: defaultdict[str, list[Call]] = defaultdict(list)
    for call in history.calls:
        calls[call.job].append(call)
        found.figures[f"{call.verb} {call.said}"] += 1
    changes: defaultdict[str, list[Change]] = defaultdict(list)
    for change in sorted(history.changes, key=lambda each: each.seq):
        changes[change.job].append(change)
    deliveries: defaultdict[str, list[Delivery]] = defaultdict(list)
    for delivery in history.deliveries:
        deliveries[delivery.job].append(delivery)

    _check_rows(history, calls, changes, found)
    marks = [call for call in history.calls if call.verb == "mark_worker_unresponsive"]
    for job, steps in changes.items():
        _Story(job, steps, calls.get(job, []), deliveries.get(job, []), marks, found).check()
    for job in deliveries.keys() - changes.keys():
        found.say("phantom", job, "was delivered, and the database never had it")
    _check_capacity(history, changes.values(), found)
    _check_health(history, found)
    return found


def story_of(history: History, job: str) -> str:
    """Everything about one job, in the order of time, for people."""
    told: list[tuple[float, str]] = [(call.ended, str(call)) for call in history.calls if call.job == job]
    told += [(change.at, str(change)) for change in history.changes if change.job == job]
    told += [(delivery.at, str(delivery)) for delivery in history.deliveries if delivery.job == job]
    return "\n".join(text for _, text in sorted(told))


def _check_rows(
    history: History, calls: dict[str, list[Call]], changes: dict[str, list[Change]], found: Findings
) -> None:
    """What was acknowledged is there, once, ended; and nothing else is."""
    places = Counter(row.job for row in history.rows)
    for job, times in places.items():
        if times > 1:
            found.say("doubled", job, f"is in {times} places at the end")
        if not any(_submits(call) and call.said is not Said.NO for call in calls.get(job, [])):
            found.say("phantom", job, "is there, and nobody's enqueue was taken")
    for job, about in calls.items():
        if any(_submits(call) and call.said is Said.OK for call in about) and job not in places:
            found.say("lost", job, "its enqueue was acknowledged, and it is neither live nor archived")
    for row in history.rows:
        found.figures[row.state] += 1
        if row.state not in FINISHED:
            found.say("unfinished", row.job, f"is {row.state} after everything has come to rest")
        elif row.archived is (row.state is JobState.DEAD):
            found.say("misplaced", row.job, f"is {row.state} and {'' if row.archived else 'not '}archived")
        steps = changes.get(row.job, [])
        last = steps[-1] if steps else None
        if last is None or last.state is not row.state:
            found.say("unexplained", row.job, f"is {row.state} at the end, the last that happened was {last}")


def _submits(call: Call) -> bool:
    return OPERATIONS[call.verb] is O.SUBMIT


class _Story:
    """What happened to one job, step by step, each step explained by a call or by the machine."""

    def __init__(
        self,
        job: str,
        steps: list[Change],
        calls: list[Call],
        deliveries: list[Delivery],
        marks: list[Call],
        found: Findings,
    ) -> None:
        self._job = job
        self._steps = steps
        self._open = [call for call in calls if call.said is not Said.NO]
        self._deliveries = deliveries
        self._delivered = {delivery.lease for delivery in deliveries}
        self._marks = marks
        self._found = found
        self._claims: dict[str, Change] = {}
        self._attempts = 0

    def check(self) -> None:
        before: Change | None = None
        for step in self._steps:
            self._check_step(before, step)
            before = step
        self._check_unheeded()
        self._check_deliveries()

    def _say(self, kind: str, why: str) -> None:
        self._found.say(kind, self._job, why)

    def _check_step(self, before: Change | None, step: Change) -> None:
        source = before.state if before else None
        walk = (source, step.state)
        if step.state is JobState.RUNNING:
            self._check_claim(before, step)
            return
        operation = self._explanation(before, step)
        if operation is None:
            legal = any(walk in steps for steps in STEPS.values())
            self._say(
                "unexplained" if legal else "illegal",
                f"went from {source} to {step.state} (change {step.seq}), and no call that was taken says so",
            )
        self._found.figures[f"by {operation}"] += 1
        if operation is O.REVIVE:
            self._attempts = 0
        elif operation in COUNTED:
            self._attempts += 1
        if step.attempts != self._attempts:
            self._say(
                "attempts",
                f"has {step.attempts} after change {step.seq}; {self._attempts} calls that count were taken",
            )
            self._attempts = step.attempts

    def _check_claim(self, before: Change | None, step: Change) -> None:
        self._found.figures["claims"] += 1
        source = before.state if before else None
        if source in HELD:
            self._say("two leases", f"was claimed by {step.assignee} while {before} held it")
        elif (source, step.state) not in STEPS[O.CLAIM]:
            self._say("illegal", f"was claimed by {step.assignee} when it was {source}")
        if step.lease is None or step.lease in self._claims:
            self._say("two leases", f"lease {step.lease} was given twice")
        if step.lease is not None:
            self._claims[step.lease] = step

    def _explanation(self, before: Change | None, step: Change) -> Operation | None:
        """What did it: a call that was taken, or the machine itself."""
        return (
            self._by_call(before, step)
            or self._by_machine(before, step)
            or self._by_call(before, step, WIDE_S)
            or self._by_machine(before, step, WIDE_S)
            or self._by_call(before, step, WIDE_S, exactly=False)
        )

    def _by_call(
        self, before: Change | None, step: Change, slack_s: float = SLACK_S, *, exactly: bool = True
    ) -> Operation | None:
        """Of several calls, the one that was answered first: the others may explain what comes later.

        At an end, who names the lease may have been told that it is so already; who does not has ended the
        job itself. Of what is handed back nobody is told so: there, who names the lease has done just that.
        """
        walk = (before.state if before else None, step.state)
        lease = before.lease if before else None
        ends = step.state in FINISHED
        for call in sorted(self._open, key=lambda call: (ends is (call.lease is not None), call.ended)):
            operation = OPERATIONS[call.verb]
            if (
                walk in STEPS[operation]
                and walk[0] is not walk[1]
                and _within(step, call, slack_s)
                and call.said is not Said.ALREADY
                and (call.lease is None or call.lease == lease)
                and _says_so(call.verb, step.state)
                and not (exactly and _blurred(operation, call.verb, before, step))
                and not (self._is_marked(before, step, slack_s) and self._is_needed_later(call, step))
            ):
                self._open.remove(call)
                if call.verb == "acknowledge_not_executing" and before and before.stream != step.forfeited:
                    self._say(
                        "forfeit", f"{call} took slot {before.stream}, and {step.forfeited} is forfeited"
                    )
                return operation
        return None

    def _by_machine(self, before: Change | None, step: Change, slack_s: float = SLACK_S) -> Operation | None:
        if before is None or before.lease is None:
            return None
        walk, lease = (before.state, step.state), before.lease
        if walk in STEPS[O.UNDELIVERED] and step.attempts == before.attempts and lease not in self._delivered:
            return O.UNDELIVERED
        if walk in STEPS[O.LAPSE] and step.lapses > before.lapses:
            self._say("lapsed", f"lease {lease} of {before.assignee} ended while its queue was open")
            return O.LAPSE
        return O.MARK_WORKER_UNRESPONSIVE if self._is_marked(before, step, slack_s) else None

    def _is_marked(self, before: Change | None, step: Change, slack_s: float) -> bool:
        """Whether somebody called its worker unresponsive just then. One such call ends many leases."""
        return (
            before is not None
            and (before.state, step.state) in STEPS[O.MARK_WORKER_UNRESPONSIVE]
            and any(
                call.job == before.assignee and call.said is not Said.NO and _within(step, call, slack_s)
                for call in self._marks
            )
        )

    def _is_needed_later(self, call: Call, step: Change) -> bool:
        """Whether a later step is of the same kind, within the call, and not of a worker marked just then."""
        later = self._steps[self._steps.index(step) :]
        return any(
            (before.state, after.state) in STEPS[OPERATIONS[call.verb]]
            and (call.lease is None or call.lease == before.lease)
            and _within(after, call, SLACK_S)
            and not self._is_marked(before, after, SLACK_S)
            for before, after in pairwise(later)
        )

    def _check_unheeded(self) -> None:
        """Every call that was taken has done something, once."""
        for call in self._open:
            if call.said is Said.UNKNOWN:
                self._found.figures["unknown"] += 1
            elif call.verb == "cancel_jobs" and self._was_cancelling(call):
                self._found.figures["cancelled again"] += 1
            elif call.lease is not None and self._repeats(call):
                self._found.figures["already"] += 1
            else:
                self._say("unheeded", f"{call} was taken, and nothing happened to the job")

    def _was_cancelling(self, call: Call) -> bool:
        later = [*self._steps[1:], None]
        return any(
            step.state is JobState.CANCELLING
            and step.at <= call.ended + WIDE_S
            and (after is None or after.at >= call.begun - WIDE_S)
            for step, after in zip(self._steps, later, strict=True)
        )

    def _repeats(self, call: Call) -> bool:
        """Whether the same lease has ended the job as the caller says: then the answer is that it is so."""
        targets = {target for _, target in STEPS[OPERATIONS[call.verb]]}
        return any(
            step.state in FINISHED and step.state in targets and step.lease == call.lease
            for step in self._steps
        )

    def _check_deliveries(self) -> None:
        ends = {
            before.lease: (step, before)
            for before, step in zip(self._steps, self._steps[1:], strict=False)
            if before.lease is not None and step.state in FINISHED
        }
        seen: set[str] = set()
        for delivery in self._deliveries:
            self._found.figures["deliveries"] += 1
            claim = self._claims.get(delivery.lease)
            if delivery.lease in seen:
                self._say("delivered twice", f"{delivery} was delivered before")
            seen.add(delivery.lease)
            if claim is None or claim.assignee != delivery.assignee:
                self._say("phantom", f"{delivery} without a claim: {claim}")
            elif delivery.at < claim.at - WIDE_S:
                self._say("phantom", f"{delivery} before it was claimed at {claim.at}")
            for step in self._steps:
                if step.state is JobState.COMPLETED and claim is not None and claim.seq > step.seq:
                    self._say("delivered after the end", f"{delivery}, completed by change {step.seq}")
            if delivery.lease in ends:
                late_s = delivery.at - ends[delivery.lease][0].at
                if late_s > 0:
                    self._found.figures["delivered just after somebody ended it"] += 1
                if late_s > LATE_S:
                    self._say("delivered after the end", f"{delivery}, {late_s:.1f} s after it had ended")


def _within(change: Change, call: Call, slack_s: float) -> bool:
    return call.begun - slack_s <= change.at <= call.ended + slack_s


def _says_so(verb: str, state: JobState) -> bool:
    match verb:
        case "acknowledge_executing":
            return state is JobState.STOPPED
        case "acknowledge_not_executing":
            return state is JobState.UNKNOWN_STOPPED
        case _:
            return True


def _blurred(operation: Operation, verb: str, before: Change | None, step: Change) -> bool:
    """Whether the step goes the same way, and yet not quite as this call would have it."""
    counted = step.attempts == (before.attempts if before else 0) + 1
    forfeits = verb == "acknowledge_not_executing" and before is not None and before.stream is not None
    return (operation in COUNTED) is not counted or forfeits is not (step.forfeited is not None)


def _check_capacity(history: History, stories: Iterable[list[Change]], found: Findings) -> None:
    """No stream ever held more than it may, forfeited slots included.

    Only the owner of a stream claims for it, and only when it knows of room: so whatever made room has a
    lower number than the claim that used it, and counting by number never counts too many.
    """
    before: dict[str, Change] = {}
    holds: defaultdict[int, dict[str, str | None]] = defaultdict(dict)
    over: set[int] = set()
    for change in sorted((step for story in stories for step in story), key=lambda each: each.seq):
        last = before.get(change.job)
        if last is not None and last.state in HELD and last.stream is not None:
            holds[last.stream].pop(change.job)
        if change.forfeited is not None and change.state is JobState.COMPLETED:
            # Somebody had said that nobody executes it, and then whoever did so was done: its slot is free.
            holds[change.forfeited].pop(f"forfeited by {change.job}", None)
        elif change.forfeited is not None:
            holds[change.forfeited][f"forfeited by {change.job}"] = change.lease
            found.figures["slots forfeited"] += 1
        if change.state in HELD and change.stream is not None:
            held = holds[change.stream]
            held[change.job] = change.lease
            most = history.capacities.get(change.assignee or "", 0)
            if len(held) > most and change.stream not in over:
                over.add(change.stream)
                found.say(
                    "capacity",
                    change.job,
                    f"is number {len(held)} in a stream of {change.assignee} that may hold {most} "
                    f"(change {change.seq}); it holds {held}",
                )
        before[change.job] = change
    for (stream, assignee), most in history.most_held.items():
        if most > history.capacities.get(assignee, 0):
            found.say("capacity", str(stream), f"{most} jobs of {assignee} were seen held at one moment")
    found.figures["streams"] += len(holds)


def _check_health(history: History, found: Findings) -> None:
    if history.deadlocks:
        found.say("deadlock", "-", f"{history.deadlocks} in pg_stat_database")
    if history.sessions:
        found.say("leak", "-", f"{history.sessions} sessions are left over")
