"""Taking jobs out of the line, under a lease."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from holdfast.domain.job import ClaimedJob
from holdfast.store import arguments, arrays, rows
from holdfast.store.arguments import Duration
from holdfast.store.call import Call, Parameter, Rows, only_value, statement
from holdfast.store.values import LeasedJob


class Floor(NamedTuple):
    """A worker's memory of where the line begins: the place of a job among those of its priority."""

    priority: int
    available_at: datetime
    number: int


@dataclass(frozen=True, slots=True)
class ClaimTerms:
    """Who claims, from which queues and how, as it travels; the same for all the life of a stream."""

    worker_id: str
    queues: str
    lease_s: str | None
    tags: str | None
    stream_id: str | None

    def for_up_to(self, limit: int, *, least: int = 1) -> tuple[Parameter, ...]:
        """The parameters of one claim."""
        most = arguments.whole(limit, "limit", least=least)
        return self.worker_id, self.queues, most, self.lease_s, self.tags, self.stream_id


def claim_terms(
    worker_id: str,
    queues: Iterable[str],
    *,
    lease_s: Duration = 30.0,
    tags: Iterable[str] = (),
    stream_id: int | None = None,
) -> ClaimTerms:
    """The terms of claims; raise InvalidArgument for those on which nobody can claim."""
    asked = arguments.texts(tags, "tags")
    return ClaimTerms(
        arguments.text(worker_id, "worker_id"),
        arguments.queues(queues, "queues"),
        arguments.duration(lease_s, "lease_s", positive=True),
        arrays.of_texts(asked, "tags") if asked else None,  # null takes the engine's short ways
        arguments.whole(stream_id, "stream_id", least=-arguments.BIGINT - 1, most=arguments.BIGINT),
    )


_CLAIM_TERMS: Final = {
    "p_worker_id": "text",
    "p_queues": "text[]",
    "p_limit": "integer",
    "p_lease_seconds": "double precision",
    "p_tags": "text[]",
    "p_stream_id": "bigint",
    "p_sweep": "boolean",
    "p_floor_at": "timestamptz",
    "p_floor_id": "bigint",
    "p_floor_priority": "integer",
}
CLAIM_JOBS: Final = statement("claim_jobs", rows.CLAIMED_COLUMNS, **_CLAIM_TERMS, p_take_resources="boolean")
CLAIM_WAITING_JOB: Final = statement(
    "claim_waiting_job", rows.CLAIMED_COLUMNS, p_job_id="text", **_CLAIM_TERMS
)

GET_WORK: Final = statement(
    "get_work",
    "job_id, lease_id, next_need, singleton_key, wait_for, payload, available_at, lease_expires_at",
    p_worker_id="text",
    p_worker_caps="text[]",
    p_lease_seconds="integer",
    p_limit_jobs="integer",
)

JOBS_OF_STREAM: Final = statement("jobs_of_stream", rows.CLAIMED_COLUMNS, p_stream_id="bigint")

NEXT_DUE: Final = statement("next_due", p_queues="text[]")


def claim_jobs(
    worker_id: str,
    queues: Iterable[str],
    limit: int = 1,
    *,
    lease_s: Duration = 30.0,
    tags: Iterable[str] = (),
    stream_id: int | None = None,
    sweep: bool = True,
    floor: Floor | None = None,
    take_resources: bool = False,
    timeout_s: float | None = None,
) -> Call[list[ClaimedJob]]:
    """Claim up to `limit` jobs that have all these tags: by priority, then by due time, then as submitted.

    Overdue leases are swept first unless `sweep` is false; jobs before `floor`, of its priority, are not
    looked for. With `take_resources` jobs that take one resource get it if it is free, and whoever claims has
    to look.

    It is not repeated when its answer is lost: what it claimed comes back when the leases lapse.
    """
    terms = claim_terms(worker_id, queues, lease_s=lease_s, tags=tags, stream_id=stream_id)
    parameters = (
        *terms.for_up_to(limit),
        *sweep_terms(sweep, floor),
        arguments.flag(take_resources, "take_resources"),
    )
    return Call(CLAIM_JOBS, parameters, rows.claimed_jobs, idempotent=False, timeout_s=timeout_s)


def claim_waiting_job(
    job_id: str,
    worker_id: str,
    queues: Iterable[str],
    limit: int = 1,
    *,
    lease_s: Duration = 30.0,
    tags: Iterable[str] = (),
    stream_id: int | None = None,
    sweep: bool = True,
    floor: Floor | None = None,
    timeout_s: float | None = None,
) -> Call[list[ClaimedJob]]:
    """Claim this job, and if it cannot be had claim as `claim_jobs` does.

    For whoever heard that it is the only one: to look it up takes two thirds of the server's time.
    """
    terms = claim_terms(worker_id, queues, lease_s=lease_s, tags=tags, stream_id=stream_id)
    parameters = named_claim(terms, job_id, limit, sweep=sweep, floor=floor)
    return Call(CLAIM_WAITING_JOB, parameters, rows.claimed_jobs, idempotent=False, timeout_s=timeout_s)


def named_claim(
    terms: ClaimTerms, job_id: str, limit: int, *, sweep: bool, floor: Floor | None
) -> tuple[Parameter, ...]:
    """The parameters of `claim_waiting_job`."""
    return arguments.text(job_id, "job_id"), *terms.for_up_to(limit), *sweep_terms(sweep, floor)


def get_work(
    worker_id: str,
    worker_caps: Iterable[str],
    lease_s: Duration = 60,
    limit_jobs: int = 1,
    *,
    timeout_s: float | None = None,
) -> Call[list[LeasedJob]]:
    """Lease ready jobs whose need is among the worker's capabilities; whole seconds, rounded up.

    On the caller's own connection a call that finds nothing leaves the session listening for them, if signals
    are on. A store's own connections never listen.
    """
    parameters = (
        arguments.text(worker_id, "worker_id"),
        arguments.queues(worker_caps, "worker_caps"),
        arguments.whole_seconds(lease_s, "lease_s"),
        arguments.whole(limit_jobs, "limit_jobs"),
    )
    return Call(GET_WORK, parameters, _leased_jobs, idempotent=False, timeout_s=timeout_s, listens=True)


def next_due(queues: Iterable[str], *, timeout_s: float | None = None) -> Call[datetime | None]:
    """The next moment at which a job becomes due in these queues or a lease ends; None: nothing is known."""
    return Call(
        NEXT_DUE, (arguments.queues(queues, "queues"),), only_value, idempotent=True, timeout_s=timeout_s
    )


def jobs_of_stream(stream_id: int, *, timeout_s: float | None = None) -> Call[list[ClaimedJob]]:
    """List what a stream holds: for an owner that does not know whether its last claim took effect."""
    parameters = (
        arguments.whole(stream_id, "stream_id", least=-arguments.BIGINT - 1, most=arguments.BIGINT),
    )
    return Call(JOBS_OF_STREAM, parameters, rows.claimed_jobs, idempotent=True, timeout_s=timeout_s)


def sweep_terms(sweep: bool, floor: Floor | None) -> tuple[str, str | None, str | None, str | None]:
    sweeps = arguments.flag(sweep, "sweep")
    if floor is None:
        return sweeps, "-infinity", "0", None
    priority, available_at, number = floor
    return (
        sweeps,
        arguments.moment(available_at, "floor"),
        arguments.whole(number, "floor", least=0, most=arguments.BIGINT),
        arguments.whole(priority, "floor", least=-arguments.INTEGER - 1, most=arguments.INTEGER),
    )


def _leased_jobs(answer: Rows) -> list[LeasedJob]:
    return [
        LeasedJob(job_id, lease_id, queue, singleton_key, tuple(wait_for), payload, available_at, until)
        for job_id, lease_id, queue, singleton_key, wait_for, payload, available_at, until in answer
    ]
