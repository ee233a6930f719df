-- Jobs that are claimed many at a time stay in the index of their line while they are held. No column of any index changes then,
-- so the new version of a row needs no entry in any of them (a "heap only tuple"), as long as it fits on the page of the old one:
-- entries that came and went were a third of what a drain cost. Whoever looks through the line steps over what is held.
--
-- A job that is held for long leaves the line after a few seconds, and one that is claimed with few others leaves it at once:
-- lapses_at. Those are found by jobs_held; the others are named in claims, one row for each claim.

alter table jobs add column lapses_at timestamptz;    -- the end of the lease of a held job that left the line, else null
update jobs set lapses_at = lease_expires_at where state in ('RUNNING', 'CANCELLING');

-- No index may ask for a column that changes when a job is claimed: state, lease_expires_at.
drop index jobs_ready;
drop index jobs_held;
drop index jobs_dead;
create index jobs_ready on jobs (queue, priority, available_at, id)
  where waiting_on = 0 and lapses_at is null and finalized_at is null;
create index jobs_held on jobs (lapses_at) where lapses_at is not null;
create index jobs_dead on jobs (queue, finalized_at) where finalized_at is not null;

-- Room on each page for the claimed versions of all its rows, which are half as large again.
alter table jobs set (fillfactor = 40);

-- What was claimed together and stays in line. A job is named here for as long as it is held in line, and for a while longer.
create table claims (
  id bigint generated always as identity primary key,
  look_at timestamptz not null,                       -- when what is still held leaves the line: before any lease ends
  queue text not null,
  numbers bigint[] not null
) with (
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);
create index claims_by_look on claims (look_at);
