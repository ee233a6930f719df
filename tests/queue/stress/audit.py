"""A witness in the database: whatever happens to a job is written down in the same transaction."""

from __future__ import annotations

from typing import Any

import psycopg

from holdfast.domain.states import JobState
from tests.queue.stress.history import Change, Row

WITNESS = """
create table public.witness (
  seq bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  job text, state text, lease text, stream bigint, assignee text, attempts int, lapses int, forfeited bigint
);

create function public.witness_live() returns trigger language plpgsql security definer as $$
begin
  insert into public.witness (job, state, lease, stream, assignee, attempts, lapses)
  values (new.name, new.state, new.lease_id, new.stream_id, new.assignee_id, new.attempts,
    new.lease_expiration_count);
  return null;
end $$;

create function public.witness_ended() returns trigger language plpgsql security definer as $$
begin
  insert into public.witness (job, state, lease, assignee, attempts, lapses, forfeited)
  values (new.name, new.state, new.lease_id, new.assignee_id, new.attempts, new.lease_expiration_count,
    new.forfeited_stream_id);
  return null;
end $$;

create trigger witness_new after insert on holdfast.jobs
  for each row execute function public.witness_live();
create trigger witness_change after update on holdfast.jobs
  for each row when (
    old.state <> new.state or old.lease_id is distinct from new.lease_id or old.attempts <> new.attempts)
  execute function public.witness_live();
create trigger witness_end after insert or update on holdfast.archived_jobs
  for each row execute function public.witness_ended();
"""

CHANGES = """
select seq, extract(epoch from at)::float8, job, state, lease, stream, assignee, attempts, lapses, forfeited
from public.witness order by seq
"""

ROWS = """
select name, false, state::text, attempts from holdfast.jobs
union all
select name, true, state::text, attempts from holdfast.archived_jobs
"""


def call_witness(conn: psycopg.Connection[Any]) -> None:
    """From here on everything is written down."""
    conn.execute(WITNESS.encode())


def read_changes(conn: psycopg.Connection[Any]) -> list[Change]:
    return [
        Change(seq, at, job, JobState(state), *rest)
        for seq, at, job, state, *rest in conn.execute(CHANGES.encode()).fetchall()
    ]


def read_rows(conn: psycopg.Connection[Any]) -> list[Row]:
    return [
        Row(job, archived, JobState(state), attempts)
        for job, archived, state, attempts in conn.execute(ROWS.encode()).fetchall()
    ]
