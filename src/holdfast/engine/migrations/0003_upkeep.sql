-- What is known beside jobs: who works, and how things went.
--
--   workers           the beat of each worker; pruned a day after its last
--   history           what ended in each minute, by queue, and how long the lines were; kept for a week
--   upkeep_progress   how far `upkeep` has come, one row

-- Rewritten every few seconds: half of each page is free, so that a beat changes no index.
create table workers (
  worker_id text primary key,
  host text,
  pid integer,
  version text,
  queues text[] not null,
  capacity integer not null,                          -- how many jobs it runs at once, of all its queues
  started_at timestamptz not null,
  seen_at timestamptz not null,
  stopped_at timestamptz                              -- null: it works, or died without a word
) with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 1000
);

-- The buckets of `waits` and `runs` begin at 0 and at each of _history_bounds(); a job whose last run is not known (cancelled
-- while it waited) is in none. The queue named '' is all of them together.
create table history (
  minute timestamptz not null,
  queue text not null,
  completed integer not null default 0,
  dead integer not null default 0,
  cancelled integer not null default 0,
  expired integer not null default 0,
  waits integer[],                                    -- from due to claimed, jobs by bucket
  runs integer[],                                     -- from claimed to ended
  depth integer,                                      -- jobs that were due, when the minute was sampled
  oldest_s double precision,                          -- how long the first of them had waited
  primary key (minute, queue)
) with (
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 1000
);

create table upkeep_progress (
  only_row boolean primary key default true,
  rolled_to timestamptz not null,                     -- ends before this are in the history
  closed_to timestamptz not null,                     -- and before this they were counted a second time, for the late ones
  sampled_at timestamptz not null,                    -- the minute whose lines were looked at last
  is_forgetting boolean not null default false,       -- more jobs are past their retention than the last call deleted

  constraint upkeep_has_one_row check (only_row)
) with (fillfactor = 50);

-- How long finished jobs are kept at least; null: for ever.
alter table settings
  add column archive_retention_s double precision,
  add constraint retention_is_positive check (archive_retention_s > 0);

-- The history begins with the installation; what ended before is not counted.
insert into upkeep_progress (rolled_to, closed_to, sampled_at)
select minute, minute, minute
from date_trunc('minute', clock_timestamp()) as now (minute);
