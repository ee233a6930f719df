-- Removing finished jobs for good. Their ids become free.

create or replace function _forget(p_ids bigint[]) returns void
language plpgsql
set search_path from current
set enable_seqscan = off
set jit = off
as $$
begin
  delete from job_errors where job_id = any (p_ids);
  -- A dead job may still wait for others; its waits would be descendants that nobody can lock.
  delete from job_waits where child_id = any (p_ids);
  delete from job_names names
  using (
    select job.name from archived_jobs job where job.id = any (p_ids) and job.name is not null
    union all
    select job.name from jobs job where job.id = any (p_ids) and job.name is not null
  ) as gone
  where names.name = gone.name;
  delete from archived_jobs job where job.id = any (p_ids);
  delete from jobs job where job.id = any (p_ids);
end $$;

-- Seed 004: delete every job that has all these tags, and those named; all or nothing. Every one must be finished, and no
-- live job may wait for it. Unknown ids are ignored. Answers how many were deleted.
create or replace function delete_jobs(p_tags text[] default null, p_job_ids text[] default null, p_worker_id text default null)
returns integer
language plpgsql security definer set search_path from current
as $$
declare
  v_ids bigint[];
  v_obstacle record;
begin
  p_tags := nullif(p_tags, '{}');
  p_job_ids := nullif(p_job_ids, '{}');
  if p_tags is null and p_job_ids is null then
    raise exception 'delete_jobs needs tags or job ids; it never means every job' using errcode = '22023';
  end if;
  if array_position(p_job_ids, null) is not null or '' = any (p_job_ids) then
    raise exception 'delete_jobs: a job id is null or empty' using errcode = '22023';
  end if;
  perform _require_tags(p_tags);
  perform
  from jobs job
  where job.id = any (array(
      select tagged.id from jobs tagged where tagged.tags is not null and tagged.tags @> p_tags
      union
      select _job_number(asked.job_id) from unnest(p_job_ids) as asked (job_id)))
  order by job.waiting_on > 0, job.id
  for update;
  v_ids := array(
    select job.id from jobs job where job.tags is not null and job.tags @> p_tags
    union
    select job.id from archived_jobs job where job.tags is not null and job.tags @> p_tags
    union
    select named.id
    from unnest(p_job_ids) as asked (job_id)
    cross join lateral (
      select job.id, job.name from jobs job where job.id = _job_number(asked.job_id)
      union all
      select job.id, job.name from archived_jobs job where job.id = _job_number(asked.job_id)
    ) as named
    where _public_id(named.name, named.id) = asked.job_id);
  -- The archived ones too: a child may be tying itself to one, or somebody else deleting it.
  perform from archived_jobs job where job.id = any (v_ids) order by job.id for update;
  v_ids := array(
    select job.id from jobs job where job.id = any (v_ids)
    union all
    select job.id from archived_jobs job where job.id = any (v_ids));

  select _public_id(job.name, job.id) as job_id, job.state into v_obstacle
  from jobs job
  where job.id = any (v_ids) and job.state <> 'DEAD'
  order by job.id
  limit 1;
  if found then
    raise exception 'delete_jobs: job "%" is % and not finished; nothing was deleted', v_obstacle.job_id, v_obstacle.state
      using errcode = 'HF003';
  end if;
  select waits.parent as job_id, _public_id(child.name, child.id) as child_id into v_obstacle
  from job_waits waits
  join jobs child on child.id = waits.child_id
  where waits.parent_id = any (v_ids)
  order by waits.parent_id
  limit 1;
  if found then
    raise exception 'delete_jobs: job "%" waits for job "%"; nothing was deleted', v_obstacle.child_id, v_obstacle.job_id
      using errcode = 'HF003';
  end if;

  perform _emit_trace_events(
    array_agg(_public_id(gone.name, gone.id)), array_agg('job_deleted'::text), array_agg(p_worker_id), null,
    array_agg(jsonb_build_object('state', gone.state)))
  from (
    select job.id, job.name, job.state from jobs job where job.id = any (v_ids)
    union all
    select job.id, job.name, job.state from archived_jobs job where job.id = any (v_ids)
  ) as gone;
  perform _forget(v_ids);
  return cardinality(v_ids);
end $$;

-- Delete jobs that ended before this, whatever their end, with their errors, names and traces; at most so many. Answers how many.
-- What a live job waits for is left alone, and what is locked: a child may be tying itself to it. Index: archived_jobs_by_end,
-- planned for the moment at hand; job_waits_by_parent.
create or replace function _forget_ended_before(p_before timestamptz, p_limit integer) returns integer
language plpgsql
set search_path from current
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set jit = off
as $$
declare
  v_ids bigint[];
begin
  v_ids := array(
    select job.id from archived_jobs job
    where job.finalized_at < p_before
      and not exists (select from job_waits waits where waits.parent_id = job.id)
    limit p_limit
    for update of job skip locked);
  if cardinality(v_ids) > 0 then
    delete from jobs_trace trace
    where trace.job_id = any (array(
      select _public_id(job.name, job.id) from archived_jobs job where job.id = any (v_ids)));
    perform _forget(v_ids);
  end if;
  return cardinality(v_ids);
end $$;

-- Seed 004: delete COMPLETED jobs that ended longer ago than this. Answers how many. Index: archived_jobs_by_end. Planned for
-- the moment at hand: a plan for any moment reads the whole archive to find nothing. Locked rows are skipped, so no order.
create or replace function cleanup_expired_jobs(p_ttl_seconds double precision, p_limit integer default null) returns integer
language plpgsql security definer
set search_path from current
set plan_cache_mode = force_custom_plan
as $$
declare
  v_before timestamptz;
  v_ids bigint[];
begin
  perform _require_positive(p_ttl_seconds, 'p_ttl_seconds');
  if p_limit < 1 then
    raise exception 'the limit must be at least 1, not %', p_limit using errcode = '22023';
  end if;
  v_before := _clock() - p_ttl_seconds * interval '1 second';
  v_ids := array(
    select job.id from archived_jobs job
    where job.state = 'COMPLETED' and job.finalized_at < v_before
    limit p_limit
    for update skip locked);
  if cardinality(v_ids) > 0 then
    perform _forget(v_ids);
  end if;
  return cardinality(v_ids);
end $$;
