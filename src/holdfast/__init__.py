"""Holdfast: a PostgreSQL-native job engine. The engine is SQL in your own database; Python is the hands."""

from typing import TYPE_CHECKING

from holdfast import errors

if TYPE_CHECKING:
    from holdfast.app import Holdfast
    from holdfast.client import JobHandle
    from holdfast.domain.control import PermanentError, RetryAfter, Snooze
    from holdfast.domain.retry import Retry
    from holdfast.errors import JobCancelled, JobFailed
    from holdfast.queue import Job, JobStats, JobStatus, Queue, SyncQueue, Verdict
    from holdfast.tasks import AsyncTask, JobContext, JobSpec, SyncTask, Task, current_job

__version__ = "0.1.0"

__all__ = [
    "AsyncTask",
    "Holdfast",
    "Job",
    "JobCancelled",
    "JobContext",
    "JobFailed",
    "JobHandle",
    "JobSpec",
    "JobStats",
    "JobStatus",
    "PermanentError",
    "Queue",
    "Retry",
    "RetryAfter",
    "Snooze",
    "SyncQueue",
    "SyncTask",
    "Task",
    "Verdict",
    "current_job",
    "errors",
]

_HOMES = {
    "AsyncTask": "holdfast.tasks",
    "Holdfast": "holdfast.app",
    "Job": "holdfast.queue",
    "JobCancelled": "holdfast.errors",
    "JobContext": "holdfast.tasks",
    "JobFailed": "holdfast.errors",
    "JobHandle": "holdfast.client",
    "JobSpec": "holdfast.tasks",
    "JobStats": "holdfast.queue",
    "JobStatus": "holdfast.queue",
    "PermanentError": "holdfast.domain.control",
    "Queue": "holdfast.queue",
    "Retry": "holdfast.domain.retry",
    "RetryAfter": "holdfast.domain.control",
    "Snooze": "holdfast.domain.control",
    "SyncQueue": "holdfast.queue",
    "SyncTask": "holdfast.tasks",
    "Task": "holdfast.tasks",
    "Verdict": "holdfast.queue",
    "current_job": "holdfast.tasks",
}
"""Where the public names live. Each is imported when it is asked for: `import holdfast` brings no driver."""

if not TYPE_CHECKING:  # a checker would take any name for one that is there

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
