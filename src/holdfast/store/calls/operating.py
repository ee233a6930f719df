"""Resources, queues and the switches of an installation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.errors import InvalidArgument
from holdfast.store import arguments
from holdfast.store.arguments import Duration
from holdfast.store.call import Call, Rows, only_value, statement

TRACE_LEVELS: Final = ("off", "exceptions", "all")

ACQUIRE_RESOURCES: Final = statement(
    "acquire_resources", p_job_id="text", p_keys="text[]", p_lease_id="text", p_worker_id="text"
)
RELEASE_RESOURCES: Final = statement(
    "release_resources", p_job_id="text", p_keys="text[]", p_lease_id="text", p_worker_id="text"
)
SET_RESOURCE_CAPACITY: Final = statement("set_resource_capacity", p_key="text", p_capacity="integer")
RESOURCE_CAPACITY: Final = statement("resource_capacity", p_key="text")
PAUSE_QUEUE: Final = statement("pause_queue", p_queue="text")
RESUME_QUEUE: Final = statement("resume_queue", p_queue="text")
SET_QUEUE_LIMIT: Final = statement("set_queue_limit", p_queue="text", p_limit="integer")
SET_TRACE: Final = statement("set_trace", p_enabled="boolean")
IS_TRACE_ENABLED: Final = statement("is_trace_enabled")
SET_TRACE_LEVEL: Final = statement("set_trace_level", p_level="text")
TRACE_LEVEL: Final = statement("trace_level")
SET_NOTIFY: Final = statement("set_notify", p_enabled="boolean")
IS_NOTIFY_ENABLED: Final = statement("is_notify_enabled")
SET_CRASH_CONCERN_THRESHOLD: Final = statement("set_crash_concern_threshold", p_threshold="integer")
CRASH_CONCERN_THRESHOLD: Final = statement("crash_concern_threshold")
SET_ARCHIVE_RETENTION: Final = statement("set_archive_retention", p_seconds="double precision")
ARCHIVE_RETENTION: Final = statement("archive_retention")
UPKEEP: Final = statement("upkeep")
REPORT_WORKER: Final = statement(
    "report_worker",
    p_worker_id="text",
    p_queues="text[]",
    p_capacity="integer",
    p_host="text",
    p_pid="integer",
    p_version="text",
    p_running_seconds="double precision",
    p_stopped="boolean",
)


def acquire_resources(
    job_id: str,
    keys: Iterable[str],
    *,
    lease_id: str | None = None,
    worker_id: str | None = None,
    timeout_s: float | None = None,
) -> Call[list[str]]:
    """Take all of these resources for a running job, or none; answer the busy ones, so empty means held."""
    parameters = _of_job(job_id, keys, lease_id, worker_id)
    fenced = lease_id is not None
    return Call(ACQUIRE_RESOURCES, parameters, only_value, idempotent=fenced, timeout_s=timeout_s)


def release_resources(
    job_id: str,
    keys: Iterable[str] | None = None,
    *,
    lease_id: str | None = None,
    worker_id: str | None = None,
    timeout_s: float | None = None,
) -> Call[int]:
    """Give resources back before the lease ends, all if none are named; answer how many were held."""
    parameters = _of_job(job_id, keys, lease_id, worker_id)
    return Call(RELEASE_RESOURCES, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def set_resource_capacity(key: str, capacity: int, *, timeout_s: float | None = None) -> Call[int]:
    """Say how many jobs may hold a resource at once."""
    parameters = (arguments.text(key, "key"), arguments.whole(capacity, "capacity"))
    return Call(SET_RESOURCE_CAPACITY, parameters, only_value, idempotent=True, timeout_s=timeout_s)


def resource_capacity(key: str, *, timeout_s: float | None = None) -> Call[int]:
    """How many jobs may hold a resource at once: 1 unless somebody said otherwise."""
    parameters = (arguments.text(key, "key"),)
    return Call(RESOURCE_CAPACITY, parameters, only_value, idempotent=True, timeout_s=timeout_s)


def pause_queue(queue: str, *, timeout_s: float | None = None) -> Call[bool]:
    """Let no job of a queue be claimed; False if it was paused before."""
    parameters = (arguments.queue(queue, "queue"),)
    return Call(PAUSE_QUEUE, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def resume_queue(queue: str, *, timeout_s: float | None = None) -> Call[bool]:
    """Let jobs of a queue be claimed again; False if it was not paused."""
    parameters = (arguments.queue(queue, "queue"),)
    return Call(RESUME_QUEUE, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def set_queue_limit(queue: str, limit: int | None, *, timeout_s: float | None = None) -> Call[int | None]:
    """Let at most so many jobs of a queue be held at once, over all workers; None: as many as there are."""
    parameters = (arguments.queue(queue, "queue"), arguments.whole(limit, "limit"))
    return Call(SET_QUEUE_LIMIT, parameters, only_value, idempotent=True, timeout_s=timeout_s)


def set_trace(enabled: bool, *, timeout_s: float | None = None) -> Call[bool]:
    """Trace everything, or nothing, in the whole installation."""
    return Call(
        SET_TRACE, (arguments.flag(enabled, "enabled"),), only_value, idempotent=True, timeout_s=timeout_s
    )


def is_trace_enabled(*, timeout_s: float | None = None) -> Call[bool]:
    """Whether anything is traced."""
    return Call(IS_TRACE_ENABLED, (), only_value, idempotent=True, timeout_s=timeout_s)


def set_trace_level(level: str, *, timeout_s: float | None = None) -> Call[str]:
    """Trace nothing (off), everything but the happy path (exceptions), or everything (all)."""
    if level not in TRACE_LEVELS:
        raise InvalidArgument(f"level must be off, exceptions or all, not {level!r}")
    return Call(SET_TRACE_LEVEL, (level,), only_value, idempotent=True, timeout_s=timeout_s)


def trace_level(*, timeout_s: float | None = None) -> Call[str]:
    """What is traced: off, exceptions or all."""
    return Call(TRACE_LEVEL, (), only_value, idempotent=True, timeout_s=timeout_s)


def set_notify(enabled: bool, *, timeout_s: float | None = None) -> Call[bool]:
    """Switch signals on or off in the whole installation; without them workers poll."""
    return Call(
        SET_NOTIFY, (arguments.flag(enabled, "enabled"),), only_value, idempotent=True, timeout_s=timeout_s
    )


def is_notify_enabled(*, timeout_s: float | None = None) -> Call[bool]:
    """Whether signals are sent."""
    return Call(IS_NOTIFY_ENABLED, (), only_value, idempotent=True, timeout_s=timeout_s)


def set_crash_concern_threshold(threshold: int, *, timeout_s: float | None = None) -> Call[int]:
    """Say how many lapsed leases in a row set a job aside."""
    parameters = (arguments.whole(threshold, "threshold"),)
    return Call(SET_CRASH_CONCERN_THRESHOLD, parameters, only_value, idempotent=True, timeout_s=timeout_s)


def crash_concern_threshold(*, timeout_s: float | None = None) -> Call[int]:
    """How many lapsed leases in a row set a job aside."""
    return Call(CRASH_CONCERN_THRESHOLD, (), only_value, idempotent=True, timeout_s=timeout_s)


def set_archive_retention(seconds: Duration | None, *, timeout_s: float | None = None) -> Call[float | None]:
    """Say how long finished jobs are kept, DEAD ones excepted; None: for ever."""
    parameters = (arguments.duration(seconds, "seconds", positive=True),)
    return Call(SET_ARCHIVE_RETENTION, parameters, only_value, idempotent=True, timeout_s=timeout_s)


def archive_retention(*, timeout_s: float | None = None) -> Call[float | None]:
    """For how many seconds finished jobs are kept; None: for ever."""
    return Call(ARCHIVE_RETENTION, (), only_value, idempotent=True, timeout_s=timeout_s)


def report_worker(
    worker_id: str,
    queues: Iterable[str],
    capacity: int,
    *,
    host: str | None = None,
    pid: int | None = None,
    version: str | None = None,
    running_s: Duration = 0.0,
    stopped: bool = False,
    timeout_s: float | None = None,
) -> Call[None]:
    """Say that a worker is there, or has stopped; after half a minute without a word it counts as lost."""
    parameters = (
        arguments.text(worker_id, "worker_id"),
        arguments.queues(queues, "queues"),
        arguments.whole(capacity, "capacity"),
        arguments.optional_text(host, "host"),
        arguments.whole(pid, "pid", least=0),
        arguments.optional_text(version, "version"),
        arguments.duration(running_s, "running_s"),
        arguments.flag(stopped, "stopped"),
    )
    return Call(REPORT_WORKER, parameters, _nothing, idempotent=True, timeout_s=timeout_s)


def upkeep(*, timeout_s: float | None = None) -> Call[bool]:
    """Do what has to be done every few seconds, unless somebody did it just now; True if there is more."""
    return Call(UPKEEP, (), only_value, idempotent=True, timeout_s=timeout_s)


def _nothing(_: Rows) -> None:
    """A function that returns void."""


def _of_job(
    job_id: str, keys: Iterable[str] | None, lease_id: str | None, worker_id: str | None
) -> tuple[str | None, ...]:
    return (
        arguments.text(job_id, "job_id"),
        arguments.text_array(keys, "keys"),
        arguments.optional_text(lease_id, "lease_id"),
        arguments.optional_text(worker_id, "worker_id"),
    )
