"""A job in every state, brought there by the calls users make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeAlias

import psycopg
from psycopg.rows import dict_row

from holdfast.domain.states import HELD, WAITING, JobState
from tests.clock import Clock

Connection: TypeAlias = psycopg.Connection[Any]

JOB: Final = "subject"
QUEUE: Final = "bench"
TAG: Final = "subject-tag"
WORKER: Final = "holder"
LEASE_S: Final = 60
EXTENSION: Final = timedelta(seconds=90)


class Condition(StrEnum):
    """What else is true of a job, beyond its state."""

    PLAIN = "plain"
    LAST_ATTEMPT = "last attempt"
    LAPSED = "lapsed"
    SIDELINED = "sidelined"
    FUTURE = "in the future"
    BLOCKED = "blocked"
    EXPIRED = "expired"
    PAUSED = "paused"
    KEY_BUSY = "key busy"


@dataclass(frozen=True, slots=True)
class Stage:
    """A state, or None for an id that no job has (any more), under a condition."""

    state: JobState | None
    condition: Condition = Condition.PLAIN

    def __str__(self) -> str:
        name = self.state or "no such job"
        return name if self.condition is Condition.PLAIN else f"{name}, {self.condition}"


def _every(condition: Condition, states: frozenset[JobState | None]) -> tuple[Stage, ...]:
    return tuple(Stage(state, condition) for state in (None, *JobState) if state in states)


_ALL: Final = frozenset({None, *JobState})
_WAITING: Final[frozenset[JobState | None]] = frozenset(WAITING)
_HELD: Final[frozenset[JobState | None]] = frozenset(HELD)

STAGES: Final = (*_every(Condition.PLAIN, _ALL), *_every(Condition.LAPSED, _HELD))
LAST_ATTEMPT: Final = _every(Condition.LAST_ATTEMPT, _ALL)
HINDERED: Final = (
    # Lapses in a row are counted where a lease lapses, and forgotten at every hand-back.
    *_every(Condition.SIDELINED, _HELD | {JobState.UNKNOWN_RETRY}),
    *_every(Condition.FUTURE, _WAITING),
    *_every(Condition.BLOCKED, _WAITING),
    *_every(Condition.EXPIRED, _WAITING),
    *_every(Condition.PAUSED, _WAITING),
    *_every(Condition.KEY_BUSY, _WAITING),
)


@dataclass(frozen=True, slots=True)
class Staged:
    """What a test knows of the job on its stage. The leases are its last two, whether in force or not."""

    conn: Connection
    lease_id: str | None
    stale_lease_id: str | None
    now: datetime


def query(conn: Connection, sql: str, parameters: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
    """The rows of an answer, by column."""
    return conn.cursor(row_factory=dict_row).execute(sql, parameters).fetchall()


def set_stage(conn: Connection, clock: Clock, stage: Stage) -> Staged:
    """Make the job, and bystanders. At the end a moment passes, so that whatever is written then is new."""
    clock.freeze()
    conn.execute("select holdfast.set_trace(true)")
    _add_bystanders(conn)
    leases = _bring_about(conn, clock, stage)
    _add_condition(conn, clock, stage.condition)
    now = clock.advance(10)
    return Staged(conn, leases[-1] if leases else None, leases[-2] if leases else None, now)


def _add_bystanders(conn: Connection) -> None:
    """Jobs that nothing done to another job may touch: one stopped, one running, one waiting."""
    submit = "select holdfast.submit_job(%s, 'producer', 'elsewhere', p_tags => '{bystander-tag}')"
    claim = "select holdfast.claim_jobs('bystander', '{elsewhere}', p_lease_seconds => 1e8)"
    conn.execute(submit, ["stopped bystander"])
    conn.execute(claim)
    conn.execute("select holdfast.stop_job('stopped bystander')")
    conn.execute(submit, ["running bystander"])
    conn.execute(claim)
    conn.execute(submit, ["waiting bystander"])


_LAST_STEP: Final = {
    JobState.RUNNING: "select",
    JobState.RESCHEDULED: "select holdfast.retry_later(%(job)s, p_lease_id => %(lease)s)",
    JobState.FAILED_RETRY: "select holdfast.fail_job(%(job)s, 'second error', %(lease)s)",
    JobState.UNKNOWN_RETRY: "select holdfast.release_job(%(job)s, %(lease)s)",
    JobState.CANCELLING: "select holdfast.cancel_job(%(job)s, 'operator')",
    JobState.COMPLETED: """select holdfast.settle_jobs(
        array[%(job)s], '{complete}', array[%(lease)s], p_results => array['"the result"'::jsonb])""",
    JobState.STOPPED: "select holdfast.stop_job(%(job)s, 'stopped', %(lease)s)",
    JobState.UNKNOWN_STOPPED: "select holdfast.mark_job_unknown_stopped(%(job)s, 'who knows', %(lease)s)",
    JobState.DEAD: "select holdfast.fail_job(%(job)s, 'fatal', %(lease)s, p_permanent => true)",
}


def _bring_about(conn: Connection, clock: Clock, stage: Stage) -> list[str]:
    """Take the job to its state; answer the leases it had."""
    _submit(conn, clock, stage)
    if stage.state is JobState.INITIAL_PENDING:
        return []
    if stage.state in (None, JobState.UNSCHEDULED):
        conn.execute("select holdfast.cancel_job(%s, 'operator', 'not wanted')", [JOB])
        if stage.state is None:
            conn.execute("select holdfast.delete_jobs(p_job_ids => array[%s])", [JOB])
        return []
    leases = _live_through_something(conn, clock)
    conn.execute(_LAST_STEP[stage.state], {"job": JOB, "lease": leases[-1]})
    return leases


def _submit(conn: Connection, clock: Clock, stage: Stage) -> None:
    failures = {JobState.INITIAL_PENDING: 0, JobState.FAILED_RETRY: 2}.get(stage.state or JobState.DEAD, 1)
    max_attempts = failures + 1 if stage.condition is Condition.LAST_ATTEMPT else 9
    conn.execute(
        """select holdfast.submit_job(
            p_job_id => %s, p_worker_id => 'producer', p_next_need => %s, p_payload => '{"to": "somebody"}',
            p_singleton_key => 'key', p_expires_at => %s, p_priority => 7, p_tags => array[%s],
            p_resource_keys => '{tool}', p_max_attempts => %s)""",
        [JOB, QUEUE, clock.now() + timedelta(days=1), TAG, max_attempts],
    )


def _live_through_something(conn: Connection, clock: Clock) -> list[str]:
    """A failure, a lapsed lease, and a third claim: no column of the job is empty any more."""
    first, second, third = (_claim(conn, clock, ending) for ending in ("fail", "lapse", "progress"))
    return [first, second, third]


def _claim(conn: Connection, clock: Clock, ending: str) -> str:
    row = conn.execute(
        "select lease_id from holdfast.claim_jobs(%s, array[%s], 1, %s, p_stream_id => 11)",
        [WORKER, QUEUE, LEASE_S],
    ).fetchone()
    assert row is not None
    lease: str = row[0]
    conn.execute("select holdfast.acquire_resources(%s, '{tool}', %s)", [JOB, lease])
    if ending == "fail":
        conn.execute("select holdfast.fail_job(%s, 'first error', %s, p_traceback => 'line 1')", [JOB, lease])
    elif ending == "lapse":
        clock.advance(LEASE_S)
        conn.execute("select holdfast.lapse_leases()")
    else:
        conn.execute("select holdfast.report_progress(%s, %s, 1, 2, 'half')", [JOB, lease])
    return lease


def _add_condition(conn: Connection, clock: Clock, condition: Condition) -> None:
    move = "select holdfast.reschedule_unheld_job(%s, 'operator', %s, {})"
    match condition:
        case Condition.PLAIN | Condition.LAST_ATTEMPT:
            pass
        case Condition.LAPSED:
            clock.advance(LEASE_S)
        case Condition.SIDELINED:
            conn.execute("select holdfast.set_crash_concern_threshold(1)")
        case Condition.FUTURE:
            moment = clock.now() + timedelta(hours=1)
            conn.execute(move.format("p_available_at => %s"), [JOB, QUEUE, moment])
        case Condition.BLOCKED:
            conn.execute(move.format("p_wait_for => '{waiting bystander}'"), [JOB, QUEUE])
        case Condition.EXPIRED:
            clock.advance(timedelta(days=2).total_seconds())
        case Condition.PAUSED:
            conn.execute("select holdfast.pause_queue(%s)", [QUEUE])
        case Condition.KEY_BUSY:
            conn.execute(
                "select holdfast.submit_job('rival', 'producer', 'rivals', p_singleton_key => 'key')"
            )
            conn.execute("select holdfast.claim_jobs('bystander', '{rivals}', p_lease_seconds => 1e8)")
