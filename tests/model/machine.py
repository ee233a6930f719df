"""Three workers, two streams and operators at one database, and the model that says what must come of it.

Each rule does one thing to both. Afterwards every job is compared, so the first difference is found at the
step that made it. Time moves only when a rule moves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final, NamedTuple

import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)
from psycopg.types.json import Jsonb

from holdfast.domain.job import IfParentFails, NewJob
from holdfast.domain.lifecycle import Operation, sources
from holdfast.domain.outcome import Reason
from holdfast.domain.states import HELD, is_leased
from tests.clock import Clock
from tests.engine.sql import Connection, Rows, call, value
from tests.model.model import KINDS, Granted, Model, Outcome, Refused
from tests.model.readings import Reading, differences, expected_fates

START: Final = datetime(2031, 5, 5, 5, 5, 5, tzinfo=UTC)
THRESHOLD: Final = 2
OPERATOR: Final = "operator"

_EMPTY: Final = """
    truncate holdfast.jobs, holdfast.archived_jobs, holdfast.job_names, holdfast.job_waits,
      holdfast.job_errors, holdfast.holds, holdfast.resources, holdfast.queues,
      holdfast.jobs_trace
    restart identity"""


class Lease(NamedTuple):
    """What a worker remembers of a claim, for ever."""

    job_id: str
    lease_id: str


class Wish(NamedTuple):
    """What a settle says of a job."""

    kind: str
    message: str | None
    result: str | int | None
    delay_s: int
    permanent: bool

    def of(self, job_id: str, lease_id: str | None) -> Outcome:
        result = self.result if self.kind == "complete" else None
        return Outcome(job_id, self.kind, lease_id, self.message, result, self.delay_s, self.permanent)


# Few values of everything, so that things meet; whole seconds, so that moments coincide.
_workers = st.sampled_from(["ann", "bob", "cid"])
_streams = st.sampled_from([None, 1, 2])
_queues = st.sampled_from(["left", "right"])
_queue_sets = st.sampled_from([["left", "right"], ["left", "right"], ["left"], ["right"]])
_tags = st.lists(st.sampled_from(["red", "blue"]), unique=True, max_size=2)
_keys = st.sampled_from([None, None, None, "key 1", "key 2"])
_resources = st.sampled_from(["tool 1", "tool 2"])
_seconds = st.sampled_from([0, 0, 1, 5, 10])
_lease_seconds = st.sampled_from([10, 5, 30])
_limits = st.sampled_from([3, 1, 2, 4])
_messages = st.sampled_from([None, "broken", "tired"])
_if_parent_fails: st.SearchStrategy[IfParentFails | None] = st.sampled_from(
    [None, None, "wait", "cancel", "run"]
)
_wishes = st.builds(
    Wish,
    kind=st.sampled_from(["complete", "fail", *KINDS]),
    message=_messages,
    result=st.sampled_from([None, 7, "fine"]),
    delay_s=_seconds,
    permanent=st.sampled_from([False, False, False, True]),
)


class Order(NamedTuple):
    """A job to submit, as far as that can be said before the moment."""

    named: bool
    queue: str
    priority: int
    tags: list[str]
    delay_s: int | None
    lasts_s: int | None
    max_attempts: int | None
    singleton_key: str | None
    if_parent_fails: IfParentFails | None
    after_the_last: bool


_orders = st.builds(
    Order,
    named=st.sampled_from([True, True, False]),
    queue=_queues,
    priority=st.sampled_from([0, 0, 0, 5]),
    tags=_tags,
    delay_s=st.sampled_from([None, None, None, None, 0, 5]),
    lasts_s=st.sampled_from([None, None, None, None, None, 10]),
    max_attempts=st.sampled_from([None, 1, 2]),
    singleton_key=_keys,
    if_parent_fails=_if_parent_fails,
    after_the_last=st.booleans(),
)


# What operators do to one job; each is tried where it can succeed as often as anywhere.
_OPERATIONS: Final = {
    "submit": Operation.SUBMIT,
    "cancel": Operation.CANCEL,
    "revive": Operation.REVIVE,
    "clear_crash_concern": Operation.CLEAR_CRASH_CONCERN,
    "complete_unheld": Operation.COMPLETE_UNHELD,
    "delete": Operation.DELETE,
    "acknowledge": Operation.ACKNOWLEDGE_CANCELLATION,
    "acknowledge_not_executing": Operation.ACKNOWLEDGE_CANCELLATION,
}
_UNDER_LEASE: Final = (
    "extend",
    "complete",
    "report_progress",
    "release",
    "release_without_lease",
    "release_resources",
)
_UPKEEP: Final = (
    "lapse_leases",
    "lapse_leases",
    "mark_worker_unresponsive",
    "reset_running_jobs",
    "pause_queue",
    "resume_queue",
    "resume_queue",
    "set_resource_capacity",
    "cleanup",
    "delete_by_tags",
)


class Deed(NamedTuple):
    """An operation and the job it is tried on."""

    name: str
    job_id: str


_machines: st.SearchStrategy[Machine] = st.runner()
_deeds = st.tuples(_machines, st.sampled_from(sorted(_OPERATIONS)), st.booleans()).flatmap(
    lambda drawn: st.sampled_from([Deed(drawn[1], job_id) for job_id in drawn[0].fit(drawn[1], drawn[2])])
)
_unheld = st.tuples(_machines, st.booleans()).flatmap(
    lambda drawn: st.sampled_from(drawn[0].fit("complete_unheld", drawn[1]))
)
_held = _machines.flatmap(lambda machine: st.sampled_from(machine.held_leases()))


class Machine(RuleBasedStateMachine):
    """Everything is forgotten when one is made."""

    conn: ClassVar[Connection]

    jobs: Bundle[str] = Bundle("jobs")
    leases: Bundle[Lease] = Bundle("leases")
    any_lease = st.one_of(_held, _held, leases)

    def __init__(self) -> None:
        super().__init__()
        self.conn.execute(_EMPTY)
        call(self.conn, "set_crash_concern_threshold", p_threshold=THRESHOLD)
        call(self.conn, "set_trace", p_enabled=True)
        call(self.conn, "set_notify", p_enabled=False)
        self.clock = Clock(self.conn)
        self.model = Model(self.clock.freeze(START))
        self.model.threshold = THRESHOLD
        self.names = 0
        self.known: list[str] = []
        self.remembered: list[Lease] = []
        self.left_the_start: set[int] = set()

    def held_leases(self) -> list[Lease]:
        """Those in force, or the last one there was."""
        held = [Lease(job.job_id, job.lease_id) for job in self.model.held() if job.lease_id is not None]
        return held or self.remembered[-1:]

    def fit(self, deed: str, easily: bool) -> list[str]:
        """The jobs a deed may succeed on, or all of them; deleted ones are asked about, too."""
        states = sources(_OPERATIONS[deed])
        fitting = [job.job_id for job in self.model.jobs.values() if job.state in states]
        return fitting if fitting and easily else self.known

    def has_leases(self) -> bool:
        return bool(self.remembered)

    # Submitting.

    @initialize(target=jobs, orders=st.lists(_orders, min_size=3, max_size=6))
    def begin(self, orders: list[Order]) -> MultipleResults[str]:
        return self._submit(orders, [])

    @rule(target=jobs, orders=st.lists(_orders, min_size=1, max_size=3))
    def submit(self, orders: list[Order]) -> MultipleResults[str]:
        return self._submit(orders, [])

    @rule(target=jobs, order=_orders, parent=jobs, others=st.lists(jobs, max_size=2))
    def submit_to_wait(self, order: Order, parent: str, others: list[str]) -> MultipleResults[str]:
        return self._submit([order], [parent, *others])

    def _submit_again(self, job_id: str) -> None:
        """Taken, or of a form that is not for callers; free again only once the job is deleted."""
        if job_id in self.model.jobs and not job_id.startswith("j"):
            self._submit_new([NewJob(job_id=job_id)])

    def _submit(self, orders: Sequence[Order], parents: Sequence[str]) -> MultipleResults[str]:
        new: list[NewJob] = []
        for order in orders:
            self.names += 1
            last = [new[-1].job_id] if new and order.after_the_last else []
            expires_at = self.model.now + timedelta(seconds=order.lasts_s) if order.lasts_s else None
            new.append(
                NewJob(
                    job_id=f"n{self.names}" if order.named else None,
                    queue=order.queue,
                    priority=order.priority,
                    tags=order.tags,
                    delay_s=order.delay_s,
                    expires_at=expires_at,
                    max_attempts=order.max_attempts,
                    singleton_key=order.singleton_key,
                    wait_for=[*parents, *(name for name in last if name is not None)],
                    if_parent_fails=order.if_parent_fails,
                )
            )
        return multiple(*self._submit_new(new))

    def _submit_new(self, new: Sequence[NewJob]) -> list[str]:
        ids: list[str] = []

        def ask() -> None:
            ids.extend(row["job_id"] for row in call(self.conn, "submit_jobs", **_submission(new)))

        self._agree(ask, lambda: self.model.submit(new, ids or [job.job_id or "" for job in new]))
        self.known += ids
        return ids

    # Claiming.

    @rule(
        target=leases,
        worker=_workers,
        queues=_queue_sets,
        limit=_limits,
        seconds=_lease_seconds,
        tags=st.sampled_from([[], [], [], ["red"], ["red", "blue"]]),
        stream=_streams,
        later=_seconds,
    )
    def claim(
        self,
        worker: str,
        queues: list[str],
        limit: int,
        seconds: int,
        tags: list[str],
        stream: int | None,
        later: int,
    ) -> MultipleResults[Lease]:
        self.advance(later)
        return multiple(*self._claim(worker, queues, limit, seconds, tags, stream))

    def _claim(
        self, worker: str, queues: list[str], limit: int, seconds: int, tags: list[str], stream: int | None
    ) -> list[Lease]:
        granted = call(
            self.conn,
            "claim_jobs",
            p_worker_id=worker,
            p_queues=queues,
            p_limit=limit,
            p_lease_seconds=seconds,
            p_tags=tags,
            p_stream_id=stream,
        )
        self.model.sweep()
        return self._judge(granted, worker, queues, limit, seconds, tags, stream)

    @rule(
        target=leases,
        worker=_workers,
        stream=_streams,
        cancelled=st.booleans(),
        kept_s=st.sampled_from([None, 5, 30]),
        later=_seconds,
        wishes=st.lists(_wishes, min_size=1, max_size=4),
    )
    def work_through(
        self,
        worker: str,
        stream: int | None,
        cancelled: bool,
        kept_s: int | None,
        later: int,
        wishes: list[Wish],
    ) -> MultipleResults[Lease]:
        """What workers do all day: claim, hear of a cancellation, extend, take a while, settle."""
        queues = ["left", "right"]
        claimed = self._claim(worker, queues, len(wishes) + 1, 10, [], stream)
        self.everything_is_as_the_model_says()
        if cancelled and claimed:
            self._cancel(claimed[0].job_id, None)
        if kept_s and claimed:
            self.extend_leases(claimed[0], claimed[1:], kept_s)
            self.everything_is_as_the_model_says()
        self.advance(later)
        outcomes = [wish.of(*lease) for lease, wish in zip(claimed, wishes, strict=False)]
        self._settle(outcomes, worker, twice=False)
        return multiple(*claimed)

    @rule(
        target=leases,
        worker=_workers,
        queues=_queue_sets,
        limit=_limits,
        seconds=_lease_seconds,
        later=_seconds,
    )
    def get_work(
        self, worker: str, queues: list[str], limit: int, seconds: int, later: int
    ) -> MultipleResults[Lease]:
        self.advance(later)
        granted = call(
            self.conn,
            "get_work",
            p_worker_id=worker,
            p_worker_caps=queues,
            p_lease_seconds=seconds,
            p_limit_jobs=limit,
        )
        self.model.sweep()
        return multiple(*self._judge(granted, worker, queues, limit, seconds))

    @precondition(has_leases)
    @rule(
        target=leases,
        lease=any_lease,
        wish=_wishes,
        worker=_workers,
        queues=_queue_sets,
        limit=_limits,
        stream=_streams,
    )
    def settle_and_claim(
        self, lease: Lease, wish: Wish, worker: str, queues: list[str], limit: int, stream: int | None
    ) -> MultipleResults[Lease]:
        outcomes = [wish.of(*lease)]
        answer = call(
            self.conn,
            "settle_and_claim",
            **_settlement(outcomes),
            p_worker_id=worker,
            p_queues=queues,
            p_limit=limit,
            p_lease_seconds=10,
            p_stream_id=stream,
        )
        refused = [(row["job_id"], row["reason"]) for row in answer if row["kind"] == "refused"]
        verdicts = self.model.settle(outcomes)
        assert refused == [(lease.job_id, verdict.reason) for verdict in verdicts if not verdict.ok]
        self.model.sweep()
        granted = [row for row in answer if row["kind"] == "claimed"]
        # A job that is held although its settle was refused keeps its slot.
        kept = [each for each in verdicts if each.reason == Reason.WRONG_STATE and each.state in HELD]
        return multiple(*self._judge(granted, worker, queues, limit - len(kept), 10, (), stream))

    def _judge(
        self,
        granted: Rows,
        worker: str,
        queues: Sequence[str],
        limit: int,
        seconds: int,
        tags: Sequence[str] = (),
        stream: int | None = None,
    ) -> list[Lease]:
        leases = [Lease(row["job_id"], row["lease_id"]) for row in granted]
        self.model.claim([Granted(*lease) for lease in leases], worker, queues, limit, seconds, tags, stream)
        self.remembered += leases
        return leases

    # Settling.

    @precondition(has_leases)
    @rule(
        first=any_lease,
        wish=_wishes,
        more=st.lists(st.tuples(any_lease, _wishes), max_size=4),
        worker=st.one_of(st.none(), st.none(), _workers),
        reply_lost=st.booleans(),
    )
    def settle(
        self, first: Lease, wish: Wish, more: list[tuple[Lease, Wish]], worker: str | None, reply_lost: bool
    ) -> None:
        batch = dict([(first, wish), *more])
        self._settle([wish.of(*lease) for lease, wish in batch.items()], worker, twice=reply_lost)

    @precondition(has_leases)
    @rule(first=any_lease, more=st.lists(any_lease, max_size=4), reply_lost=st.booleans())
    def complete(self, first: Lease, more: list[Lease], reply_lost: bool) -> None:
        """Nothing but completions is a path of its own."""
        batch = dict.fromkeys([first, *more])
        done = [Outcome(lease.job_id, "complete", lease.lease_id, result="done") for lease in batch]
        self._settle(done, None, twice=reply_lost)

    @rule(job_id=jobs, wish=_wishes)
    def settle_unguarded(self, job_id: str, wish: Wish) -> None:
        """As those do who were never given a lease."""
        self._settle([wish.of(job_id, None)], None, twice=False)

    def _settle(self, outcomes: Sequence[Outcome], worker: str | None, *, twice: bool) -> None:
        for _ in range(2 if twice else 1):
            rows = call(self.conn, "settle_jobs", **_settlement(outcomes), p_worker_id=worker)
            verdicts = self.model.settle(outcomes, worker)
            assert [row["job_id"] for row in rows] == [outcome.job_id for outcome in outcomes]
            found = [(row["ok"], row["reason"]) for row in rows]
            assert found == [(verdict.ok, verdict.reason) for verdict in verdicts]
            ids = [outcome.job_id for outcome in outcomes]
            for row, verdict in zip(rows, verdicts, strict=True):
                assert row["state"] == verdict.state or ids.count(row["job_id"]) > 1

    def _acknowledge(self, job_id: str, *, was_executing: bool) -> None:
        kind = "acknowledge" if was_executing else "acknowledge_not_executing"
        self._agree(
            lambda: value(
                self.conn, "acknowledge_cancellation", p_job_id=job_id, p_was_executing=was_executing
            ),
            lambda: self._settle_one(kind, job_id),
        )

    def _release(self, lease: Lease, *, with_lease: bool) -> None:
        given = lease.lease_id if with_lease else None
        (verdict,) = self.model.settle([Outcome(lease.job_id, "release", given)])
        assert value(self.conn, "release_job", p_job_id=lease.job_id, p_lease_id=given) is verdict.ok

    def _settle_one(self, kind: str, job_id: str) -> object:
        (verdict,) = self.model.settle([Outcome(job_id, kind, None)])
        if not verdict.ok:
            raise Refused({"not_found": "HF001", "lease_lost": "HF004"}.get(verdict.reason, "HF003"))
        return verdict.state

    # Under a lease.

    @precondition(has_leases)
    @rule(lease=any_lease, act=st.sampled_from(_UNDER_LEASE), seconds=_lease_seconds)
    def work(self, lease: Lease, act: str, seconds: int) -> None:
        match act:
            case "extend":
                self._extend_lease(lease, seconds)
            case "complete":
                self._complete_under_lease(lease)
            case "report_progress":
                self._report_progress(lease, seconds)
            case "release_resources":
                self._release_resources(lease)
            case _:
                self._release(lease, with_lease=act == "release")

    @precondition(has_leases)
    @rule(first=any_lease, more=st.lists(any_lease, max_size=4), seconds=_lease_seconds)
    def extend_leases(self, first: Lease, more: list[Lease], seconds: int) -> None:
        pairs = list(dict.fromkeys([first, *more]))
        rows = call(
            self.conn,
            "extend_leases",
            p_job_ids=[lease.job_id for lease in pairs],
            p_lease_ids=[lease.lease_id for lease in pairs],
            p_seconds=seconds,
        )
        assert [row["verdict"] for row in rows] == self.model.extend_leases(pairs, seconds)

    def _extend_lease(self, lease: Lease, seconds: int) -> None:
        self._agree(
            lambda: value(self.conn, "extend_lease", **_by(lease), p_additional_seconds=seconds),
            lambda: self.model.extend_lease(*lease, seconds),
        )

    def _complete_under_lease(self, lease: Lease) -> None:
        self._agree(
            lambda: value(self.conn, "complete_job", **_by(lease)) and None,
            lambda: self.model.complete_under_lease(*lease),
        )

    @precondition(has_leases)
    @rule(lease=any_lease, queue=_queues, wait_for=st.lists(jobs, max_size=2), seconds=_seconds)
    def reschedule(self, lease: Lease, queue: str, wait_for: list[str], seconds: int) -> None:
        rewritten = self._rewritten(queue, wait_for, seconds)
        self._agree(
            lambda: _nothing(call(self.conn, "reschedule_job", **_by(lease), **rewritten)),
            lambda: self.model.reschedule(*lease, queue, wait_for, seconds),
        )

    def _report_progress(self, lease: Lease, done: int) -> None:
        told = value(
            self.conn, "report_progress", p_job_id=lease.job_id, p_lease_id=lease.lease_id, p_done=done
        )
        assert told is self.model.report_progress(*lease, done)

    @precondition(has_leases)
    @rule(lease=any_lease, keys=st.lists(_resources, min_size=1, max_size=2))
    def acquire_resources(self, lease: Lease, keys: list[str]) -> None:
        named = {"p_job_id": lease.job_id, "p_lease_id": lease.lease_id}
        self._agree(
            lambda: value(self.conn, "acquire_resources", **named, p_keys=keys),
            lambda: self.model.acquire(*lease, keys),
        )

    def _release_resources(self, lease: Lease) -> None:
        freed = value(self.conn, "release_resources", p_job_id=lease.job_id, p_lease_id=lease.lease_id)
        assert freed == self.model.give_back(*lease)

    # Operators.

    @rule(deed=_deeds, reason=_messages, more=st.lists(jobs, max_size=1))
    def operate(self, deed: Deed, reason: str | None, more: list[str]) -> None:
        match deed.name:
            case "cancel":
                self._cancel(deed.job_id, reason)
            case "submit":
                self._submit_again(deed.job_id)
            case "revive":
                self._revive(deed.job_id)
            case "clear_crash_concern":
                self._clear_crash_concern(deed.job_id)
            case "complete_unheld":
                self._complete_unheld(deed.job_id)
            case "delete":
                self._delete([deed.job_id, *more])
            case name:
                self._acknowledge(deed.job_id, was_executing=name == "acknowledge")

    @rule(
        act=st.sampled_from(_UPKEEP), worker=_workers, queue=_queues, key=_resources, number=st.integers(1, 3)
    )
    def keep_up(self, act: str, worker: str, queue: str, key: str, number: int) -> None:
        match act:
            case "lapse_leases":
                self._lapse_leases()
            case "mark_worker_unresponsive":
                self._mark_worker_unresponsive(worker)
            case "reset_running_jobs":
                self._reset_running_jobs()
            case "pause_queue":
                self._pause_queue(queue)
            case "resume_queue":
                self._resume_queue(queue)
            case "set_resource_capacity":
                self._set_resource_capacity(key, number)
            case "cleanup":
                self._cleanup(10 * number)
            case _:
                self._delete_by_tags(["red"] if number == 1 else ["red", "blue"])

    def _cancel(self, job_id: str, reason: str | None) -> None:
        def ask() -> object:
            (row,) = call(self.conn, "cancel_job", p_job_id=job_id, p_worker_id=OPERATOR, p_reason=reason)
            return row["state"]

        self._agree(ask, lambda: self.model.cancel(job_id, reason))

    @rule(tags=_tags, job_id=jobs, reason=_messages)
    def cancel_many(self, tags: list[str], job_id: str, reason: str | None) -> None:
        rows = call(self.conn, "cancel_jobs", p_tags=tags, p_job_ids=[job_id], p_reason=reason)
        chosen = [
            job for job in self.model.live() if job.job_id == job_id or (tags and set(tags) <= set(job.tags))
        ]
        before = self.model.jobs.get(job_id)
        expected = {(job_id, False, before and before.state)}
        if before in chosen:
            expected.clear()
        self.model.cancel_all(chosen, reason)
        expected |= {(job.job_id, True, job.state) for job in chosen}
        assert {(row["job_id"], row["cancelled"], row["state"]) for row in rows} == expected

    def _revive(self, job_id: str) -> None:
        self._agree(
            lambda: _nothing(value(self.conn, "revive_job", p_job_id=job_id)),
            lambda: self.model.revive(job_id),
        )

    def _clear_crash_concern(self, job_id: str) -> None:
        self._agree(
            lambda: value(self.conn, "clear_crash_concern", p_job_id=job_id, p_worker_id=OPERATOR),
            lambda: self.model.clear_crash_concern(job_id),
        )

    def _pause_queue(self, queue: str) -> None:
        assert value(self.conn, "pause_queue", p_queue=queue) is (queue not in self.model.paused)
        self.model.paused.add(queue)

    def _resume_queue(self, queue: str) -> None:
        assert value(self.conn, "resume_queue", p_queue=queue) is (queue in self.model.paused)
        self.model.paused.discard(queue)

    def _set_resource_capacity(self, key: str, capacity: int) -> None:
        call(self.conn, "set_resource_capacity", p_key=key, p_capacity=capacity)
        self.model.capacities[key] = capacity

    def _mark_worker_unresponsive(self, worker: str) -> None:
        released = value(self.conn, "mark_worker_unresponsive", p_worker_id=worker)
        assert released == self.model.release_all(worker)

    def _reset_running_jobs(self) -> None:
        assert value(self.conn, "reset_running_jobs") == self.model.release_all()

    def _lapse_leases(self) -> None:
        lapsed = {(row["job_id"], row["state"]) for row in call(self.conn, "lapse_leases")}
        overdue = [job for job in self.model.held() if not is_leased(job.lease_expires_at, self.model.now)]
        self.model.sweep()
        assert lapsed == {(job.job_id, job.state) for job in overdue}

    def _complete_unheld(self, job_id: str) -> None:
        self._agree(
            lambda: _nothing(value(self.conn, "complete_unheld_job", p_job_id=job_id, p_worker_id=OPERATOR)),
            lambda: self.model.complete_unheld(job_id),
        )

    @rule(job_id=_unheld, queue=_queues, wait_for=st.lists(jobs, max_size=2), seconds=_seconds)
    def reschedule_unheld(self, job_id: str, queue: str, wait_for: list[str], seconds: int) -> None:
        named = {"p_job_id": job_id, "p_worker_id": OPERATOR, **self._rewritten(queue, wait_for, seconds)}
        self._agree(
            lambda: _nothing(call(self.conn, "reschedule_unheld_job", **named)),
            lambda: self.model.reschedule_unheld(job_id, queue, wait_for, seconds),
        )

    def _delete(self, ids: list[str]) -> None:
        self._agree(lambda: value(self.conn, "delete_jobs", p_job_ids=ids), lambda: self.model.delete(ids))

    def _delete_by_tags(self, tags: list[str]) -> None:
        tagged = [job.job_id for job in self.model.jobs.values() if set(tags) <= set(job.tags)]
        self._agree(lambda: value(self.conn, "delete_jobs", p_tags=tags), lambda: self.model.delete(tagged))

    def _cleanup(self, seconds: int) -> None:
        gone = value(self.conn, "cleanup_expired_jobs", p_ttl_seconds=seconds)
        assert gone == self.model.cleanup(seconds)

    @rule(seconds=st.sampled_from([1, 5, 5, 10, 30]))
    def advance(self, seconds: int) -> None:
        self.model.now = self.clock.advance(seconds)

    # What is compared.

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        reading = Reading(self.conn)
        found = differences(reading.fates(), expected_fates(self.model))
        assert not found, "\n".join(found)
        assert reading.held_keys() == self.model.holds()
        reading.check()
        fresh, begun = reading.started()
        assert not fresh & self.left_the_start, "a job is back at the start"
        self.left_the_start |= begun

    def _rewritten(self, queue: str, wait_for: Sequence[str], seconds: int) -> dict[str, object]:
        due = self.model.now + timedelta(seconds=seconds) if seconds else None
        return {"p_next_need": queue, "p_wait_for": list(wait_for), "p_available_at": due}

    def _agree(self, ask: Callable[[], object], expect: Callable[[], object]) -> None:
        """One answer, or one reason to refuse."""
        found, expected = _answer(ask), _answer(expect)
        assert found == expected, f"{found} instead of {expected}"


def _answer(act: Callable[[], object]) -> tuple[str, object]:
    try:
        return "answered", act()
    except psycopg.Error as error:
        return "refused", error.sqlstate
    except Refused as refused:
        return "refused", refused.sqlstate


def _nothing(_: object) -> None:
    """Where the answer does not matter, as long as there is one."""


def _by(lease: Lease) -> dict[str, Any]:
    return {"p_job_id": lease.job_id, "p_lease_id": lease.lease_id, "p_worker_id": OPERATOR}


def _submission(new: Sequence[NewJob]) -> dict[str, object]:
    return {
        "p_job_ids": [job.job_id for job in new],
        "p_queues": [job.queue for job in new],
        "p_priorities": [job.priority for job in new],
        "p_delays": [job.delay_s for job in new],
        "p_expires_at": [job.expires_at for job in new],
        "p_tags": [Jsonb(job.tags) for job in new],
        "p_singleton_keys": [job.singleton_key for job in new],
        "p_max_attempts": [job.max_attempts for job in new],
        "p_wait_for": [Jsonb(job.wait_for) for job in new],
        "p_if_parent_fails": [job.if_parent_fails for job in new],
    }


def _settlement(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "p_job_ids": [outcome.job_id for outcome in outcomes],
        "p_operations": [outcome.kind for outcome in outcomes],
        "p_lease_ids": [outcome.lease_id for outcome in outcomes],
        "p_messages": [outcome.message for outcome in outcomes],
        "p_results": [None if outcome.result is None else Jsonb(outcome.result) for outcome in outcomes],
        "p_delays": [float(outcome.delay_s) for outcome in outcomes],
        "p_permanent": [outcome.permanent for outcome in outcomes],
    }
