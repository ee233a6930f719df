"""The engine in plain Python, written from the specification: no SQL, no locks, one thing after another.

It knows the time it is told and never makes up a lease: what the database granted is judged, then believed.
An operation that is refused raises Refused with the SQLSTATE that callers of the engine get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from holdfast.domain.graph import find_cycle
from holdfast.domain.job import IfParentFails, NewJob
from holdfast.domain.lifecycle import Operation, When, find
from holdfast.domain.states import (
    ARCHIVED,
    CRASH_CONCERN_THRESHOLD,
    FINISHED,
    HELD,
    WAITING,
    JobState,
    Status,
    is_leased,
    status_of,
)

INVALID: Final = "22023"
NOT_FOUND: Final = "HF001"
ID_TAKEN: Final = "HF002"
WRONG_STATE: Final = "HF003"
LEASE_LOST: Final = "HF004"

UNDELIVERED: Final = "the stream ended before it delivered this job"
FOLLOWED_A_PARENT: Final = "cancelled because a job it waited for did not complete"


class Refused(Exception):
    """The engine must say no."""

    def __init__(self, sqlstate: str) -> None:
        super().__init__(sqlstate)
        self.sqlstate = sqlstate


@dataclass(slots=True, kw_only=True)
class ModelJob:
    """A job and its whole life, under the names of the views."""

    job_id: str
    place: int
    queue: str
    priority: int
    created_at: datetime
    available_at: datetime
    expires_at: datetime | None
    max_attempts: int | None
    singleton_key: str | None
    tags: tuple[str, ...]
    if_parent_fails: IfParentFails | None
    wait_for: list[str]
    state: JobState = JobState.INITIAL_PENDING
    attempts: int = 0
    lease_id: str | None = None
    lease_expires_at: datetime | None = None
    lease_expiration_count: int = 0
    consecutive_expirations: int = 0
    assignee_id: str | None = None
    assigned_at: datetime | None = None
    started_at: datetime | None = None
    last_retry_at: datetime | None = None
    finalized_at: datetime | None = None
    stream_id: int | None = None
    forfeited_stream_id: int | None = None
    message: str | None = None
    errors: list[tuple[int, str]] = field(default_factory=list)
    progress: float | None = None
    result: object = None

    @property
    def line(self) -> tuple[int, datetime, int]:
        """Its place in line: higher priority, then earlier due, then earlier submitted."""
        return -self.priority, self.available_at, self.place


class Outcome(NamedTuple):
    """One item of a settle."""

    job_id: str
    kind: str
    lease_id: str | None
    message: str | None = None
    result: object = None
    delay_s: float = 0
    permanent: bool = False


class Verdict(NamedTuple):
    """The answer to one item. `state` is the job's afterwards."""

    ok: bool
    state: JobState | None
    reason: str


class Granted(NamedTuple):
    """A job and the lease the database gave for it."""

    job_id: str
    lease_id: str


# What a settle's kind stands for in the table of transitions.
KINDS: Final = {
    "complete": (Operation.COMPLETE, When.ALWAYS),
    "fail": (Operation.FAIL, When.ATTEMPTS_LEFT),
    "requeue": (Operation.REQUEUE, When.ATTEMPTS_LEFT),
    "reschedule": (Operation.RESCHEDULE, When.HANDED_BACK),
    "release": (Operation.RELEASE, When.ALWAYS),
    "undelivered": (Operation.UNDELIVERED, When.QUEUE_STREAM),
    "undelivered_to_worker": (Operation.UNDELIVERED, When.WORKER_STREAM),
    "stop": (Operation.STOP, When.ALWAYS),
    "stop_with_retry": (Operation.STOP_WITH_RETRY, When.ALWAYS),
    "mark_unknown_stopped": (Operation.MARK_UNKNOWN_STOPPED, When.ALWAYS),
    "acknowledge": (Operation.ACKNOWLEDGE_CANCELLATION, When.WAS_EXECUTING),
    "acknowledge_not_executing": (Operation.ACKNOWLEDGE_CANCELLATION, When.WAS_NOT_EXECUTING),
}
_LAST: Final = {Operation.FAIL: When.LAST_OR_PERMANENT, Operation.REQUEUE: When.LAST_ATTEMPT}
_COUNTED: Final = {Operation.FAIL, Operation.REQUEUE, Operation.STOP_WITH_RETRY}
_SILENT: Final = {"complete", "reschedule", "undelivered_to_worker"}


class Model:
    """All jobs there are, and the switches."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.jobs: dict[str, ModelJob] = {}
        self.paused: set[str] = set()
        self.threshold = CRASH_CONCERN_THRESHOLD
        self.capacities: dict[str, int] = {}
        self.resources: dict[str, set[str]] = {}
        self.leases: set[str] = set()
        self.submitted = 0

    # Reading.

    def status(self, job: ModelJob) -> Status:
        return status_of(
            job.state,
            now=self.now,
            available_at=job.available_at,
            lease_expires_at=job.lease_expires_at,
            waits=bool(job.wait_for),
            consecutive_expirations=job.consecutive_expirations,
            threshold=self.threshold,
            expires_at=job.expires_at,
            paused=job.queue in self.paused,
        )

    def live(self) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.state not in ARCHIVED]

    def held(self) -> list[ModelJob]:
        return [job for job in self.jobs.values() if job.state in HELD]

    def holds(self) -> set[tuple[str, str, str]]:
        """Kind, key and job of everything that is held."""
        singletons = {
            ("singleton", job.singleton_key, job.job_id) for job in self.held() if job.singleton_key
        }
        resources = {("resource", key, job_id) for key, jobs in self.resources.items() for job_id in jobs}
        return singletons | resources

    # Submitting.

    def submit(self, new: Sequence[NewJob], ids: Sequence[str]) -> None:
        """`ids` are the ones the database answered; chosen ids must be among them."""
        chosen = [job.job_id for job in new if job.job_id is not None]
        if len(set(chosen)) < len(chosen) or self.jobs.keys() & set(chosen):
            raise Refused(ID_TAKEN)
        for job in new:
            self._check_parents([name for name in job.wait_for if name not in chosen], job.if_parent_fails)
        if find_cycle({job.job_id: job.wait_for for job in new if job.job_id is not None}):
            raise Refused(INVALID)
        for job, job_id in zip(new, ids, strict=True):
            assert job.job_id in (None, job_id)
            self.submitted += 1
            self.jobs[job_id] = ModelJob(
                job_id=job_id,
                place=self.submitted,
                queue=job.queue,
                priority=job.priority,
                created_at=self.now,
                available_at=self.now + timedelta(seconds=job.delay_s or 0),
                expires_at=job.expires_at,
                max_attempts=job.max_attempts,
                singleton_key=job.singleton_key,
                tags=tuple(job.tags),
                if_parent_fails=job.if_parent_fails,
                wait_for=[],
            )
        for job, job_id in zip(new, ids, strict=True):
            self.jobs[job_id].wait_for = self._incomplete(job.wait_for)
        self._follow_ended_parents(ids)

    def _check_parents(self, names: Iterable[str], if_parent_fails: str | None) -> None:
        for name in names:
            parent = self.jobs.get(name)
            if parent is None:
                raise Refused(INVALID)
            cancelled = parent.state in ARCHIVED - {JobState.COMPLETED}
            if cancelled and if_parent_fails is None:
                raise Refused(INVALID)

    def _incomplete(self, names: Sequence[str]) -> list[str]:
        return [name for name in dict.fromkeys(names) if self.jobs[name].state is not JobState.COMPLETED]

    def _follow_ended_parents(self, children: Iterable[str]) -> None:
        parents = {name for child in children for name in self.jobs[child].wait_for}
        self._carry_over([self.jobs[name] for name in parents if self.jobs[name].state in FINISHED])

    # Claiming.

    def sweep(self) -> None:
        """Every lease that is overdue lapses."""
        overdue = [job for job in self.held() if not is_leased(job.lease_expires_at, self.now)]
        self._give_up(overdue, Operation.LAPSE, When.LEASE_LAPSED)

    def claim(
        self,
        granted: Sequence[Granted],
        worker_id: str,
        queues: Sequence[str],
        limit: int,
        lease_s: float,
        tags: Sequence[str] = (),
        stream_id: int | None = None,
    ) -> None:
        """Judge what the database granted, then believe it. Sweep first: the engine does, too."""
        self._judge_claim([self.jobs[grant.job_id] for grant in granted], queues, limit, tags)
        for job_id, lease_id in granted:
            assert lease_id not in self.leases, "a lease was granted twice"
            self.leases.add(lease_id)
            job = self.jobs[job_id]
            job.state = JobState.RUNNING
            job.lease_id = lease_id
            job.lease_expires_at = self.now + timedelta(seconds=lease_s)
            job.assignee_id, job.assigned_at = worker_id, self.now
            job.started_at = job.started_at or self.now
            job.stream_id = stream_id

    def claimable(self, queues: Sequence[str], tags: Sequence[str] = ()) -> list[ModelJob]:
        """In line order, whatever may run now, if its key is free."""
        keys = {key for kind, key, _ in self.holds() if kind == "singleton"}
        fits = (
            job
            for job in self.jobs.values()
            if job.state in WAITING
            and self.status(job) is Status.READY
            and job.queue in queues
            and set(tags) <= set(job.tags)
            and job.singleton_key not in keys
        )
        return sorted(fits, key=lambda job: job.line)

    def _judge_claim(
        self, granted: Sequence[ModelJob], queues: Sequence[str], limit: int, tags: Sequence[str]
    ) -> None:
        candidates = self.claimable(queues, tags)
        assert len(granted) <= limit, "more jobs than asked for"
        assert list(granted) == sorted(granted, key=lambda job: job.line), "not in line order"
        assert {job.job_id for job in granted} <= {job.job_id for job in candidates}, "a job that may not run"
        taken = [job.singleton_key for job in granted if job.singleton_key]
        assert len(taken) == len(set(taken)), "two jobs of one singleton key"
        keyless = [job for job in candidates if not job.singleton_key]
        keys = {job.singleton_key for job in candidates if job.singleton_key}
        assert len(granted) == min(limit, len(keyless) + len(keys)), "jobs were left in line"
        for job in candidates:
            if job not in granted and job.singleton_key not in taken:
                passed = [later for later in granted if self._goes_before(job, later, queues)]
                assert not passed, f"{job.job_id} was passed over for {passed[0].job_id}"

    def _goes_before(self, job: ModelJob, later: ModelJob, queues: Sequence[str]) -> bool:
        """Whether the order is binding: always within a queue and between priorities.

        Between queues of one priority only as far as a claim can tell: jobs that stand in line and may not
        run count when it decides how many to take from each queue.
        """
        if job.priority != later.priority or job.queue == later.queue:
            return job.line < later.line
        due = [
            other
            for other in self.jobs.values()
            if other.state in WAITING
            and other.queue in queues
            and other.priority == job.priority
            and other.available_at <= self.now
            and not other.wait_for
        ]
        undisturbed = all(self.status(other) is Status.READY and not other.singleton_key for other in due)
        return undisturbed and job.line < later.line

    # Settling.

    def settle(self, outcomes: Sequence[Outcome], worker_id: str | None = None) -> list[Verdict]:
        """Each does what it can. All are judged by what was before; ends are carried over last."""
        verdicts, ended = [], []
        for outcome in outcomes:
            verdict, end = self._settle(outcome, worker_id)
            verdicts.append(verdict)
            ended += [end] if end else []
        self._carry_over(ended)
        return verdicts

    def _settle(self, outcome: Outcome, worker_id: str | None) -> tuple[Verdict, ModelJob | None]:
        job = self.jobs.get(outcome.job_id)
        if job is None:
            return Verdict(False, None, "not_found"), None
        if outcome.lease_id not in (None, job.lease_id) or worker_id not in (None, job.assignee_id):
            return Verdict(False, job.state, "lease_lost"), None
        operation, when = KINDS[outcome.kind]
        last = job.max_attempts is not None and job.attempts + 1 >= job.max_attempts
        if operation in _LAST and (last or outcome.permanent):
            when = _LAST[operation]
        step = find(operation, job.state, when)
        if step is None:
            ends = {first.target for state in HELD if (first := find(operation, state, when))}
            again = outcome.lease_id is not None and job.state in ends & ARCHIVED
            return Verdict(False, job.state, "already" if again else "wrong_state"), None
        assert step.target is not None
        self._apply(job, operation, step.target, outcome)
        verdict = Verdict(True, job.state, "settled")
        return verdict, job if job.state in FINISHED else None

    def _apply(self, job: ModelJob, operation: Operation, target: JobState, outcome: Outcome) -> None:
        if operation in _COUNTED:
            job.attempts += 1
            job.last_retry_at = self.now
            job.errors.append((job.attempts, outcome.message or ""))
        message = outcome.message
        if outcome.kind == "undelivered" and target not in ARCHIVED:
            message = message or UNDELIVERED
        # What a hand-back says is a reason, not an error; the end of a job is told with whatever was said.
        silent = outcome.kind == "complete" or (outcome.kind in _SILENT and target not in ARCHIVED)
        if message is not None and not silent:
            job.message = message
        if operation is Operation.RELEASE:
            self._move(job, target)
        elif target in ARCHIVED:
            if outcome.kind == "acknowledge_not_executing":
                job.forfeited_stream_id = job.stream_id
            if target is JobState.COMPLETED:
                job.result, job.consecutive_expirations = outcome.result, 0
            self._move(job, target)
        else:
            self._hand_back(job, target, outcome.delay_s)

    def _hand_back(self, job: ModelJob, target: JobState, delay_s: float = 0) -> None:
        """Voluntarily: lease and streak are gone. A dead job keeps the time it was due at."""
        if target is not JobState.DEAD:
            job.available_at = self.now + timedelta(seconds=delay_s)
        job.lease_id = job.lease_expires_at = None
        job.consecutive_expirations = 0
        self._move(job, target)

    def _move(self, job: ModelJob, target: JobState) -> None:
        """Change the state, and what hangs on it: whoever is not held holds nothing."""
        job.state = target
        job.finalized_at = self.now if target in FINISHED else None
        if target not in HELD:
            for holders in self.resources.values():
                holders.discard(job.job_id)
        if target in ARCHIVED:
            job.progress = None

    def _give_up(self, jobs: Sequence[ModelJob], operation: Operation, when: When = When.ALWAYS) -> None:
        for job in jobs:
            if operation is Operation.LAPSE:
                job.lease_expiration_count += 1
                job.consecutive_expirations += 1
            step = find(operation, job.state, when)
            assert step is not None
            assert step.target is not None
            self._move(job, step.target)
        self._carry_over([job for job in jobs if job.state in FINISHED])

    def _carry_over(self, ended: Sequence[ModelJob]) -> None:
        """Tell those who wait: some are cancelled, and their own children then; the others wait for less."""
        names = {job.job_id for job in ended}
        if not names:
            return
        cancelled = [
            child for child in self.live() if "cancel" in {self._effect(child, name) for name in names}
        ]
        for child in cancelled:
            child.message = FOLLOWED_A_PARENT
            self._cancel(child)
        self._carry_over(cancelled)
        for child in self.live():
            child.wait_for = [
                name for name in child.wait_for if name not in names or self._effect(child, name) != "release"
            ]

    def _effect(self, child: ModelJob, parent: str) -> str | None:
        """What the end of a parent means for a child; None: it goes on waiting."""
        if parent not in child.wait_for:
            return None
        state = self.jobs[parent].state
        if state is JobState.COMPLETED:
            return "release"
        by_choice = {"run": "release", "cancel": "cancel", "wait": None}
        by_default = None if state is JobState.DEAD else "cancel"
        return by_choice[child.if_parent_fails] if child.if_parent_fails else by_default

    # What people and upkeep do.

    def cancel(self, job_id: str, reason: str | None = None) -> JobState:
        job = self.find(job_id)
        if job.state in ARCHIVED:
            raise Refused(WRONG_STATE)
        self.cancel_all([job], reason)
        return job.state

    def cancel_all(self, jobs: Sequence[ModelJob], reason: str | None = None) -> None:
        for job in jobs:
            if self._cancel(job) in ARCHIVED and reason is not None:
                job.message = reason
        self._carry_over([job for job in jobs if job.state in ARCHIVED])

    def _cancel(self, job: ModelJob) -> JobState:
        step = find(Operation.CANCEL, job.state, When.ALWAYS)
        assert step is not None
        assert step.target is not None
        if step.target is not job.state:
            self._move(job, step.target)
        return job.state

    def release_all(self, worker_id: str | None = None) -> int:
        """Of one worker, or of everybody."""
        jobs = [job for job in self.held() if worker_id in (None, job.assignee_id)]
        self._give_up(jobs, Operation.RELEASE)
        return len(jobs)

    def revive(self, job_id: str) -> None:
        job = self.find(job_id)
        if job.state is not JobState.DEAD:
            raise Refused(WRONG_STATE)
        self._move(job, JobState.RESCHEDULED)
        job.attempts, job.available_at = 0, self.now

    def clear_crash_concern(self, job_id: str) -> bool:
        job = self.find(job_id)
        if job.state in ARCHIVED:
            raise Refused(WRONG_STATE)
        concern = job.consecutive_expirations >= self.threshold
        if concern:
            job.consecutive_expirations = 0
        return concern

    def delete(self, job_ids: Iterable[str]) -> int:
        """All or nothing; only finished ones that nobody waits for. Unknown ids do not matter."""
        gone = {name for name in job_ids if name in self.jobs}
        waited_for = {name for job in self.live() for name in job.wait_for}
        if any(self.jobs[name].state not in FINISHED for name in gone) or gone & waited_for:
            raise Refused(WRONG_STATE)
        for name in gone:
            del self.jobs[name]
        return len(gone)

    def cleanup(self, ttl_s: float) -> int:
        before = self.now - timedelta(seconds=ttl_s)
        old = [
            job.job_id
            for job in self.jobs.values()
            if job.state is JobState.COMPLETED and job.finalized_at is not None and job.finalized_at < before
        ]
        for job_id in old:
            del self.jobs[job_id]
        return len(old)

    # Under a lease that must be in force (seed 003), or without any.

    def complete_under_lease(self, job_id: str, lease_id: str) -> None:
        job = self._active(job_id, lease_id)
        self.settle([Outcome(job.job_id, "complete", None)])

    def extend_lease(self, job_id: str, lease_id: str, seconds: float) -> datetime:
        job = self._active(job_id, lease_id)
        if job.state is not JobState.RUNNING:
            raise Refused(WRONG_STATE)
        return self._extend(job, seconds)

    def extend_leases(self, pairs: Sequence[tuple[str, str]], seconds: float) -> list[str]:
        return [self._keep(*pair, seconds) for pair in pairs]

    def _keep(self, job_id: str, lease_id: str, seconds: float) -> str:
        job = self.jobs.get(job_id)
        if job is None or (job.state in ARCHIVED and job.lease_id in (None, lease_id)):
            return "ended"
        if job.lease_id != lease_id:
            return "taken"
        if job.state not in HELD or not is_leased(job.lease_expires_at, self.now):
            return "lapsed"
        self._extend(job, seconds)
        return "extended" if job.state is JobState.RUNNING else "cancelling"

    def _extend(self, job: ModelJob, seconds: float) -> datetime:
        """A lease is never shortened."""
        assert job.lease_expires_at is not None
        job.lease_expires_at = max(job.lease_expires_at, self.now + timedelta(seconds=seconds))
        return job.lease_expires_at

    def reschedule(
        self, job_id: str, lease_id: str, queue: str, wait_for: Sequence[str], delay_s: float
    ) -> None:
        job = self._active(job_id, lease_id)
        if job.state is not JobState.RUNNING:
            raise Refused(WRONG_STATE)
        self._check_wait(job, wait_for)
        self._hand_back(job, JobState.RESCHEDULED, delay_s)
        self._rewrite(job, queue, wait_for)

    def complete_unheld(self, job_id: str) -> None:
        job = self._unheld(job_id)
        job.consecutive_expirations = 0
        self._move(job, JobState.COMPLETED)
        self._carry_over([job])

    def reschedule_unheld(self, job_id: str, queue: str, wait_for: Sequence[str], delay_s: float) -> None:
        job = self._unheld(job_id, lambda job: self._check_wait(job, wait_for))
        job.available_at = self.now + timedelta(seconds=delay_s)
        job.lease_id = job.lease_expires_at = None
        self._rewrite(job, queue, wait_for)

    def _check_wait(self, job: ModelJob, wait_for: Sequence[str]) -> None:
        self._check_parents(wait_for, job.if_parent_fails)
        edges = {other.job_id: other.wait_for for other in self.live() if other is not job}
        if find_cycle({job.job_id: self._incomplete(wait_for), **edges}):
            raise Refused(INVALID)

    def _rewrite(self, job: ModelJob, queue: str, wait_for: Sequence[str]) -> None:
        job.queue = queue
        job.wait_for = self._incomplete(wait_for)
        self._follow_ended_parents([job.job_id])

    def _unheld(self, job_id: str, check: Callable[[ModelJob], None] = lambda job: None) -> ModelJob:
        """A job that nobody holds and nothing keeps from running but a concern or its expiry."""
        job = self.find(job_id)
        lapsed = job.state is JobState.RUNNING and not is_leased(job.lease_expires_at, self.now)
        if not (job.state in WAITING or lapsed):
            raise Refused(WRONG_STATE)
        # What it will be once its overdue lease is swept; a refusal leaves even that undone.
        streak = job.consecutive_expirations
        job.consecutive_expirations = streak + 1 if lapsed else streak
        status = self.status(job)
        job.consecutive_expirations = streak
        if status not in (Status.READY, Status.CRASH_CONCERN, Status.EXPIRED):
            raise Refused(WRONG_STATE)
        check(job)
        if lapsed:
            self._give_up([job], Operation.LAPSE, When.LEASE_LAPSED)
        return job

    def _active(self, job_id: str, lease_id: str) -> ModelJob:
        job = self.find(job_id)
        if job.state in ARCHIVED:
            raise Refused(WRONG_STATE)
        if job.lease_id != lease_id or job.state not in HELD or not is_leased(job.lease_expires_at, self.now):
            raise Refused(LEASE_LOST)
        return job

    def find(self, job_id: str) -> ModelJob:
        if job_id not in self.jobs:
            raise Refused(NOT_FOUND)
        return self.jobs[job_id]

    # Progress and resources.

    def report_progress(self, job_id: str, lease_id: str, done: float) -> bool:
        job = self.jobs.get(job_id)
        if job is None or job.state not in HELD or job.lease_id != lease_id:
            return False
        job.progress = done
        return True

    def acquire(self, job_id: str, lease_id: str, keys: Sequence[str]) -> list[str]:
        """All or none. Answers those that are busy."""
        job = self.find(job_id)
        if job.state in ARCHIVED:
            raise Refused(WRONG_STATE)
        if job.lease_id != lease_id:
            raise Refused(LEASE_LOST)
        if job.state is not JobState.RUNNING:
            raise Refused(WRONG_STATE)
        wanted = [key for key in sorted(set(keys)) if job_id not in self.resources.get(key, ())]
        busy = [key for key in wanted if len(self.resources.get(key, ())) >= self.capacities.get(key, 1)]
        if not busy:
            for key in wanted:
                self.resources.setdefault(key, set()).add(job_id)
        return busy

    def give_back(self, job_id: str, lease_id: str) -> int:
        job = self.jobs.get(job_id)
        if job is None or job.lease_id != lease_id:
            return 0
        held = [holders for holders in self.resources.values() if job_id in holders]
        for holders in held:
            holders.discard(job_id)
        return len(held)
