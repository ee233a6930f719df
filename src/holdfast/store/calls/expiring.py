"""Submitting jobs that expire some time after they are taken, by the database's own clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from holdfast.domain.job import NewJob
from holdfast.store import arrays
from holdfast.store.call import Call, Statement
from holdfast.store.calls.submitting import SUBMIT_JOBS, columns_of, submit_jobs

_GIVEN: Final = "p_expires_at => %s::timestamptz[]"
_COUNTED: Final = (
    "p_expires_at => (select array_agg("
    "coalesce(given.at, clock_timestamp() + given.in_s * interval '1 second') order by given.place) "
    "from unnest(%s::timestamptz[], %s::double precision[]) with ordinality as given (at, in_s, place))"
)
_PLACE: Final = SUBMIT_JOBS.sql[: SUBMIT_JOBS.sql.index(_GIVEN)].count("%s") + 1

SUBMIT_EXPIRING_JOBS: Final = Statement("submit_expiring_jobs", SUBMIT_JOBS.sql.replace(_GIVEN, _COUNTED))


def submit_expiring_jobs(
    jobs: Sequence[NewJob], expires_in_s: Sequence[float | None], *, timeout_s: float | None = None
) -> Call[list[str]]:
    """As `submit_jobs`; each job expires so many seconds from now, or when it says itself, or never."""
    call = submit_jobs(jobs, timeout_s=timeout_s)
    counted = arrays.of_numbers(expires_in_s)
    if counted is None:
        return call
    given = columns_of(call)
    parameters = (*given[:_PLACE], counted, *given[_PLACE:])
    return replace(call, statement=SUBMIT_EXPIRING_JOBS, parameters=parameters)
