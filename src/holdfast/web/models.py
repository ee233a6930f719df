"""What is answered, for the document of the API. `console.shapes` makes it; a test compares the two."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.domain.states import JobState, Status


class Answer(BaseModel):
    """Members may be added in later releases."""

    model_config = ConfigDict(extra="allow")


class Ok(Answer):
    ok: Literal[True]


class Error(Answer):
    attempt: int
    at: datetime
    worker_id: str | None
    message: str
    traceback: str | None


class Progress(Answer):
    done: float
    total: float | None
    message: str | None
    at: datetime


class Job(Answer):
    """A job by the names of the view `job_details`; bytes are base64."""

    job_id: str
    state: JobState
    status: Status | JobState = Field(description="Whether it could run now; of one that ended, its state.")
    next_need: str = Field(description="Its queue.")
    task: str | None
    payload: Any
    payload_bytes: str | None
    result: Any
    result_bytes: str | None
    priority: int
    tags: list[str]
    created_at: datetime
    available_at: datetime
    expires_at: datetime | None
    started_at: datetime | None
    finalized_at: datetime | None
    attempts: int
    max_attempts: int | None
    last_retry_at: datetime | None
    error_message: str | None
    last_error: str | None
    errors: list[Error]
    assignee_id: str | None
    assigned_at: datetime | None
    lease_id: str | None
    lease_expires_at: datetime | None
    lease_expiration_count: int
    consecutive_expirations: int
    wait_for: list[str]
    if_parent_fails: Literal["wait", "cancel", "run"] | None
    singleton_key: str | None
    resource_keys: list[str]
    timeout_s: float | None
    retry: dict[str, Any] | None
    progress: Progress | None


class ListedJob(Job):
    """In lists large content and the history of errors are left out."""

    left_out: list[Literal["payload", "payload_bytes", "result", "result_bytes", "errors"]]


class Relative(Answer):
    job_id: str
    state: JobState
    status: Status | JobState
    next_need: str
    task: str | None
    created_at: datetime
    finalized_at: datetime | None


class Event(Answer):
    job_id: str
    event: str
    worker_id: str | None
    at: datetime
    given: dict[str, Any]
    became: dict[str, Any]


class Trace(Answer):
    level: Literal["off", "exceptions", "all"] = Field(description="How much is traced.")
    events: list[Event]


class JobView(Job):
    parents: list[Relative]
    children: list[Relative]
    trace: Trace


class Page(Answer):
    jobs: list[ListedJob]
    next: str | None
    complete: bool


class Count(Answer):
    count: int
    capped: bool


class Submitted(Answer):
    id: str


class SubmittedMany(Answer):
    ids: list[str]


class Changed(Answer):
    job_id: str
    state: JobState


class Deleted(Answer):
    job_id: str
    deleted: Literal[True]


class DryRun(Answer):
    count: int
    capped: bool
    snapshot: str
    samples: list[ListedJob]


class Started(Answer):
    operation: str


class Operation(Answer):
    operation: str
    action: Literal["cancel", "revive", "delete"]
    q: str
    by: str
    state: Literal["running", "done", "stopped", "failed"]
    done: int
    refused: int
    total: int | None = Field(description="Not known if it was not counted to the end.")
    reason: str | None = Field(description="Why one was refused, or why it failed.")
    began_at: datetime
    ended_at: datetime | None


class DeadGroup(Answer):
    fingerprint: str
    error: str | None
    task: str | None
    count: int
    capped: bool
    first_at: datetime
    last_at: datetime
    sample_id: str
    q: str


class DeadGroups(Answer):
    groups: list[DeadGroup]
    capped: bool


class Queue(Answer):
    queue: str
    due: int
    delayed: int
    blocked: int
    held: int
    dead: int
    oldest_due_at: datetime | None
    paused_at: datetime | None
    max_running: int | None = Field(description="The most that may be held at once; null: no limit.")
    counted_to: int = Field(description="Numbers go no further than this.")


class Queues(Answer):
    at: datetime
    queues: list[Queue]


class Paused(Answer):
    queue: str
    paused: bool
    changed: bool


class Limit(Answer):
    queue: str
    limit: int | None


class Worker(Answer):
    worker_id: str
    status: Literal["busy", "idle", "lost"]
    jobs: int
    cancelling: int
    lapsed: int
    queues: list[str]
    oldest_at: datetime | None
    seen_at: datetime
    lease_until: datetime | None
    job_ids: list[str]
    host: str | None
    pid: int | None
    version: str | None
    capacity: int | None
    started_at: datetime | None


class Workers(Answer):
    at: datetime
    workers: list[Worker]


class Holder(Answer):
    job_id: str | None
    worker_id: str | None
    since: datetime


class Resource(Answer):
    kind: Literal["resource", "singleton"]
    key: str
    capacity: int
    holders: list[Holder]
    waiting: int


class Resources(Answer):
    resources: list[Resource]


class Capacity(Answer):
    key: str
    capacity: int


class Stats(Answer):
    at: datetime
    due: int
    delayed: int
    blocked: int
    held: int
    dead: int
    oldest_due_at: datetime | None
    paused: list[str]
    ended_last_minute: dict[str, int]
    ended_last_hour: dict[str, int]
    archived_about: int
    capped: bool


class Point(Answer):
    at: datetime
    completed: int
    dead: int
    cancelled: int
    expired: int
    wait_p50_ms: float | None
    wait_p95_ms: float | None
    run_p50_ms: float | None
    run_p95_ms: float | None
    depth: int | None = Field(description="The most that were due when somebody looked; null: nobody did.")
    oldest_s: float | None


class History(Answer):
    at: datetime
    step_s: float
    points: list[Point]


class Finding(Answer):
    level: Literal["OK", "NOTE", "PROBLEM"]
    check: str
    says: str
    fix: str | None


class Health(Answer):
    ok: bool
    sentence: str
    findings: list[Finding]


class Doctor(Answer):
    ok: bool
    findings: list[Finding]


class Me(Answer):
    name: str
    role: Literal["viewer", "operator", "admin"]
    schema_: str = Field(alias="schema")
    version: str


class LoggedOut(Answer):
    ok: Literal[True]
