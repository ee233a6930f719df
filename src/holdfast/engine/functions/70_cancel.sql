-- Cancelling and reviving: what people do to jobs.

-- Cancel these live jobs, and through them those who wait for them. Locks all of them first, so that cascades never deadlock.
create or replace function _cancel(p_ids bigint[], p_worker_id text, p_reason text)
returns table (ordinal bigint, reason text, state job_state)
language plpgsql set search_path from current
as $$
#variable_conflict use_column
begin
  perform _lock_jobs(p_ids || _descendants(p_ids));
  return query
    select * from _settle(
      p_ids, array_fill('cancel'::text, array[cardinality(p_ids)]),
      p_messages => case when p_reason is not null then array_fill(p_reason, array[cardinality(p_ids)]) end,
      p_recorded_worker_id => p_worker_id,
      p_trace_context => jsonb_strip_nulls(jsonb_build_object('reason', p_reason)));
end $$;

-- Seed 003: cancel one job and those who wait for it. A running one becomes CANCELLING and waits for its worker's word.
create or replace function cancel_job(p_job_id text, p_worker_id text, p_reason text default null)
returns table (job_id text, state job_state)
language plpgsql security definer set search_path from current
as $$
#variable_conflict use_column
declare
  v_verdict record;
begin
  perform _require(p_job_id, 'p_job_id');
  perform _require(p_worker_id, 'p_worker_id');
  select * into v_verdict
  from _cancel(
    array(
      select job.id from jobs job where job.id = _job_number(p_job_id) and _public_id(job.name, job.id) = p_job_id),
    p_worker_id, p_reason);
  if v_verdict.reason is distinct from 'settled' then
    v_verdict.state := coalesce(v_verdict.state, _end_of(p_job_id));
    perform _refuse(
      p_job_id, 'cancel', case when v_verdict.state is null then 'not_found' else 'wrong_state' end, v_verdict.state);
  end if;
  return query select p_job_id, v_verdict.state;
end $$;

-- Seed 004: cancel every job that has all these tags, and those named. Answers each, and whether it was cancelled: finished
-- and unknown ones are not, and appear only when named.
create or replace function cancel_jobs(
  p_tags text[] default null, p_job_ids text[] default null, p_worker_id text default null, p_reason text default null
) returns table (job_id text, cancelled boolean, state job_state)
language plpgsql security definer set search_path from current
as $$
#variable_conflict use_column
declare
  v_ids bigint[];
begin
  p_tags := nullif(p_tags, '{}');
  p_job_ids := nullif(p_job_ids, '{}');
  if p_tags is null and p_job_ids is null then
    raise exception 'cancel_jobs needs tags or job ids; it never means every job' using errcode = '22023';
  end if;
  if array_position(p_job_ids, null) is not null or '' = any (p_job_ids) then
    raise exception 'cancel_jobs: a job id is null or empty' using errcode = '22023';
  end if;
  perform _require_tags(p_tags);
  v_ids := array(
    select job.id from jobs job where job.tags is not null and job.tags @> p_tags
    union
    select job.id
    from unnest(p_job_ids) as asked (job_id)
    join jobs job on job.id = _job_number(asked.job_id) and _public_id(job.name, job.id) = asked.job_id);
  return query
    with verdicts as materialized (
      select verdict.ordinal, verdict.reason, verdict.state from _cancel(v_ids, p_worker_id, p_reason) as verdict
    )
    select named.job_id, verdict.reason = 'settled', verdict.state
    from verdicts verdict
    cross join lateral (
      select _public_id(job.name, job.id) as job_id from jobs job where job.id = v_ids[verdict.ordinal]
      union all
      select _public_id(job.name, job.id) from archived_jobs job where job.id = v_ids[verdict.ordinal]
    ) as named
    union all
    select distinct asked.job_id, false, _end_of(asked.job_id)
    from unnest(p_job_ids) as asked (job_id)
    where not coalesce(_job_number(asked.job_id) = any (v_ids), false);
end $$;

-- Bring a dead job back: attempts start again at 0, the history of its errors stays.
create or replace function revive_job(p_job_id text, p_worker_id text default null, p_reason text default null)
returns job_state
language plpgsql security definer set search_path from current
as $$
declare
  v_job jobs := _lock_live_job(p_job_id, 'revive');
begin
  if v_job.state <> 'DEAD' then
    perform _refuse(p_job_id, 'revive', 'wrong_state', v_job.state);
  end if;
  update jobs job
  set state = 'RESCHEDULED', attempts = 0, available_at = _clock(), finalized_at = null
  where job.id = v_job.id;
  perform _notify_needs(array[v_job.id]);
  perform _emit_trace_event(
    p_job_id, 'job_revived', p_worker_id, jsonb_strip_nulls(jsonb_build_object('reason', p_reason)),
    jsonb_build_object('state', 'RESCHEDULED', 'attempts_before', v_job.attempts));
  return 'RESCHEDULED';
end $$;

-- Seed 003: let a job that was set aside run again. Answers whether there was a concern to clear.
create or replace function clear_crash_concern(p_job_id text, p_worker_id text, p_reason text default null) returns boolean
language plpgsql security definer set search_path from current
as $$
declare
  v_job jobs;
begin
  perform _require(p_worker_id, 'p_worker_id');
  v_job := _lock_live_job(p_job_id, 'clear_crash_concern');
  if v_job.consecutive_expirations < (select crash_concern_threshold from settings where only_row) then
    return false;
  end if;
  update jobs job set consecutive_expirations = 0 where job.id = v_job.id;
  perform _notify_needs(array[v_job.id]);
  perform _emit_trace_event(
    p_job_id, 'crash_concern_cleared', p_worker_id, jsonb_strip_nulls(jsonb_build_object('reason', p_reason)),
    jsonb_build_object('consecutive_expirations', v_job.consecutive_expirations));
  return true;
end $$;

-- Upkeep: jobs that expired this long ago are cancelled, and their dependents follow. Answers how many. Index: jobs_expiring.
create or replace function cancel_expired_jobs(p_older_than_seconds double precision default 604800, p_limit integer default 1000)
returns integer
language plpgsql security definer
set search_path from current
set enable_seqscan = off
as $$
declare
  v_before timestamptz;
  v_ids bigint[];
begin
  if p_older_than_seconds is null or not p_older_than_seconds >= 0 or p_older_than_seconds > 1e9 then
    raise exception 'p_older_than_seconds must be 0 to a billion, not %', coalesce(p_older_than_seconds::text, 'null')
      using errcode = '22023';
  end if;
  perform _require_limit(p_limit);
  v_before := _clock() - p_older_than_seconds * interval '1 second';
  v_ids := array(
    select job.id from jobs job
    where job.expires_at <= v_before
      and job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
    order by job.expires_at
    limit p_limit);
  if cardinality(v_ids) = 0 then
    return 0;
  end if;
  return (select count(*) from _cancel(v_ids, null, 'expired') as verdict where verdict.reason = 'settled');
end $$;

-- Let no job of this queue be claimed until it is resumed. Answers whether that is new.
create or replace function pause_queue(p_queue text) returns boolean
language plpgsql security definer set search_path from current
as $$
begin
  perform _require_queue(p_queue, 'p_queue');
  insert into queues (name, paused_at) values (p_queue, _clock())
  on conflict (name) do update set paused_at = excluded.paused_at where queues.paused_at is null;
  return found;
end $$;

-- Let jobs of this queue be claimed again, and wake its workers. Answers whether it was paused.
create or replace function resume_queue(p_queue text) returns boolean
language plpgsql security definer set search_path from current
as $$
declare
  v_was_paused boolean;
begin
  perform _require_queue(p_queue, 'p_queue');
  update queues set paused_at = null where name = p_queue and paused_at is not null;
  v_was_paused := found;
  if v_was_paused then
    perform _forget_queue(p_queue);
    perform _notify_need(p_queue, null);
  end if;
  return v_was_paused;
end $$;

-- Let at most so many jobs of this queue be held at once, over all workers; null: as many as there are. In force for every claim
-- that begins after it has committed; what is held already stays held. Answers the limit. A higher one wakes the workers.
create or replace function set_queue_limit(p_queue text, p_limit integer) returns integer
language plpgsql security definer set search_path from current
as $$
begin
  perform _require_queue(p_queue, 'p_queue');
  if p_limit < 1 then
    raise exception 'the limit of queue "%" must be at least 1, or null for none, not %', p_queue, p_limit using errcode = '22023';
  end if;
  insert into queues (name, max_running) values (p_queue, p_limit)
  on conflict (name) do update set max_running = excluded.max_running;
  perform _forget_queue(p_queue);
  perform _notify_need(p_queue, null);
  return p_limit;
end $$;

-- A queue about which nothing is special needs no row, and its claims need not look further.
create or replace function _forget_queue(p_queue text) returns void
language plpgsql set search_path from current
as $$
begin
  delete from queues where name = p_queue and paused_at is null and max_running is null;
end $$;
