"""Finding jobs by a query, without ever reading a whole table.

Three ways, and whoever asks chooses. `look` goes through the latest jobs, live and archived, a slice at a
time. `dead_jobs` goes through the dead by their own index. `among` looks at jobs whose numbers an index has
found: ids, held jobs, rare tags. All of it reads the views that the role of readers may read.
"""

# Statements are put together from fragments written here and in `conditions`. What callers give travels as
# parameters; the numbers within are our own.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from holdfast.domain.job import Job
from holdfast.domain.search import Query
from holdfast.errors import InvalidArgument
from holdfast.store import arguments, arrays, rows
from holdfast.store.call import Call, Parameter, Rows, Statement, only_value
from holdfast.store.calls.conditions import COLUMNS, EVERYTHING, MOMENT, Condition, both, condition
from holdfast.store.values import LightJob

Place = Literal["live", "archived"]

SLICES: Final = (1000, 5000, 25000)
"""How many jobs one look may go through. Part of the statement, so that no plan is made for any number."""

PAGES: Final = (1, 11, 101, 1001, 10_001)
"""How many dead jobs one statement may answer; likewise."""

_SOURCES: Final = {
    "live": f"select {COLUMNS}, status from {{schema}}.jobs_with_status",
    "archived": f"select {COLUMNS}, state::text as status from {{schema}}.jobs_archive",
}

_SNAPSHOT: Final = Statement(
    "search_snapshot",
    "select greatest("
    "(select number from {schema}.jobs_with_status order by number desc limit 1), "
    "(select number from {schema}.jobs_archive order by number desc limit 1), 0), {schema}._clock()",
)

# One by one: a plain join reads every job and the whole archive.
_OF_NUMBERS: Final = (
    "from unnest(%s::bigint[]) with ordinality as wanted (number, place) cross join lateral ("
    "select * from {schema}.job_details as job where job.number = wanted.number offset 0) as details "
    "order by wanted.place"
)
_DETAILS: Final = Statement("job_details of numbers", f"select {rows.JOB_COLUMNS} {_OF_NUMBERS}")
_LIGHT: Final = Statement("light job_details of numbers", f"select {rows.LIGHT_COLUMNS} {_OF_NUMBERS}")

_LINES: Final = (
    "lines (queue) as (select ("
    "select next_need from {schema}.jobs_with_status where finalized_at is not null "
    "order by next_need limit 1) "
    "union all select (select next_need from {schema}.jobs_with_status where finalized_at is not null "
    "and next_need > lines.queue order by next_need limit 1) from lines where lines.queue is not null)"
)
"""The queues that have dead jobs."""

_LINE: Final = 200
"""How much of an error's first line tells groups apart."""

_BY_NUMBER: Final = (
    "(select job.* from unnest(%s::bigint[]) as wanted (number) cross join lateral ("
    f"{_SOURCES['live']} where number = wanted.number union all "
    f"{_SOURCES['archived']} where number = wanted.number offset 0) as job) as job"
)

_NUMBERS_OF: Final = Statement(
    "job_numbers",
    "select found.number from unnest(%s::text[]) as asked (job_id) "
    "cross join lateral {schema}.get_job(p_job_id => asked.job_id) as found",
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A moment: jobs with a higher number came later, and jobs that ended later had not ended yet."""

    number: int
    at: datetime

    def __str__(self) -> str:
        return f"{self.number}~{self.at.isoformat()}"

    @classmethod
    def read(cls, text: str) -> Snapshot:
        """The moment this text names, as `str` wrote it; raise InvalidArgument."""
        number, _, at = text.partition("~")
        try:
            found = cls(int(number), datetime.fromisoformat(at))
        except ValueError:
            raise InvalidArgument(f"{text!r} is no snapshot") from None
        if not 0 <= found.number <= arguments.BIGINT or found.at.tzinfo is None:
            raise InvalidArgument(f"{text!r} is no snapshot")
        return found


@dataclass(frozen=True, slots=True)
class DeadGroup:
    """Dead jobs with the same task and the same first line of the error."""

    task: str | None
    error: str | None
    jobs: int
    first_at: datetime
    last_at: datetime
    sample_id: str
    """The one that died last."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look saw: the numbers of jobs that match, the latest first, and how far it got."""

    numbers: tuple[int, ...]
    """At most as many as were asked for."""
    matching: int
    """How many match in all that was looked at."""
    looked: int
    lowest: int | None
    """The lowest number it went through; None if there was nothing."""


@dataclass(frozen=True, slots=True)
class Changed:
    """What became of jobs that were to be changed: the ids of those that were."""

    job_ids: tuple[str, ...]


def snapshot(*, timeout_s: float | None = None) -> Call[Snapshot]:
    """The moment now."""
    return Call(_SNAPSHOT, (), lambda answer: Snapshot(*answer[0]), idempotent=True, timeout_s=timeout_s)


def look(
    query: Query,
    places: Sequence[Place],
    *,
    below: int,
    slice_: int,
    most: int,
    until: Snapshot | None = None,
    timeout_s: float | None = None,
) -> Call[Seen]:
    """Look at the latest jobs with a number below this one, as many as the slice says, live and archived.

    Index: the primary keys, from the end.
    """
    if slice_ not in SLICES:
        raise ValueError(f"no slice has {slice_} jobs")
    wanted = both(condition(query), _until(until))
    parameters: list[Parameter] = [arguments.whole(most, "most", least=0)]
    parts: list[str] = []
    for place in places:
        parts.append(
            f"(select number, ({wanted.sql}) as matches from ({_SOURCES[place]} "
            f"where number < %s::bigint order by number desc limit {slice_}) as job)"
        )
        parameters += [*wanted.parameters, str(below)]
    sql = (
        f"with {MOMENT} "
        "select coalesce((array_agg(number) filter (where matches))[1:%s::integer], '{}'::bigint[]), "
        "count(*) filter (where matches), count(*), min(number) "
        f"from (select number, matches from ({' union all '.join(parts)}) as merged "
        f"order by number desc limit {slice_}) as seen"
    )
    return Call(_composed("look", sql), parameters, _seen, idempotent=True, timeout_s=timeout_s)


def dead_jobs(
    query: Query,
    *,
    below: tuple[datetime, int] | None,
    page: int,
    until: Snapshot | None = None,
    timeout_s: float | None = None,
) -> Call[list[tuple[datetime, int]]]:
    """When dead jobs died and their numbers, those that died last first, from behind the one named on.

    Index: jobs_dead, from the end in each queue that has some; what the query rules out is read as well.
    """
    if page not in PAGES:
        raise ValueError(f"no page has {page} jobs")
    # Nothing is said where nothing is meant: told of an end, the planner expects few rows, and sorts all.
    behind = EVERYTHING
    if below is not None:
        died, number = below
        behind = Condition(
            "(finalized_at, number) < (%s::timestamptz, %s::bigint)", (died.isoformat(), str(number))
        )
    wanted = both(condition(query), _until(until))
    sql = (
        f"with recursive {MOMENT}, {_LINES} "
        "select latest.finalized_at, latest.number from lines cross join lateral ("
        f"select number, finalized_at from ({_SOURCES['live']} "
        "where finalized_at is not null and next_need = lines.queue) as job "
        f"where {behind.sql} and {wanted.sql} "
        f"order by finalized_at desc, number desc limit {page}) as latest "
        f"order by latest.finalized_at desc, latest.number desc limit {page}"
    )
    parameters = (*behind.parameters, *wanted.parameters)
    return Call(_composed("dead_jobs", sql), parameters, _ends, idempotent=True, timeout_s=timeout_s)


def count_dead_jobs(
    query: Query, *, until: Snapshot | None = None, timeout_s: float | None = None
) -> Call[int]:
    """How many dead jobs match, counted no further than the largest page. Index: as `dead_jobs`."""
    wanted = both(condition(query), _until(until))
    sql = (
        f"with recursive {MOMENT}, {_LINES} "
        "select count(*) from (select 1 from lines cross join lateral ("
        f"select 1 from ({_SOURCES['live']} "
        "where finalized_at is not null and next_need = lines.queue) as job "
        f"where {wanted.sql} limit {PAGES[-1]}) as dead limit {PAGES[-1]}) as counted"
    )
    return Call(
        _composed("count_dead_jobs", sql), wanted.parameters, only_value, idempotent=True, timeout_s=timeout_s
    )


def dead_groups(
    jobs: int, groups: int, *, timeout_s: float | None = None
) -> Call[tuple[list[DeadGroup], int]]:
    """What the latest dead jobs, so many, died of: the largest groups, so many; and how many jobs there were.

    Index: jobs_dead, from the end in each queue that has some.
    """
    sql = (
        f"with recursive {_LINES}, latest as ("
        "select job.* from lines cross join lateral ("
        "select job_id, task, error_message, finalized_at, number from {schema}.jobs_with_status "
        "where finalized_at is not null and next_need = lines.queue "
        f"order by finalized_at desc limit {int(jobs)}) as job "
        f"order by job.finalized_at desc limit {int(jobs)}) "
        f"select task, left(split_part(error_message, chr(10), 1), {_LINE}), count(*), "
        "min(finalized_at), max(finalized_at), "
        "(array_agg(job_id order by finalized_at desc, number desc))[1], (sum(count(*)) over ())::bigint "
        f"from latest group by 1, 2 order by 3 desc, 5 desc limit {int(groups)}"
    )
    return Call(
        Statement("dead_groups", sql),
        (),
        lambda answer: ([DeadGroup(*row[:-1]) for row in answer], answer[0][-1] if answer else 0),
        idempotent=True,
        timeout_s=timeout_s,
    )


def among(
    query: Query,
    numbers: Iterable[int],
    *,
    until: Snapshot | None = None,
    timeout_s: float | None = None,
) -> Call[list[int]]:
    """Those of these jobs that match, the latest first. Index: the primary keys."""
    wanted = both(condition(query), _until(until))
    sql = f"with {MOMENT} select job.number from {_BY_NUMBER} where {wanted.sql} order by job.number desc"
    parameters = (_array(numbers), *wanted.parameters)
    return Call(_composed("among", sql), parameters, _numbers, idempotent=True, timeout_s=timeout_s)


def numbers_of(job_ids: Iterable[str], *, timeout_s: float | None = None) -> Call[list[int]]:
    """The numbers of the jobs with these ids; unknown ids have none."""
    parameters = (arguments.text_array(job_ids, "job_ids"),)
    return Call(_NUMBERS_OF, parameters, _numbers, idempotent=True, timeout_s=timeout_s)


def details(numbers: Iterable[int], *, timeout_s: float | None = None) -> Call[list[Job]]:
    """All there is to know about these jobs, in the order given; those that are gone are left out."""
    return Call(_DETAILS, (_array(numbers),), rows.jobs, idempotent=True, timeout_s=timeout_s)


def light_details(numbers: Iterable[int], *, timeout_s: float | None = None) -> Call[list[LightJob]]:
    """The same for lists: however large the jobs are, the answer is not."""
    return Call(_LIGHT, (_array(numbers),), rows.light_jobs, idempotent=True, timeout_s=timeout_s)


def cancel_found(
    query: Query,
    numbers: Iterable[int],
    until: Snapshot,
    reason: str | None,
    *,
    timeout_s: float | None = None,
) -> Call[Changed]:
    """Cancel those of these jobs that match at this moment, in one transaction."""
    wanted = both(condition(query), _until(until))
    sql = (
        f"with {MOMENT} select answer.job_id from ("
        f"select array_agg(job.job_id) as ids from {_BY_NUMBER} where {wanted.sql} "
        "having count(*) > 0) as found "
        "cross join lateral {schema}.cancel_jobs(p_job_ids => found.ids, p_reason => %s::text) as answer "
        "where answer.cancelled"
    )
    parameters = (_array(numbers), *wanted.parameters, arguments.optional_text(reason, "reason"))
    return Call(_composed("cancel_found", sql), parameters, _changed, idempotent=False, timeout_s=timeout_s)


def revive_found(
    query: Query, numbers: Iterable[int], until: Snapshot, *, timeout_s: float | None = None
) -> Call[Changed]:
    """Bring those of these jobs back that match at this moment, in one transaction; WrongState undoes it."""
    wanted = both(condition(query), _until(until))
    sql = (
        f"with {MOMENT} select found.job_id from (select job.job_id from {_BY_NUMBER} where {wanted.sql} "
        "order by job.number offset 0) as found "
        "cross join lateral {schema}.revive_job(p_job_id => found.job_id) as state"
    )
    parameters = (_array(numbers), *wanted.parameters)
    return Call(_composed("revive_found", sql), parameters, _changed, idempotent=False, timeout_s=timeout_s)


def delete_found(
    query: Query, numbers: Iterable[int], until: Snapshot, *, timeout_s: float | None = None
) -> Call[Changed]:
    """Delete those of these jobs that match at this moment, all or none; WrongState says why none."""
    wanted = both(condition(query), _until(until))
    sql = (
        f"with {MOMENT} select unnest(found.ids) from ("
        f"select array_agg(job.job_id) as ids from {_BY_NUMBER} where {wanted.sql} "
        "having count(*) > 0) as found "
        "cross join lateral {schema}.delete_jobs(p_job_ids => found.ids) as deleted"
    )
    parameters = (_array(numbers), *wanted.parameters)
    return Call(_composed("delete_found", sql), parameters, _changed, idempotent=False, timeout_s=timeout_s)


def _until(moment: Snapshot | None) -> Condition:
    """Nothing that came, or ended, after that moment."""
    if moment is None:
        return EVERYTHING
    return Condition(
        "number <= %s::bigint and coalesce(finalized_at <= %s::timestamptz, true)",
        (str(moment.number), moment.at.isoformat()),
    )


def _composed(name: str, sql: str) -> Statement:
    return Statement(name, sql, composed=True)


def _array(numbers: Iterable[int]) -> str:
    return arrays.of_numbers(list(numbers)) or "{}"


def _seen(answer: Rows) -> Seen:
    numbers, matching, looked, lowest = answer[0]
    return Seen(tuple(numbers), matching, looked, lowest)


def _ends(answer: Rows) -> list[tuple[datetime, int]]:
    return [(row[0], row[1]) for row in answer]


def _numbers(answer: Rows) -> list[int]:
    return [row[0] for row in answer]


def _changed(answer: Rows) -> Changed:
    return Changed(tuple(row[0] for row in answer))
