"""What the database says about every job, and what the model says, in one form that can be compared."""

from __future__ import annotations

from typing import Any, Final

from holdfast.domain.states import ARCHIVED, HELD, JobState
from tests.engine.sql import Connection, Row, Rows, column, rows
from tests.model.model import Model, ModelJob

_SAME_NAME: Final = (
    "job_id",
    "state",
    "priority",
    "created_at",
    "available_at",
    "expires_at",
    "max_attempts",
    "singleton_key",
    "if_parent_fails",
    "attempts",
    "lease_id",
    "lease_expires_at",
    "lease_expiration_count",
    "consecutive_expirations",
    "assignee_id",
    "assigned_at",
    "started_at",
    "last_retry_at",
    "finalized_at",
    "wait_for",
)
_BOTH: Final = f"{', '.join(_SAME_NAME)}, next_need, tags, error_message, errors, number"
_LIVE: Final = f"select {_BOTH}, status, stream_id, progress from holdfast.jobs_with_status"
_ARCHIVED: Final = f"select {_BOTH}, forfeited_stream_id, result from holdfast.jobs_archive"
_HOLDS: Final = """
    select holds.kind, holds.key, job.job_id, job.state, holds.lease_id::text = job.lease_id as of_this_lease
    from holdfast.holds
    left join holdfast.jobs_with_status job on job.number = holds.job_id"""
_MISCOUNTED: Final = """
    select coalesce(job.name, 'j' || job.id)
    from holdfast.jobs job
    where job.waiting_on <> (select count(*) from holdfast.job_waits waits where waits.child_id = job.id)
    union all
    select 'a wait of job number ' || waits.child_id || ', which is not live'
    from holdfast.job_waits waits
    where not exists (select from holdfast.jobs job where job.id = waits.child_id)"""

Fate = dict[str, Any]
"""Everything comparable about one job."""


class Reading:
    """The database at one moment."""

    def __init__(self, conn: Connection) -> None:
        self.live = rows(conn, _LIVE)
        self.archived = rows(conn, _ARCHIVED)
        self.holds = rows(conn, _HOLDS)
        self.miscounted = column(conn, _MISCOUNTED)

    def fates(self) -> dict[str, Fate]:
        live = {row["job_id"]: _fate(row, archived=False) for row in self.live}
        return live | {row["job_id"]: _fate(row, archived=True) for row in self.archived}

    def held_keys(self) -> set[tuple[str, str, str]]:
        return {(hold["kind"], hold["key"], hold["job_id"]) for hold in self.holds}

    def check(self) -> None:
        """What is true whatever happened."""
        both = {row["number"] for row in self.live} & {row["number"] for row in self.archived}
        assert not both, f"live and archived at once: {both}"
        assert all(row["state"] in ARCHIVED for row in self.archived)
        assert not any(row["state"] in ARCHIVED for row in self.live)
        assert not self.miscounted, f"waiting_on is not the number of waits: {self.miscounted}"
        running = [row["singleton_key"] for row in self.live if row["state"] in HELD and row["singleton_key"]]
        assert len(running) == len(set(running)), f"one key, two holders: {running}"
        astray = [hold for hold in self.holds if hold["state"] not in HELD or not hold["of_this_lease"]]
        assert not astray, f"held for a job that is not held: {astray}"

    def started(self) -> tuple[set[int], set[int]]:
        """Numbers of the jobs that were never claimed, and of the others."""
        everybody: Rows = [*self.live, *self.archived]
        fresh = {row["number"] for row in everybody if row["state"] == JobState.INITIAL_PENDING}
        return fresh, {row["number"] for row in everybody} - fresh


def expected_fates(model: Model) -> dict[str, Fate]:
    return {job_id: _expected(model, job) for job_id, job in model.jobs.items()}


def differences(found: dict[str, Fate], expected: dict[str, Fate]) -> list[str]:
    """A line for each thing that is not as it should be."""
    lines = [f"{job_id} is there and should not be" for job_id in found.keys() - expected.keys()]
    lines += [f"{job_id} is missing" for job_id in expected.keys() - found.keys()]
    lines += [
        f"{job_id}.{name} is {found[job_id][name]!r}, not {wanted!r}"
        for job_id in found.keys() & expected.keys()
        for name, wanted in expected[job_id].items()
        if found[job_id][name] != wanted
    ]
    return sorted(lines)


def _fate(row: Row, *, archived: bool) -> Fate:
    progress = row.get("progress")
    return {name: row[name] for name in _SAME_NAME} | {
        "archived": archived,
        "queue": row["next_need"],
        "tags": sorted(row["tags"]),
        "message": row["error_message"],
        "errors": [(error["attempt"], error["message"]) for error in row["errors"]],
        "status": row.get("status"),
        "stream_id": row.get("stream_id"),
        "progress": progress and progress["done"],
        "forfeited_stream_id": row.get("forfeited_stream_id"),
        "result": row.get("result"),
    }


def _expected(model: Model, job: ModelJob) -> Fate:
    archived = job.state in ARCHIVED
    return {name: getattr(job, name) for name in _SAME_NAME} | {
        "archived": archived,
        "queue": job.queue,
        "tags": sorted(job.tags),
        "message": job.message,
        "errors": job.errors,
        "status": None if archived else model.status(job),
        "stream_id": None if archived else job.stream_id,
        "progress": job.progress,
        "forfeited_stream_id": job.forfeited_stream_id,
        "result": job.result,
    }
