"""Reading jobs, live and archived."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.domain.job import Job
from holdfast.domain.states import JobState
from holdfast.store import arguments, rows
from holdfast.store.arguments import Duration
from holdfast.store.call import Call, Rows, statement
from holdfast.store.values import HistoryStep, JobStats, QueueStats

GET_JOB: Final = statement("get_job", rows.JOB_COLUMNS, p_job_id="text")
LIST_STUCK_JOBS: Final = statement(
    "list_stuck_jobs", rows.JOB_COLUMNS, p_stale_seconds="double precision", p_limit="integer"
)
LIST_DEAD_JOBS: Final = statement("list_dead_jobs", rows.JOB_COLUMNS, p_queue="text", p_limit="integer")
GET_JOB_STATS: Final = statement(
    "get_job_stats",
    "total_jobs, pending_jobs, running_jobs, completed_jobs, stopped_jobs, failed_jobs, total_retries",
    p_tags="text[]",
)

GET_QUEUE_STATS: Final = statement(
    "get_queue_stats",
    "queue, paused_at, due_jobs, delayed_jobs, blocked_jobs, held_jobs, dead_jobs, oldest_due_at, "
    "max_running",
    p_limit="integer",
)
COUNT_ENDED_JOBS: Final = statement(
    "count_ended_jobs", "state::text, jobs", p_within_seconds="double precision", p_limit="integer"
)
LIST_WAITING_JOBS: Final = statement(
    "list_waiting_jobs", rows.JOB_COLUMNS, p_job_id="text", p_limit="integer"
)
GET_HISTORY: Final = statement(
    "get_history",
    "at, completed, dead, cancelled, expired, waits, runs, depth, oldest_s",
    p_minutes="integer",
    p_step_minutes="integer",
    p_queue="text",
)
TAGGED_JOBS: Final = statement("tagged_jobs", p_tags="text[]", p_limit="integer")
HELD_JOBS: Final = statement("held_jobs", p_queue="text", p_limit="integer")


def get_job(job_id: str, *, timeout_s: float | None = None) -> Call[Job | None]:
    """Read one job, wherever it is; None if there is none."""
    parameters = (arguments.text(job_id, "job_id"),)
    return Call(GET_JOB, parameters, rows.job_or_none, idempotent=True, timeout_s=timeout_s)


def list_stuck_jobs(
    stale_s: Duration, limit: int = 1000, *, timeout_s: float | None = None
) -> Call[list[Job]]:
    """List held jobs whose last claim or extension is this long ago, the oldest first."""
    parameters = (arguments.duration(stale_s, "stale_s", positive=True), arguments.whole(limit, "limit"))
    return Call(LIST_STUCK_JOBS, parameters, rows.jobs, idempotent=True, timeout_s=timeout_s)


def list_dead_jobs(
    queue: str | None = None, limit: int = 1000, *, timeout_s: float | None = None
) -> Call[list[Job]]:
    """List dead jobs of one queue or of all, the latest first."""
    parameters = (arguments.optional_text(queue, "queue"), arguments.whole(limit, "limit"))
    return Call(LIST_DEAD_JOBS, parameters, rows.jobs, idempotent=True, timeout_s=timeout_s)


def get_job_stats(tags: Iterable[str] = (), *, timeout_s: float | None = None) -> Call[JobStats]:
    """Count the jobs that have all these tags; without tags, all jobs."""
    parameters = (arguments.text_array(tags, "tags"),)
    return Call(GET_JOB_STATS, parameters, _stats, idempotent=True, timeout_s=timeout_s)


def get_queue_stats(limit: int = 10_000, *, timeout_s: float | None = None) -> Call[list[QueueStats]]:
    """How long each line is and since when its first waits; no number is counted further than the limit."""
    parameters = (arguments.whole(limit, "limit"),)
    return Call(GET_QUEUE_STATS, parameters, _queue_stats, idempotent=True, timeout_s=timeout_s)


def tagged_jobs(
    tags: Iterable[str], limit: int = 10_000, *, timeout_s: float | None = None
) -> Call[list[int]]:
    """The numbers of jobs that have all these tags, in no order; as many as the limit means: maybe more."""
    parameters = (arguments.text_array(tags, "tags"), arguments.whole(limit, "limit"))
    return Call(TAGGED_JOBS, parameters, _numbers, idempotent=True, timeout_s=timeout_s)


def held_jobs(
    queue: str | None = None, limit: int = 100_000, *, timeout_s: float | None = None
) -> Call[list[int]]:
    """The numbers of jobs that are held, of one queue or of all, in no order."""
    parameters = (arguments.optional_text(queue, "queue"), arguments.whole(limit, "limit"))
    return Call(HELD_JOBS, parameters, _numbers, idempotent=True, timeout_s=timeout_s)


def count_ended_jobs(
    seconds: Duration, limit: int = 100_000, *, timeout_s: float | None = None
) -> Call[dict[JobState, int]]:
    """How many jobs ended within the last seconds, by how they ended, counted up to the limit."""
    parameters = (arguments.duration(seconds, "seconds", positive=True), arguments.whole(limit, "limit"))
    return Call(COUNT_ENDED_JOBS, parameters, _by_state, idempotent=True, timeout_s=timeout_s)


def list_waiting_jobs(job_id: str, limit: int = 1000, *, timeout_s: float | None = None) -> Call[list[Job]]:
    """List the jobs that wait for this one, the first submitted first."""
    parameters = (arguments.text(job_id, "job_id"), arguments.whole(limit, "limit"))
    return Call(LIST_WAITING_JOBS, parameters, rows.jobs, idempotent=True, timeout_s=timeout_s)


def get_history(
    minutes: int = 60, step_minutes: int = 1, queue: str | None = None, *, timeout_s: float | None = None
) -> Call[list[HistoryStep]]:
    """How things went in the last minutes, the oldest step first, without those nothing is known of."""
    parameters = (
        arguments.whole(minutes, "minutes", most=10_080),
        arguments.whole(step_minutes, "step_minutes", most=1440),
        arguments.optional_text(queue, "queue"),
    )
    return Call(GET_HISTORY, parameters, _history, idempotent=True, timeout_s=timeout_s)


def _history(answer: Rows) -> list[HistoryStep]:
    return [
        HistoryStep(
            at, done, dead, cancelled, expired, tuple(waits or ()), tuple(runs or ()), depth, oldest_s
        )
        for at, done, dead, cancelled, expired, waits, runs, depth, oldest_s in answer
    ]


def _by_state(answer: Rows) -> dict[JobState, int]:
    return {JobState(state): jobs for state, jobs in answer}


def _queue_stats(answer: Rows) -> list[QueueStats]:
    return [QueueStats(*row) for row in answer]


def _numbers(answer: Rows) -> list[int]:
    return [row[0] for row in answer]


def _stats(answer: Rows) -> JobStats:
    return JobStats(*answer[0])
