-- The parts of the archive: made ahead of the numbers of new jobs, dropped when all their jobs are past the retention.

-- Every part but the rest, with the numbers it is for. The first begins with the first number there is.
create or replace function _archive_parts() returns table (part regclass, lower_id bigint, upper_id bigint)
language sql stable set search_path from current
as $$
  select
    class.oid::regclass,
    coalesce((regexp_match(bound.text, 'FROM \(''(-?\d+)''\)'))[1]::bigint, 0),
    (regexp_match(bound.text, 'TO \(''(-?\d+)''\)'))[1]::bigint
  from pg_inherits inherits
  join pg_class class on class.oid = inherits.inhrelid
  cross join lateral (select pg_get_expr(class.relpartbound, class.oid)) as bound (text)
  where inherits.inhparent = 'archived_jobs'::regclass and bound.text <> 'DEFAULT'
$$;

-- Make the next part when three quarters of the newest are used. A part is for ten million jobs, but where there are four of them
-- the next is for twice as many as the last: every part costs every statement that reads the archive some 20 µs, so they must stay
-- few, and a part must stay a small share of what is kept. Where locks are not to be had at once it is left for the next time.
-- Answers how many were made.
-- The table is made first and attached then: to make it in place would keep everybody from the archive until the commit.
create or replace function _extend_archive() returns integer
language plpgsql
set search_path from current
set lock_timeout = '50ms'
set client_min_messages = warning
as $$
declare
  v_last_id bigint := (select last_value from jobs_id_seq);
  v_parts bigint;
  v_upper bigint;
  v_size bigint;
  v_made integer := 0;
begin
  select count(*), max(parts.upper_id), (array_agg(parts.upper_id - parts.lower_id order by parts.upper_id desc))[1]
  into v_parts, v_upper, v_size
  from _archive_parts() as parts
  where parts.lower_id > 0;
  v_size := coalesce(v_size, 10000000);
  v_upper := coalesce(v_upper, (select max(parts.upper_id) from _archive_parts() as parts));
  while v_upper < v_last_id + v_size / 4 loop
    if v_parts + v_made >= 4 then
      v_size := v_size * 2;
    end if;
    -- What is in the rest for want of a part stays there.
    v_upper := greatest(v_upper, (select max(id) + 1 from archived_jobs_rest));
    execute format(
      'create table archived_jobs_%s (like archived_jobs) with ('
      'autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05)', v_upper);
    execute format(
      'alter table archived_jobs attach partition archived_jobs_%s for values from (%s) to (%s)',
      v_upper, v_upper, v_upper + v_size);
    v_upper := v_upper + v_size;
    v_made := v_made + 1;
  end loop;
  return v_made;
exception
  when lock_not_available then
    return 0;
end $$;

-- Go on with dropping the oldest part whose jobs all ended before this, if there is one; true if there is more to do at once.
-- First what belongs to its jobs is deleted, ten thousand numbers at a time: errors, traces, and named jobs with their names.
-- Then it is dropped, under a lock that keeps everybody from the archive for the moment that takes; it is not waited for long.
-- A part that is still being filled stays, and one with a job that a live one waits for.
create or replace function _drop_archive_part(p_before timestamptz) returns boolean
language plpgsql
set search_path from current
set lock_timeout = '50ms'
set enable_seqscan = off
set jit = off
as $$
declare
  v_part record;
  v_from bigint;
  v_ids bigint[];
begin
  select parts.* into v_part
  from _archive_parts() as parts
  where parts.upper_id <= (select last_value from jobs_id_seq)
    and not _archive_part_is_needed(parts.part, parts.lower_id, parts.upper_id, p_before)
  order by parts.upper_id
  limit 1;
  if not found then
    return false;
  end if;

  select greatest(progress.forgotten_to, v_part.lower_id) into v_from from upkeep_progress progress;
  if v_from < v_part.upper_id then
    execute format('select id from %s where id >= $1 order by id limit 1', v_part.part) into v_from using v_from;
  end if;
  if v_from < v_part.upper_id then
    execute format('select array_agg(id) from %s where id >= $1 and id < $2', v_part.part) into v_ids
      using v_from, v_from + 10000;
    delete from jobs_trace trace
    where trace.job_id = any (array(
      select _public_id(job.name, job.id)
      from unnest(v_ids) as gone (id)
      join archived_jobs job on job.id = gone.id));
    delete from job_errors where job_id = any (v_ids);
    perform _forget(array(
      select job.id from unnest(v_ids) as gone (id) join archived_jobs job on job.id = gone.id where job.name is not null));
    update upkeep_progress set forgotten_to = v_from + 10000;
    return true;
  end if;

  -- From here on no job can end into it, and nobody can begin to wait for one of it.
  execute format('lock table %s in share row exclusive mode', v_part.part);
  if not _archive_part_is_needed(v_part.part, v_part.lower_id, v_part.upper_id, p_before) then
    execute format('alter table archived_jobs detach partition %s', v_part.part);
    execute format('drop table %s', v_part.part);
  end if;
  update upkeep_progress set forgotten_to = 0;
  return true;
exception
  when lock_not_available then
    return false;
end $$;

-- Whether a part has a job that ended later than this, or that a live job waits for. Index: its archived_jobs_by_end.
create or replace function _archive_part_is_needed(p_part regclass, p_lower bigint, p_upper bigint, p_before timestamptz)
returns boolean
language plpgsql
set search_path from current
set enable_seqscan = off
set jit = off
as $$
declare
  v_is_needed boolean;
begin
  execute format('select exists (select from %s where finalized_at >= $1)', p_part) into v_is_needed using p_before;
  return v_is_needed or exists (
    select from job_waits waits where waits.parent_id >= p_lower and waits.parent_id < p_upper);
end $$;

do $$ begin perform _extend_archive(); end $$;
