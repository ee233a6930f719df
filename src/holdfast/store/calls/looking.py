"""Questions that no function of the engine answers alone: asked of its views, or of a function many times.

The labels are ours; behind each stands what the roles of readers and operators may use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from holdfast.domain.job import Job
from holdfast.domain.states import JobState
from holdfast.errors import InvalidArgument
from holdfast.store import arguments, rows
from holdfast.store.call import Call, Parameter, Rows, Statement, only_value

JOB_STATE: Final = Statement("job_state", "select state::text from {schema}.get_job(p_job_id => %s::text)")

REVIVE_JOBS: Final = Statement(
    "revive_jobs",
    "select count({schema}.revive_job(p_job_id => given.job_id)) from unnest(%s::text[]) as given (job_id)",
)

QUEUE_HOLDERS: Final = Statement(
    "queue_holders",
    "select array_agg(distinct assignee_id) from {schema}.jobs_with_status "
    "where number = any (array(select {schema}.held_jobs(p_queue => %s::text))) "
    "and state in ('RUNNING', 'CANCELLING') and lease_expires_at > clock_timestamp()",
)

QUEUE_SERVERS: Final = Statement(
    "queue_servers",
    "select array_agg(worker_id) from {schema}.workers where %s::text = any (queues) and stopped_at is null "
    "and seen_at > {schema}._clock() - %s::double precision * interval '1 second'",
)

_FILTERS: Final = {
    "state": "state = %s::{schema}.job_state",
    "queue": "next_need = %s::text",
    "task": "task = %s::text",
    "tags": "tags @> %s::text[]",
}


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs to list: those to which all that is given applies."""

    state: JobState | str | None = None
    queue: str | None = None
    task: str | None = None
    tags: Iterable[str] = ()


def job_state(job_id: str, *, timeout_s: float | None = None) -> Call[JobState | None]:
    """Where a job stands; None if there is none."""
    parameters = (arguments.text(job_id, "job_id"),)
    return Call(JOB_STATE, parameters, _state_or_none, idempotent=True, timeout_s=timeout_s)


def list_jobs(wanted: Filter, limit: int = 100, *, timeout_s: float | None = None) -> Call[list[Job]]:
    """List jobs, live and archived, the latest submitted first."""
    given = _given(wanted)
    where = " and ".join(_FILTERS[name] for name in given) or "true"
    # Which, then what: sorted with all their columns, the latest hundred of 10,000 live jobs took 100 ms; so,
    # of 35,000, half of that. Every part is written here; what callers give travels as parameters.
    sql = (
        f"select {rows.JOB_COLUMNS} from (select number from {{schema}}.job_details where {where} "  # noqa: S608
        "order by number desc limit %s::integer) as found cross join lateral "
        "(select * from {schema}.job_details as job where job.number = found.number offset 0) as details "
        "order by found.number desc"
    )
    parameters = (*given.values(), arguments.whole(limit, "limit"))
    label = f"list_jobs by {', '.join(given) or 'nothing'}"
    return Call(Statement(label, sql), parameters, rows.jobs, idempotent=True, timeout_s=timeout_s)


def revive_jobs(job_ids: Iterable[str], *, timeout_s: float | None = None) -> Call[int]:
    """Bring dead jobs back, all or none; answer how many."""
    parameters = (arguments.text_array(job_ids, "job_ids"),)
    return Call(REVIVE_JOBS, parameters, only_value, idempotent=False, timeout_s=timeout_s)


def queue_holders(queue: str, *, timeout_s: float | None = None) -> Call[list[str]]:
    """The workers that hold a job of this queue right now. A worker with nothing to do holds none."""
    parameters = (arguments.queue(queue, "queue"),)
    return Call(QUEUE_HOLDERS, parameters, _names, idempotent=True, timeout_s=timeout_s)


def queue_servers(queue: str, lost_s: float, *, timeout_s: float | None = None) -> Call[list[str]]:
    """The workers that say they take from this queue, and have said so within so many seconds."""
    parameters = (arguments.queue(queue, "queue"), arguments.duration(lost_s, "lost_s", positive=True))
    return Call(QUEUE_SERVERS, parameters, _names, idempotent=True, timeout_s=timeout_s)


def _given(wanted: Filter) -> dict[str, Parameter]:
    given: dict[str, Parameter] = {}
    if wanted.state is not None:
        given["state"] = _state(wanted.state)
    if wanted.queue is not None:
        given["queue"] = arguments.queue(wanted.queue, "queue")
    if wanted.task is not None:
        given["task"] = arguments.text(wanted.task, "task")
    if tags := arguments.texts(wanted.tags, "tags"):
        given["tags"] = arguments.text_array(tags, "tags")
    return given


def _state(state: str) -> str:
    try:
        return JobState(state).value
    except ValueError:
        names = ", ".join(each.value for each in JobState)
        raise InvalidArgument(f"state must be one of {names}, not {state!r}") from None


def _state_or_none(answer: Rows) -> JobState | None:
    return JobState(answer[0][0]) if answer else None


def _names(answer: Rows) -> list[str]:
    return sorted(answer[0][0] or ())
