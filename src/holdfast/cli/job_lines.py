"""Jobs as lines: a table and a full account for people, JSON by the names of the view `job_details`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from holdfast.cli.listing import Column
from holdfast.cli.safe import one_line
from holdfast.domain.job import Job

if TYPE_CHECKING:
    from holdfast.domain.job import Content

COLUMNS = (
    Column("job_id"),
    Column("state"),
    Column("queue"),
    Column("task", gives_way=True),
    Column("attempts", left_out=1),
    Column("created", left_out=2),
    Column("error", gives_way=True),
)

MOST_SHOWN = 60
"""How much of an error a table shows; `jobs show` has the rest."""


def as_json(job: Job) -> str:
    """One line of JSON."""
    from holdfast.console import shapes

    return shapes.encode(shapes.job(job))


def in_full(job: Job, children: Sequence[str] = ()) -> str:
    """Everything about one job that is not nothing, readable; `children` wait for it."""
    shown: list[tuple[str, str]] = [
        ("job", job.job_id),
        ("state", _state(job)),
        ("queue", job.queue),
        ("task", job.task or "-"),
        ("payload", _content(job.payload)),
    ]
    if job.result is not None:
        shown.append(("result", _content(job.result)))
    of = f" of {job.max_attempts}" if job.max_attempts is not None else ""
    shown.append(("attempts", f"{job.attempts}{of}"))
    if job.lease_expiration_count:
        shown.append(("leases lapsed", f"{job.lease_expiration_count}"))
    shown += [(name, value) for name, value in _optional(job).items() if value]
    if children:
        shown.append(("waited for by", ", ".join(children)))
    shown += [(name, _moment(value)) for name, value in _moments(job).items() if value is not None]
    width = max(len(name) for name, _ in shown)
    lines = [f"{name.ljust(width)}  {one_line(value)}" for name, value in shown]
    return "\n".join([*lines, *_errors(job)])


def _optional(job: Job) -> Mapping[str, str]:
    progress = job.progress
    return {
        "waits for": ", ".join(job.wait_for),
        "if parent fails": job.if_parent_fails or "" if job.wait_for else "",
        "worker": job.assignee_id or "",
        "priority": str(job.priority) if job.priority else "",
        "tags": ", ".join(job.tags),
        "singleton key": job.singleton_key or "",
        "resources": ", ".join(job.resource_keys),
        "timeout": f"{job.timeout_s:g} s" if job.timeout_s is not None else "",
        "retry": json.dumps(dict(job.retry)) if job.retry else "",
        "progress": (
            ""
            if progress is None
            else f"{progress.done:g}{'' if progress.total is None else f' of {progress.total:g}'}"
            f"{f', {progress.message}' if progress.message else ''} ({_moment(progress.at)})"
        ),
        # A failure is listed below with the others; what stopped or cancelled a job is only here.
        "error": "" if job.errors else job.error_message or "",
    }


def _moments(job: Job) -> Mapping[str, datetime | None]:
    return {
        "created": job.created_at,
        "available": job.available_at if job.available_at > job.created_at else None,
        "expires": job.expires_at,
        "started": job.started_at,
        "lease until": job.lease_expires_at if job.is_held else None,
        "ended": job.finalized_at,
    }


def _errors(job: Job) -> list[str]:
    lines: list[str] = []
    for error in job.errors:
        by = f" on {error.worker_id}" if error.worker_id else ""
        lines += ["", one_line(f"attempt {error.attempt}, {_moment(error.at)}{by}: {error.message}")]
        lines += [f"    {one_line(line)}" for line in (error.traceback or "").rstrip().splitlines()]
    return lines


def cells(job: Job, *, short: bool = False) -> tuple[str, ...]:
    """A job in a table; short: as people need it who see their own clock."""
    error = (job.error_message or "").partition("\n")[0]
    if len(error) > MOST_SHOWN:
        error = f"{error[: MOST_SHOWN - 1]}…"
    of = f"/{job.max_attempts}" if job.max_attempts is not None else ""
    attempts = f"{job.attempts}{of}"
    created = f"{job.created_at.astimezone():%Y-%m-%d %H:%M:%S}" if short else _moment(job.created_at)
    return (job.job_id, _state(job), job.queue, job.task or "-", attempts, created, error)


def _state(job: Job) -> str:
    """Where it stands, and whether it could run now if that is another matter."""
    status = job.status
    return str(job.state) if status is None or status.value == job.state.value else f"{job.state} ({status})"


def _content(content: Content) -> str:
    return f"{len(content)} bytes" if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False)


def _moment(moment: datetime) -> str:
    return moment.astimezone().isoformat(" ", "seconds")
