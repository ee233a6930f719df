"""What travels between a worker and its children: a job to do, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from holdfast.domain.job import JsonValue

PERMANENT: Final = "PermanentError"
CANCELLED: Final = "JobCancelled"


@dataclass(frozen=True, slots=True)
class ChildRequest:
    """One execution of a job. `payload` and `meta` must be JSON; `meta` is for whoever makes the context."""

    job_id: str
    task: str
    payload: object
    attempt: int
    deadline_s: float | None
    """Seconds the handler has from its start; the child only tells the handler, the worker enforces it."""
    meta: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler returned; the result is what JSON makes of it."""

    result: JsonValue


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised, or the app could not be imported (`ran` is False)."""

    kind: str
    """The qualified name of the exception's class; built-in ones without their module."""
    message: str
    traceback: str
    control: Mapping[str, JsonValue] | None = None
    """What it asks for: `kind` (RetryAfter, Snooze, PermanentError, JobCancelled), `delay_s`, `reason`."""
    lineage: tuple[str, ...] = ()
    """The qualified names of the exception's class and of its bases, for policies that go by class."""
    ran: bool = True
    """False if the handler was never called: the job is as it was."""


@dataclass(frozen=True, slots=True)
class Died:
    """The child is gone, and nobody knows how far the handler came."""

    description: str
    """How it ended, e.g. "killed by SIGSEGV" or "exited with code 3"."""
    after: str | None = None
    """Why the worker had stopped it, if it had."""
    ran: bool = True
    """False if the handler was never called: the job is as it was."""


ChildReply: TypeAlias = Returned | Raised | Died
