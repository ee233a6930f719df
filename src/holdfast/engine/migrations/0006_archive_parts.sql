-- The archive in parts, so that an old part can be dropped as a whole. By the number of the job and not by its end: so a job is
-- found by its number in one part, the primary key stays, and a late completion does not move a row. What was the archive is
-- the first part; the server reads it once, to see that it is. The views are bound to the new table when they are replaced.
alter table archived_jobs rename to archived_jobs_0;
alter index archived_jobs_pkey rename to archived_jobs_0_pkey;
alter index archived_jobs_by_end rename to archived_jobs_0_by_end;
alter index archived_jobs_by_tag rename to archived_jobs_0_by_tag;
alter index archived_jobs_forfeited rename to archived_jobs_0_forfeited;

create table archived_jobs (like archived_jobs_0, constraint archived_jobs_pkey primary key (id)) partition by range (id);
create index archived_jobs_by_end on archived_jobs using brin (finalized_at) with (pages_per_range = 32);
create index archived_jobs_by_tag on archived_jobs using gin (tags) where tags is not null;
create index archived_jobs_forfeited on archived_jobs (forfeited_stream_id) where forfeited_stream_id is not null;

-- For numbers that no part was made for in time, and for those whose part is gone: nothing ever fails for want of a part.
create table archived_jobs_rest partition of archived_jobs default;

do $$
declare
  v_last bigint := greatest((select last_value from jobs_id_seq), (select max(id) from archived_jobs_0));
begin
  execute format(
    'alter table archived_jobs attach partition archived_jobs_0 for values from (minvalue) to (%s)',
    (v_last / 10000000 + 1) * 10000000);
end $$;

alter table upkeep_progress
  add column forgotten_to bigint not null default 0;  -- jobs before this one, in the part that is dropped next, are ready for it
