"""Submitting one job, and making one call of several such, for callers that meet (decision 16)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.domain.job import NewJob
from holdfast.store.call import Call, Parameter, Statement
from holdfast.store.calls.submitting import SUBMIT_JOBS, columns_of, submit_jobs

LOCK_MS: Final = 100
"""How long one call for several callers may wait for a transaction that has taken an id and not ended."""

_PLAIN: Final = "select job_id from {schema}.submit_jobs("
_PATIENT: Final = (
    "select answer.job_id from (select set_config('lock_timeout', %s, true) as made offset 0) as setting, "
    "lateral {schema}.submit_jobs("
)
_WORKER: Final = "p_worker_id => %s::text"
# Nobody is the worker, with or without the setting; to name it there has it made before the function runs.
_NOBODY: Final = "p_worker_id => coalesce(%s::text, nullif(setting.made, setting.made))"

SUBMIT_TOGETHER: Final = Statement(
    SUBMIT_JOBS.function, SUBMIT_JOBS.sql.replace(_PLAIN, _PATIENT).replace(_WORKER, _NOBODY)
)


def submit_one(job: NewJob) -> Call[list[str]]:
    """As `submit_jobs` for one job, which may be sent together with jobs of others.

    One that waits for others is sent by itself: in one call with its parent it would be taken although the
    parent was not there when it was submitted.
    """
    call = submit_jobs([job])
    if job.wait_for:
        return call
    return Call(call.statement, call.parameters, call.parse, idempotent=False, joins=True)


def together(calls: Sequence[Call[list[str]]]) -> Call[list[str]]:
    """One call for what several `submit_one` ask; the answer is their ids, in this order.

    It waits for nobody else's transaction for long: its callers have nothing to do with each other.
    """
    columns = zip(*(columns_of(call) for call in calls), strict=True)
    parameters = (f"{LOCK_MS}ms", *map(_joined, columns))
    return Call(SUBMIT_TOGETHER, parameters, calls[0].parse, idempotent=False, gives_way=True)


def _joined(arrays: Iterable[Parameter]) -> str | None:
    """Arrays of one element each as one array; what is not there is null, and nothing at all stays so."""
    parts = [None if array is None else str(array)[1:-1] for array in arrays]
    if not any(parts):
        return None
    return "{" + ",".join(part or "NULL" for part in parts) + "}"
