-- The mutation path, first half: jobs that are locked already and end now.
-- Order of effects, whatever the entry point: archive, release dependents, notify, trace.

-- Complete those of the given jobs that end without consequences: nobody waits for them, and the stream they came from is the
-- caller's. Keys and resources they hold are free then. What is left out here takes the long way through _settle, which
-- refuses or does the rest.
-- p_named: whether each id is a caller's own; null: none is.
-- Guard: the state, the lease and the worker (null: whoever), in the statement that deletes, in id order.
-- Index: the primary key, walked once in the order of ids, against a hash of what was given (other plans are switched off:
-- they read the whole table). Under "is true" nothing of the guard can become a condition that leads the planner elsewhere.
-- The memory keeps the hash in one piece, so that the order of locks stays the order of ids.
-- Arrays are unnested in the select list, which hands on one row after the other; in "from" each is stored first, and that,
-- with answering from what was inserted instead of what was deleted, made 100 completions cost 80 µs more.
create or replace function _complete_plain_jobs(
  p_ids bigint[],
  p_named boolean[],
  p_lease_ids text[],
  p_worker_id text,
  p_results jsonb[],
  p_result_bytes bytea[],
  p_stream_id bigint
) returns bigint[]
language plpgsql
set search_path from current
set enable_nestloop = off
set enable_mergejoin = off
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
set work_mem = '256MB'
as $$
declare
  v_now timestamptz := _clock();
  v_done bigint[];
  v_holders bigint[];
  v_traced boolean;
  v_left text[];                                      -- queues with a limit that have room now
begin
  -- What is left out here is locked by _settle, after what was taken here. So where a look without locks finds that some will
  -- be, all are locked first, in the one order: a cancellation or a submission may hold one of them and wait for another.
  if cardinality(p_ids) > 1 and exists (
    select from jobs job
    where job.id = any (p_ids)
      and (
        job.waiters > 0
        or job.state not in ('RUNNING', 'CANCELLING', 'UNKNOWN_RETRY')
        or job.stream_id is not null and job.stream_id is distinct from p_stream_id
      ))
  then
    perform _lock_jobs(p_ids);
  end if;

  with gone as (
    delete from jobs job
    using (
      select
        unnest(p_ids) as id, unnest(p_named) as named, unnest(p_lease_ids) as lease_id, unnest(p_results) as result,
        unnest(p_result_bytes) as result_bytes
    ) as finish
    where job.id = any (p_ids)
      and job.id = finish.id
      and (
        job.state in ('RUNNING', 'CANCELLING', 'UNKNOWN_RETRY')
        and (finish.lease_id is null or job.lease_id::text = finish.lease_id)
        and (p_worker_id is null or job.assignee_id = p_worker_id)
        and (job.name is not null) = coalesce(finish.named, false)
        and job.waiters = 0
        and (job.stream_id is null or job.stream_id = p_stream_id)
      ) is true
    -- What the last step reads comes first: a row is taken apart only as far as needed.
    returning
      job.id, job.has_holds, job.queue, job.available_at, job.created_at, job.lease_expires_at, job.assigned_at,
      job.started_at, job.lease_id, job.priority, job.attempts, job.lease_expiration_count, job.assignee_id, job.name,
      job.task, job.payload, job.payload_bytes, finish.result, finish.result_bytes, job.max_attempts, job.expires_at,
      job.last_retry_at, job.timeout_s, job.tags, job.resource_keys, job.singleton_key, job.if_parent_fails,
      job.error_message, job.error_traceback, job.retry
  ), kept as (
    insert into archived_jobs (
      id, available_at, created_at, finalized_at, lease_expires_at, assigned_at, started_at, lease_id, state, priority,
      attempts, lease_expiration_count, consecutive_expirations, queue, assignee_id, name, task, payload, payload_bytes,
      result, result_bytes, max_attempts, expires_at, last_retry_at, timeout_s, tags, resource_keys, singleton_key,
      if_parent_fails, error_message, error_traceback, retry)
    select
      gone.id, gone.available_at, gone.created_at, v_now, gone.lease_expires_at, gone.assigned_at, gone.started_at,
      gone.lease_id, 'COMPLETED', gone.priority, gone.attempts, gone.lease_expiration_count, 0, gone.queue,
      gone.assignee_id, gone.name, gone.task, gone.payload, gone.payload_bytes, gone.result, gone.result_bytes,
      gone.max_attempts, gone.expires_at, gone.last_retry_at, gone.timeout_s, gone.tags, gone.resource_keys,
      gone.singleton_key, gone.if_parent_fails, gone.error_message, gone.error_traceback, gone.retry
    from gone
  )
  select
    array_agg(gone.id), array_agg(gone.id) filter (where gone.has_holds),
    (select settings.trace_level = 'all' from settings where settings.only_row),
    (
      select array_agg(distinct gone.queue) from gone
      where exists (select from queues where queues.max_running is not null)
    )
  into v_done, v_holders, v_traced, v_left
  from gone;
  if v_holders is not null then
    delete from holds where job_id = any (v_holders);
  end if;
  if v_left is not null then
    perform _notify_needs(null, v_left);
  end if;
  if v_traced and v_done is not null then
    perform _trace_finished(v_done, null, p_worker_id, '{}');
  end if;
  return v_done;
end $$;

-- Move jobs that are locked and judged already into the archive and free what they held. Deletes in id order.
-- Answers what the next steps need to know: which had dependents, whether others' streams have room now, and the queues of
-- those that were held.
-- Index: the primary key, by nested loop from the given ids (other plans are switched off: they read the whole table).
create or replace function _archive_and_delete_jobs(
  p_ids bigint[],
  p_operations text[],
  p_targets job_state[],
  p_results jsonb[],
  p_result_bytes bytea[],
  p_messages text[],
  p_tracebacks text[],
  p_stream_id bigint,
  out o_parents bigint[],
  out o_streams_freed boolean,
  out o_left text[]
)
language plpgsql
set search_path from current
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := _clock();
  v_holders bigint[];
  v_children bigint[];
  v_counted boolean;
begin
  with gone as (
    delete from jobs job
    using (
      select *
      from unnest(p_ids, p_operations, p_targets, p_results, p_result_bytes, p_messages, p_tracebacks)
        as given (id, operation, target, result, result_bytes, message, traceback)
      order by given.id
    ) as finish
    where job.id = finish.id
    -- What the last step reads comes first: a row is taken apart only as far as needed.
    returning
      job.id, job.waiters, job.has_holds, job.waiting_on, job.state, job.stream_id, finish.operation,
      finish.target, finish.result, finish.result_bytes, finish.message, finish.traceback,
      job.available_at, job.created_at, job.lease_expires_at, job.assigned_at, job.started_at, job.lease_id, job.priority,
      job.attempts, job.lease_expiration_count, job.consecutive_expirations, job.queue, job.assignee_id, job.name, job.task,
      job.payload, job.payload_bytes, job.max_attempts, job.expires_at, job.last_retry_at, job.timeout_s, job.tags,
      job.resource_keys, job.singleton_key, job.if_parent_fails, job.error_message, job.error_traceback, job.retry
  ), kept as (
    insert into archived_jobs (
      id, available_at, created_at, finalized_at, lease_expires_at, assigned_at, started_at, lease_id, state, priority,
      attempts, lease_expiration_count, consecutive_expirations, queue, assignee_id, name, task, payload, payload_bytes,
      result, result_bytes, max_attempts, expires_at, last_retry_at, timeout_s, tags, resource_keys, singleton_key,
      if_parent_fails, error_message, error_traceback, retry, wait_for, forfeited_stream_id)
    select
      gone.id, gone.available_at, gone.created_at, v_now, gone.lease_expires_at, gone.assigned_at, gone.started_at,
      gone.lease_id, gone.target, gone.priority,
      case gone.operation when 'stop_with_retry' then gone.attempts + 1 else gone.attempts end,
      gone.lease_expiration_count
        + case gone.operation when 'lapse' then 1 else 0 end,
      case
        when gone.target = 'COMPLETED' then 0
        when gone.operation = 'lapse' then gone.consecutive_expirations + 1
        else gone.consecutive_expirations
      end,
      gone.queue, gone.assignee_id, gone.name, gone.task, gone.payload, gone.payload_bytes,
      gone.result, gone.result_bytes, gone.max_attempts, gone.expires_at,
      case gone.operation when 'stop_with_retry' then v_now else gone.last_retry_at end,
      gone.timeout_s, gone.tags, gone.resource_keys, gone.singleton_key, gone.if_parent_fails,
      case when gone.message is null then gone.error_message else gone.message end,
      case when gone.message is null then gone.error_traceback else gone.traceback end,
      gone.retry,
      case when gone.waiting_on > 0
        then array(select waits.parent from job_waits waits where waits.child_id = gone.id order by waits.position)
      end,
      case gone.operation when 'acknowledge_not_executing' then gone.stream_id end
    from gone
  )
  select
    array_agg(gone.id) filter (where gone.waiters > 0),
    array_agg(gone.id) filter (where gone.has_holds),
    array_agg(gone.id) filter (where gone.waiting_on > 0),
    bool_or(gone.operation = 'stop_with_retry'),
    coalesce(bool_or(
      gone.state in ('RUNNING', 'CANCELLING') and gone.stream_id is not null
      and gone.stream_id is distinct from p_stream_id), false),
    array_agg(gone.queue) filter (where gone.state in ('RUNNING', 'CANCELLING'))
  into o_parents, v_holders, v_children, v_counted, o_streams_freed, o_left
  from gone;

  if v_holders is not null then
    delete from holds where job_id = any (v_holders);
  end if;
  if v_children is not null then
    delete from job_waits where child_id = any (v_children);
  end if;
  if v_counted then
    insert into job_errors (job_id, attempt, at, worker_id, message, traceback)
    select job.id, job.attempts, v_now, job.assignee_id, coalesce(finish.message, ''), finish.traceback
    from unnest(p_ids, p_operations, p_messages, p_tracebacks) as finish (id, operation, message, traceback)
    join archived_jobs job on job.id = finish.id
    where finish.operation = 'stop_with_retry';
  end if;
end $$;

-- Everything that happens when locked and judged jobs end.
-- p_wake: jobs that became ready in the same statement, so that one signal per queue serves them and the dependents released
-- here. p_dead: jobs that died in it, whose dependents hear of it here, after the ends, because a dependent may be among them.
create or replace function _finish_locked_jobs(
  p_ids bigint[],
  p_operations text[],
  p_targets job_state[],
  p_results jsonb[] default null,
  p_result_bytes bytea[] default null,
  p_messages text[] default null,
  p_tracebacks text[] default null,
  p_worker_id text default null,
  p_stream_id bigint default null,
  p_trace_context jsonb default '{}',
  p_wake bigint[] default null,
  p_dead bigint[] default null
) returns void
language plpgsql set search_path from current
as $$
declare
  v_parents bigint[];
  v_streams_freed boolean;
  v_left text[];
  v_wake bigint[] := p_wake;
begin
  select done.o_parents, done.o_streams_freed, done.o_left
  into v_parents, v_streams_freed, v_left
  from _archive_and_delete_jobs(
    p_ids, p_operations, p_targets, p_results, p_result_bytes, p_messages, p_tracebacks, p_stream_id) as done;

  if p_dead is not null then
    v_parents := v_parents || p_dead;
  end if;
  if v_parents is not null then
    v_wake := v_wake || _update_waiters(v_parents, p_worker_id);
  end if;
  if v_wake is not null or v_left is not null then
    perform _notify_needs(v_wake, v_left);
  end if;
  if v_streams_freed then
    perform _notify_freed();
  end if;
  if _traces_ends(p_operations) then
    perform _trace_finished(p_ids, p_operations, p_worker_id, p_trace_context);
  end if;
end $$;

-- Whether anything of these endings goes into the trace (no operations: completions only).
create or replace function _traces_ends(p_operations text[]) returns boolean
language plpgsql stable set search_path from current
as $$
begin
  return case (select trace_level from settings where only_row)
    when 'all' then true
    when 'exceptions' then not coalesce(p_operations <@ array['complete'], true)
    else false
  end;
end $$;

create or replace function _trace_finished(
  p_ids bigint[], p_operations text[], p_worker_id text, p_trace_context jsonb
) returns void
language plpgsql
set search_path from current
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
set jit = off
as $$
begin
  perform _emit_trace_events(
    array_agg(_public_id(job.name, job.id)), array_agg(ended.event), array_agg(coalesce(p_worker_id, job.assignee_id)),
    array_agg(
      jsonb_strip_nulls(jsonb_build_object('operation', ended.operation, 'lease_id', job.lease_id)) || p_trace_context),
    array_agg(jsonb_build_object('state', job.state, 'attempts', job.attempts)))
  from (
    select
      finish.id,
      coalesce(finish.operation, 'complete') as operation,
      case coalesce(finish.operation, 'complete')
        when 'complete' then 'job_finished'
        when 'stop_with_retry' then 'job_failed'
        when 'lapse' then 'lease_expired'
        when 'release' then 'job_released'
        else 'job_cancelled'
      end as event
    from unnest(p_ids, p_operations) as finish (id, operation)
  ) as ended
  join archived_jobs job on job.id = ended.id;
end $$;

-- Seed 003's single forms. Each is its set-based sibling with one element.

create or replace function _archive_and_delete_job(p_locked_job jobs_with_status) returns jobs_archive
language plpgsql set search_path from current
as $$
declare
  v_row jobs_archive;
begin
  perform _archive_and_delete_jobs(
    array[p_locked_job.number], array['complete'], array['COMPLETED'::job_state], null, null, null, null, null);
  select archive.* into v_row from jobs_archive archive where archive.number = p_locked_job.number;
  return v_row;
end $$;

create or replace function _complete_locked_job(
  p_locked_job jobs_with_status,
  p_worker_id text,
  p_trace_context jsonb default '{}'
) returns boolean
language plpgsql set search_path from current
as $$
begin
  perform _finish_locked_jobs(
    array[p_locked_job.number], array['complete'], array['COMPLETED'::job_state],
    p_worker_id => p_worker_id, p_trace_context => coalesce(p_trace_context, '{}'));
  return true;
end $$;
