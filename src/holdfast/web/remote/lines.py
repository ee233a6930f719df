"""How the lines of a stream are written: as NDJSON, or as server-sent events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from holdfast.console import shapes
from holdfast.queue.values import Job

Line: TypeAlias = dict[str, Any]
"""One message to the client; `type` says what it is about."""

Write: TypeAlias = Callable[[Line], bytes]

NDJSON: Final = "application/x-ndjson"
EVENTS: Final = "text/event-stream"


def as_ndjson(line: Line) -> bytes:
    return shapes.encode(line).encode() + b"\n"


def as_event(line: Line) -> bytes:
    return f"event: {line['type']}\ndata: {shapes.encode(line)}\n\n".encode()


WAYS: Final[dict[str, Write]] = {NDJSON: as_ndjson, EVENTS: as_event}


def way_for(accept: str) -> str | None:
    """The media type for an Accept header; None if it takes neither. NDJSON unless events come first."""
    asked = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    for media in asked:
        if media in WAYS:
            return media
    return NDJSON if {"*/*", "application/*", ""} & set(asked) else None


def job_line(job: Job) -> Line:
    """A job for whoever is to run it: by the names it has everywhere, nothing redacted."""
    is_bytes = isinstance(job.job_definition, bytes)
    return {
        "type": "job",
        "job": {
            "job_id": job.id,
            "lease_id": job.lease_id,
            "lease_expires_at": job.lease_expires_at,
            "queue": job.queue,
            "task": job.job_type or None,
            "payload": None if is_bytes else job.job_definition,
            "payload_bytes": job.job_definition if is_bytes else None,
            "tags": list(job.tags),
            "priority": job.priority,
            "attempts": job.retry_count,
            "max_attempts": job.max_attempts,
            "assignee_id": job.assignee_id,
            "assigned_at": job.assigned_at,
            "available_at": job.available_at,
            "created_at": job.created_at,
            "started_at": job.started_at,
            "last_retry_at": job.last_retry_at,
            "expires_at": job.expires_at,
            "error_message": job.error_message,
            "singleton_key": job.singleton_key,
            "resource_keys": list(job.resource_keys),
        },
    }
