"""A job on its way: as it is asked for, as a worker gets it, and as it is read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeAlias

from holdfast.domain.states import FINISHED, HELD, JobState, Status

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"
"""What JSON can say. Mappings must be dicts and sequences lists or tuples; `content.encode_json` checks."""

Content: TypeAlias = "JsonValue | bytes"
"""A payload or a result: a JSON value, equal when read back, or bytes, identical. None: there is none."""

IfParentFails: TypeAlias = Literal["wait", "cancel", "run"]
"""What a job does when one it waits for ends without completing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job somebody asks for. None means: the engine's own choice, or none.

    `available_at` is a moment a person means, `delay_s` counts from the database's own clock: give one.
    Without `if_parent_fails` the job waits for a dead parent and follows a cancelled one.
    """

    job_id: str | None = None
    queue: str = "default"
    task: str | None = None
    payload: Content = None
    priority: int = 0
    tags: Sequence[str] = ()
    available_at: datetime | None = None
    delay_s: float | None = None
    expires_at: datetime | None = None
    created_at: datetime | None = None
    max_attempts: int | None = None
    resource_keys: Sequence[str] = ()
    singleton_key: str | None = None
    wait_for: Sequence[str] = ()
    if_parent_fails: IfParentFails | None = None
    timeout_s: float | None = None
    retry: Mapping[str, JsonValue] | None = None


@dataclass(slots=True)
class ClaimedJob:
    """A job in a worker's hands. Whatever the worker writes about it names `lease_id`.

    Nobody changes it. That it could be is because a frozen one takes 3 µs longer to make, for every job.
    """

    job_id: str
    lease_id: str
    queue: str
    task: str | None
    payload: Content
    priority: int
    tags: tuple[str, ...]
    attempts: int
    max_attempts: int | None
    resource_keys: tuple[str, ...]
    singleton_key: str | None
    available_at: datetime
    lease_expires_at: datetime
    timeout_s: float | None
    retry: Mapping[str, JsonValue] | None
    created_at: datetime
    number: int
    """Its place in the order of submission; with `available_at` it tells a later claim where to start."""
    started_at: datetime
    last_retry_at: datetime | None
    expires_at: datetime | None
    error_message: str | None
    if_parent_fails: IfParentFails | None
    holds_resources: bool = False
    """Whether its resources were taken with the claim."""

    if TYPE_CHECKING:

        @property
        def id(self) -> str:
            """Its id, by the name that every kind of job has."""
            ...


if not TYPE_CHECKING:
    ClaimedJob.id = ClaimedJob.job_id  # the same slot: to read a property is a call, six times for each job


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """One counted failure. `attempt` is the number it had, from 1 again after a revival."""

    attempt: int
    at: datetime
    worker_id: str | None
    message: str
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a handler said it has come, and when it said so."""

    done: float
    total: float | None
    message: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as the engine knows it, live or archived. `status` is None where only the state was read."""

    job_id: str
    state: JobState
    status: Status | None = None
    queue: str
    task: str | None = None
    payload: Content = None
    result: Content = None
    priority: int = 0
    tags: tuple[str, ...] = ()
    created_at: datetime
    available_at: datetime
    expires_at: datetime | None = None
    started_at: datetime | None = None
    finalized_at: datetime | None = None
    attempts: int = 0
    max_attempts: int | None = None
    last_retry_at: datetime | None = None
    error_message: str | None = None
    last_error: str | None = None
    """The message, and the traceback below it if there was one."""
    errors: tuple[ErrorEntry, ...] = ()
    assignee_id: str | None = None
    assigned_at: datetime | None = None
    lease_id: str | None = None
    lease_expires_at: datetime | None = None
    lease_expiration_count: int = 0
    consecutive_expirations: int = 0
    wait_for: tuple[str, ...] = ()
    if_parent_fails: IfParentFails | None = None
    singleton_key: str | None = None
    resource_keys: tuple[str, ...] = ()
    timeout_s: float | None = None
    retry: Mapping[str, JsonValue] | None = None
    progress: Progress | None = None

    @property
    def is_held(self) -> bool:
        """Whether a worker holds it. `assignee_id` does not tell: it is kept for ever."""
        return self.state in HELD

    @property
    def is_finished(self) -> bool:
        """Whether it has ended, be it for the archive or DEAD."""
        return self.state in FINISHED

    @property
    def holder_id(self) -> str | None:
        """The worker that holds it now, or None."""
        return self.assignee_id if self.is_held else None
