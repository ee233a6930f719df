-- Reading jobs, live and archived.

create or replace view job_details as
select
  job_id, next_need, state, status, wait_for, payload, payload_bytes, task, tags, priority, singleton_key, resource_keys,
  available_at, expires_at, created_at, lease_id, lease_expires_at, lease_expiration_count, consecutive_expirations,
  assignee_id, assigned_at, started_at, finalized_at, last_retry_at, attempts, max_attempts, if_parent_fails, timeout_s,
  retry, error_message, last_error, errors, progress, null::jsonb as result, null::bytea as result_bytes, number
from jobs_with_status
union all
select
  job_id, next_need, state, state::text, wait_for, payload, payload_bytes, task, tags, priority, singleton_key, resource_keys,
  available_at, expires_at, created_at, lease_id, lease_expires_at, lease_expiration_count, consecutive_expirations,
  assignee_id, assigned_at, started_at, finalized_at, last_retry_at, attempts, max_attempts, if_parent_fails, timeout_s,
  retry, error_message, last_error, errors, null::jsonb, result, result_bytes, number
from jobs_archive;

-- One job, wherever it is. No row: there is none. One plan for all numbers: to plan anew for a number takes longer than to leave
-- out the parts of the archive in which it is not.
create or replace function get_job(p_job_id text) returns setof job_details
language plpgsql stable security definer
set search_path from current
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
  v_number bigint;
begin
  perform _require(p_job_id, 'p_job_id');
  v_number := _job_number(p_job_id);
  return query select * from job_details job where job.number = v_number and job.job_id = p_job_id;
end $$;

-- Counts of the jobs that have all these tags; none or empty: of all jobs.
create or replace function get_job_stats(p_tags text[] default null)
returns table (
  total_jobs bigint, pending_jobs bigint, running_jobs bigint, completed_jobs bigint, stopped_jobs bigint, failed_jobs bigint,
  total_retries bigint
)
language plpgsql stable security definer set search_path from current
as $$
begin
  perform _require_tags(p_tags);
  p_tags := nullif(p_tags, '{}');
  return query
    select
      coalesce(sum(counted.jobs), 0)::bigint,
      coalesce(sum(counted.jobs) filter (where counted.state in ('INITIAL_PENDING', 'RESCHEDULED')), 0)::bigint,
      coalesce(sum(counted.jobs) filter (where counted.state in ('RUNNING', 'CANCELLING')), 0)::bigint,
      coalesce(sum(counted.jobs) filter (where counted.state = 'COMPLETED'), 0)::bigint,
      coalesce(sum(counted.jobs) filter (where counted.state in ('STOPPED', 'UNSCHEDULED', 'UNKNOWN_STOPPED')), 0)::bigint,
      coalesce(sum(counted.jobs) filter (where counted.state in ('FAILED_RETRY', 'UNKNOWN_RETRY', 'DEAD')), 0)::bigint,
      coalesce(sum(counted.attempts), 0)::bigint
    from (
      select job.state, count(*) as jobs, sum(job.attempts) as attempts
      from jobs job where p_tags is null or job.tags @> p_tags group by job.state
      union all
      select job.state, count(*), sum(job.attempts)
      from archived_jobs job where p_tags is null or job.tags @> p_tags group by job.state
    ) as counted;
end $$;

-- Seed 002: held jobs whose last claim or extension is this long ago.
create or replace function list_stuck_jobs(p_stale_seconds double precision, p_limit integer default 1000)
returns setof job_details
language plpgsql stable security definer
set search_path from current
set jit = off
as $$
begin
  perform _require_positive(p_stale_seconds, 'p_stale_seconds');
  perform _require_limit(p_limit);
  return query
    select details.*
    from (
      select job.id, greatest(job.assigned_at, job.extended_at) as seen_at
      from jobs job
      where job.id = any (array(select held.number from _held_jobs() as held))
        and (job.state in ('RUNNING', 'CANCELLING')) is true
        and greatest(job.assigned_at, job.extended_at) < _clock() - p_stale_seconds * interval '1 second'
      order by seen_at, job.id
      limit p_limit
    ) as stuck
    -- Looked up one by one: a plain join reads every job and the whole archive.
    cross join lateral (select * from job_details job where job.number = stuck.id offset 0) as details
    order by stuck.seen_at, stuck.id;
end $$;

-- Dead letters, the latest first. Index: jobs_dead, from the latest on; without a queue, so in each queue that has some.
create or replace function list_dead_jobs(p_queue text default null, p_limit integer default 1000) returns setof job_details
language plpgsql stable security definer
set search_path from current
set enable_bitmapscan = off
set enable_seqscan = off
set jit = off
as $$
begin
  perform _require_limit(p_limit);
  return query
    with recursive lines (queue) as (
      select coalesce(p_queue, (select job.queue from jobs job where job.finalized_at is not null order by job.queue limit 1))
      union all
      select (select job.queue from jobs job where job.finalized_at is not null and job.queue > lines.queue order by job.queue limit 1)
      from lines
      where p_queue is null and lines.queue is not null
    )
    select details.*
    from (
      select latest.id, latest.finalized_at
      from lines
      cross join lateral (
        select job.id, job.finalized_at
        from jobs job
        where job.finalized_at is not null and job.queue = lines.queue
        order by job.finalized_at desc, job.id desc
        limit p_limit
      ) as latest
      order by latest.finalized_at desc, latest.id desc
      limit p_limit
    ) as dead
    cross join lateral (select * from job_details job where job.number = dead.id offset 0) as details
    order by dead.finalized_at desc, dead.id desc;
end $$;

-- The numbers of the jobs that have all these tags, live and archived, in no order and at most so many: whoever gets as many as
-- that knows the tags to be common. Index: jobs_by_tag, archived_jobs_by_tag.
create or replace function tagged_jobs(p_tags text[], p_limit integer default 10000) returns setof bigint
language plpgsql stable security definer
set search_path from current
set enable_seqscan = off
set jit = off
as $$
begin
  if p_tags is null or cardinality(p_tags) = 0 then
    raise exception 'tagged_jobs needs tags; it never means every job' using errcode = '22023';
  end if;
  perform _require_tags(p_tags);
  perform _require_limit(p_limit);
  return query
    select found.id
    from (
      select job.id from jobs job where job.tags is not null and job.tags @> p_tags
      union all
      select job.id from archived_jobs job where job.tags is not null and job.tags @> p_tags
    ) as found
    limit p_limit;
end $$;

-- How long each line is and how long its first has waited, for every queue with a live job and every paused or limited one
-- (max_running: the most that may be held at once). Counts each
-- kind of jobs up to the limit. Due and delayed: index jobs_ready; held: _held_jobs; dead: jobs_dead; blocked: the waits.
create or replace function get_queue_stats(p_limit integer default 10000)
returns table (
  queue text, paused_at timestamptz, due_jobs bigint, delayed_jobs bigint, blocked_jobs bigint, held_jobs bigint,
  dead_jobs bigint, oldest_due_at timestamptz, max_running integer
)
language plpgsql stable security definer
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _clock();
begin
  perform _require_limit(p_limit);
  return query
    with recursive lines (queue, priority) as (
      (select job.queue, job.priority
      from jobs job
      where job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
        and job.waiting_on = 0 and job.lapses_at is null and job.finalized_at is null
      order by job.queue, job.priority
      limit 1)
      union all
      select next.queue, next.priority
      from lines
      cross join lateral (
        select job.queue, job.priority
        from jobs job
        where job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
          and job.waiting_on = 0 and job.lapses_at is null and job.finalized_at is null
          and (job.queue, job.priority) > (lines.queue, lines.priority)
        order by job.queue, job.priority
        limit 1
      ) as next
    ), ready as (
      select lines.queue, min(first.available_at) as available_at
      from lines
      cross join lateral (
        select job.available_at
        from jobs job
        where job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
          and job.waiting_on = 0 and job.lapses_at is null and job.finalized_at is null
          and job.queue = lines.queue and job.priority = lines.priority
        order by job.available_at
        limit 1
      ) as first
      group by lines.queue
    ), graves (queue) as (
      select (select job.queue from jobs job where job.finalized_at is not null order by job.queue limit 1)
      union all
      select (
        select job.queue from jobs job where job.finalized_at is not null and job.queue > graves.queue order by job.queue limit 1)
      from graves
      where graves.queue is not null
    ), held as (
      select holding.queue, count(*) as jobs
      from _held_jobs() as holding
      group by holding.queue
    ), blocked as (
      select child.queue, count(*) as jobs
      from (select distinct waits.child_id from (select child_id from job_waits limit p_limit) as waits) as waiting
      cross join lateral (
        select job.queue from jobs job where job.id = waiting.child_id and job.state <> 'DEAD' offset 0
      ) as child
      group by child.queue
    ), named as (
      select ready.queue from ready
      union select graves.queue from graves where graves.queue is not null
      union select held.queue from held
      union select blocked.queue from blocked
      union select queues.name from queues
    )
    select
      named.queue, special.paused_at, waiting.due, waiting.delayed, coalesce(blocked.jobs, 0), coalesce(held.jobs, 0),
      (
        select count(*)
        from (select from jobs job where job.finalized_at is not null and job.queue = named.queue limit p_limit) as dead
      ),
      case when ready.available_at <= v_now then ready.available_at end,
      special.max_running
    from named
    cross join lateral (
      select
        count(*) filter (where job.available_at <= v_now) as due, count(*) filter (where job.available_at > v_now) as delayed
      from (
        select job.available_at
        from jobs job
        where job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
          and job.waiting_on = 0 and job.lapses_at is null and job.finalized_at is null
          and job.queue = named.queue
        limit p_limit
      ) as job
    ) as waiting
    left join queues special on special.name = named.queue
    left join ready on ready.queue = named.queue
    left join held on held.queue = named.queue
    left join blocked on blocked.queue = named.queue
    order by named.queue;
end $$;

-- The jobs that wait for this one, the first submitted first. Index: job_waits_by_parent.
create or replace function list_waiting_jobs(p_job_id text, p_limit integer default 1000) returns setof job_details
language plpgsql stable security definer
set search_path from current
set jit = off
as $$
begin
  perform _require(p_job_id, 'p_job_id');
  perform _require_limit(p_limit);
  return query
    select details.*
    from (
      select waits.child_id
      from job_waits waits
      where waits.parent_id = _job_number(p_job_id) and waits.parent = p_job_id
      order by waits.child_id
      limit p_limit
    ) as waiting
    cross join lateral (select * from job_details job where job.number = waiting.child_id offset 0) as details
    order by waiting.child_id;
end $$;

-- How many jobs ended within the last seconds, by how they ended, counted up to the limit. Index: archived_jobs_by_end, jobs_dead.
create or replace function count_ended_jobs(p_within_seconds double precision, p_limit integer default 100000)
returns table (state job_state, jobs bigint)
language plpgsql stable security definer
set search_path from current
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_since timestamptz;
begin
  perform _require_positive(p_within_seconds, 'p_within_seconds');
  perform _require_limit(p_limit);
  v_since := _clock() - p_within_seconds * interval '1 second';
  return query
    select ended.state, count(*)
    from (
      (select job.state from archived_jobs job where job.finalized_at > v_since limit p_limit)
      union all
      (select job.state from jobs job where job.finalized_at is not null and job.finalized_at > v_since limit p_limit)
    ) as ended
    group by ended.state
    order by ended.state;
end $$;

-- What a stream holds, as claim_jobs answered it: for an owner that does not know whether its last claim took effect. Waits
-- for claims of the stream that are still under way; those that begin meanwhile take nothing. Index: those of _held_jobs.
create or replace function jobs_of_stream(p_stream_id bigint)
returns table (
  job_id text, lease_id text, queue text, task text, payload jsonb, payload_bytes bytea, priority integer, tags text[],
  attempts integer, max_attempts integer, resource_keys text[], singleton_key text, timeout_s double precision, retry jsonb,
  available_at timestamptz, created_at timestamptz, lease_expires_at timestamptz, number bigint, started_at timestamptz,
  last_retry_at timestamptz, expires_at timestamptz, error_message text, if_parent_fails text
)
language plpgsql security definer
set search_path from current
set enable_seqscan = off
set jit = off
as $$
begin
  if p_stream_id is null then
    raise exception 'p_stream_id is required and was null' using errcode = '22023';
  end if;
  perform pg_advisory_xact_lock(p_stream_id);
  -- A statement of its own, so that it sees what was waited for.
  return query
    select
      _public_id(job.name, job.id), job.lease_id::text, job.queue, job.task, job.payload, job.payload_bytes, job.priority,
      job.tags, job.attempts, job.max_attempts, job.resource_keys, job.singleton_key, job.timeout_s, job.retry,
      job.available_at, job.created_at, job.lease_expires_at, job.id, job.started_at, job.last_retry_at, job.expires_at,
      job.error_message, job.if_parent_fails
    from jobs job
    where job.id = any (array(select held.number from _held_jobs() as held))
      and (job.state in ('RUNNING', 'CANCELLING') and job.stream_id = p_stream_id) is true
    order by job.id;
end $$;
