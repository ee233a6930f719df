"""Read what the witness wrote down, and how everything looks at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from gauntlet.history import Change, Hold

WITNESS = Path(__file__).with_suffix(".sql")

CHANGES = """
select seq, extract(epoch from at)::float8, job, state, lease, stream, assignee, coalesce(attempts, 0),
  coalesce(lapses, 0), coalesce(waiting_on, 0), coalesce(extract(epoch from due)::float8, 0),
  extract(epoch from lease_ends)::float8, key, max_attempts, queue, extract(epoch from began)::float8
from public.witness order by seq
"""
HOLDS = """
select seq, extract(epoch from held.at)::float8, held.kind, held.key,
  coalesce(names.name, 'j' || held.job_id), held.lease, held.taken
from public.witness_holds held
left join holdfast.job_names names on names.id = held.job_id
order by seq
"""
PLACES = """
select coalesce(name, 'j' || id), count(*)
from (select name, id from holdfast.jobs union all select name, id from holdfast.archived_jobs) as everywhere
group by 1
"""
ERRORS = """
select coalesce(names.name, 'j' || errors.job_id), count(*)
from holdfast.job_errors errors left join holdfast.job_names names on names.id = errors.job_id
group by 1
"""
WAITS = """
select coalesce(child.name, 'j' || child.id), array_agg(waits.parent)
from holdfast.job_waits waits join holdfast.jobs child on child.id = waits.child_id
group by 1
"""
SET_ASIDE = """
select coalesce(name, 'j' || id) from holdfast.jobs
where consecutive_expirations >= holdfast.crash_concern_threshold()
"""
# Holds without a holder: their job is not held any more, or under another lease.
HELD = """
select held.kind || ' ' || held.key, coalesce(names.name, 'j' || held.job_id)
from holdfast.holds held
left join holdfast.job_names names on names.id = held.job_id
left join holdfast.jobs job on job.id = held.job_id and job.lease_id = held.lease_id
  and job.state in ('RUNNING', 'CANCELLING')
where job.id is null
"""
# Events of the trace per job against what the witness saw: claims, and ends.
UNTRACED = """
select seen.job
from (
  select job, count(*) filter (where kind = 'change' and state = 'RUNNING') as claims,
    count(*) filter (where kind = 'end' and state = 'COMPLETED') as completions
  from public.witness where job is not null group by job
) as seen
left join (
  select job_id, count(*) filter (where event_type = 'job_retrieved') as claims,
    count(*) filter (where event_type = 'job_finished') as completions
  from holdfast.jobs_trace group by job_id
) as traced on traced.job_id = seen.job
where seen.claims <> coalesce(traced.claims, 0) or seen.completions <> coalesce(traced.completions, 0)
limit 20
"""


def call(conn: psycopg.Connection[Any]) -> None:
    """From here on everything is written down."""
    conn.execute(WITNESS.read_bytes())
    conn.execute("select holdfast.set_trace_level('all')")


def changes(conn: psycopg.Connection[Any]) -> list[Change]:
    return [Change._make(row) for row in _stream(conn, CHANGES)]


def holds(conn: psycopg.Connection[Any]) -> list[Hold]:
    return [Hold._make(row) for row in _stream(conn, HOLDS)]


def counted(conn: psycopg.Connection[Any], query: str) -> dict[str, Any]:
    """A table of two columns."""
    return {row[0]: row[1] for row in _stream(conn, query)}


def listed(conn: psycopg.Connection[Any], query: str) -> list[Any]:
    """A table of one column, or of several as tuples."""
    return [row[0] if len(row) == 1 else row for row in _stream(conn, query)]


def _stream(conn: psycopg.Connection[Any], query: str) -> Iterator[tuple[Any, ...]]:
    """Row by row: a long run has millions."""
    with conn.transaction(), conn.cursor(name="gauntlet") as cursor:
        cursor.itersize = 20_000
        cursor.execute(query.encode())
        yield from cursor
