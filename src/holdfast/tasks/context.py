"""What a handler can ask and say about the job it runs for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from datetime import datetime
from typing import Any, Final

from holdfast.errors import JobCancelled, NoCurrentJob


class JobContext(ABC):
    """The job a handler runs for. Get it as first argument with `context=True`, or from `current_job()`.

    May be used from any thread that works for the job.
    """

    __slots__ = ()

    job_id: str
    attempt: int
    """Which attempt this is, the first being 1: one more than failures were counted."""
    deadline: datetime | None
    """When the handler will be timed out; None: never."""
    tags: Sequence[str]

    @abstractmethod
    def cancelled(self) -> bool:
        """Whether the handler is to stop: somebody cancelled the job, it timed out, or its lease was lost."""

    @abstractmethod
    def shutting_down(self) -> bool:
        """Whether the worker is about to stop, and would like the handler to end soon."""

    @abstractmethod
    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far it has come. Written at most once a second, the last value always."""

    @abstractmethod
    def log(self, message: str, **fields: Any) -> None:
        """Write a line to the worker's log that names the job."""

    def check_cancelled(self) -> None:
        """Raise JobCancelled if the handler is to stop."""
        if self.cancelled():
            raise JobCancelled(f"job {self.job_id} is to stop")


class DirectCall(JobContext):
    """The context of a task that is called like a plain function: there is no job, and nobody cancels it."""

    def __init__(self) -> None:
        self.job_id = "direct-call"
        self.attempt = 1
        self.deadline = None
        self.tags = ()

    def cancelled(self) -> bool:
        return False

    def shutting_down(self) -> bool:
        return False

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        pass

    def log(self, message: str, **fields: Any) -> None:
        pass


_current: Final[ContextVar[JobContext | None]] = ContextVar("holdfast_current_job", default=None)


def current_job() -> JobContext:
    """The job this code runs for; raise NoCurrentJob where there is none."""
    job = _current.get()
    if job is None:
        raise NoCurrentJob(
            "current_job() was called outside of a job: it works in a handler that a worker runs, and in "
            "threads the handler starts only if they are given its context"
        )
    return job


def current_job_or_none() -> JobContext | None:
    """The job this code runs for, or None."""
    return _current.get()


def set_current_job(job: JobContext) -> Token[JobContext | None]:
    """For workers: what `current_job()` answers from here on, in this thread or task."""
    return _current.set(job)


def reset_current_job(token: Token[JobContext | None]) -> None:
    """For workers: undo `set_current_job`."""
    _current.reset(token)


@contextmanager
def running(job: JobContext) -> Generator[JobContext]:
    """For workers: `current_job()` answers this one within the block."""
    token = set_current_job(job)
    try:
        yield job
    finally:
        reset_current_job(token)
