"""What a stream is asked for, checked when it is asked."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.errors import InvalidArgument
from holdfast.queue import checks
from holdfast.store import arguments
from holdfast.store.arguments import Duration
from holdfast.store.calls.claiming import ClaimTerms, claim_terms


@dataclass(frozen=True, slots=True)
class Terms:
    """What a stream asks for. Fixed for its life."""

    stream_id: int
    assignee_id: str
    queues: tuple[str, ...]
    tags: tuple[str, ...]
    capacity: int
    lease_s: float
    claiming: ClaimTerms
    """The same, as claims say it."""
    for_worker: bool = False
    """A worker's stream hands undelivered jobs back as RESCHEDULED, others as FAILED_RETRY."""


def stream_terms(
    assignee_id: checks.WorkerId,
    tags: Iterable[str] | None,
    max_assigned_jobs: int,
    queues: Iterable[str],
    lease: Duration,
    *,
    for_worker: bool = False,
) -> Terms:
    """The terms of a new stream; raise InvalidArgument for what no stream can have."""
    capacity = arguments.whole_number(max_assigned_jobs, "max_assigned_jobs", least=1)
    named = checks.distinct(queues, "queues")
    if not named:
        raise InvalidArgument("queues must name at least one queue; without it a stream reads from 'default'")
    # Unique over all processes: it stands on the row of a job whose slot was forfeited.
    stream_id = secrets.randbits(62)
    worker_id = checks.worker(assignee_id, "assignee_id")
    places = tuple(arguments.queue(name, "queues") for name in named)
    wanted = tuple(sorted(checks.distinct(tags, "tags")))
    lease_s = arguments.seconds(lease, "lease", positive=True)
    claiming = claim_terms(worker_id, places, lease_s=lease_s, tags=wanted, stream_id=stream_id)
    return Terms(stream_id, worker_id, places, wanted, capacity, lease_s, claiming, for_worker)
