-- The mutation path, second half: locked jobs that go back in line, or to DEAD. Answers the jobs to wake workers for: those in
-- line, and dead ones that make room in a queue with a limit.
-- p_carry_over: those who wait for the dead ones hear of it now, not from the caller later.
--
--   fail, requeue            attempts + 1, error kept with its history; lease cleared
--   reschedule, undelivered  attempts untouched; lease cleared
--   release, lapse           lease id kept, so that a late result is still taken until the next claim
create or replace function _hand_back_locked_jobs(
  p_ids bigint[],
  p_operations text[],
  p_targets job_state[],
  p_messages text[] default null,
  p_tracebacks text[] default null,
  p_available_at timestamptz[] default null,
  p_delays double precision[] default null,
  p_queues text[] default null,
  p_payloads jsonb[] default null,
  p_worker_id text default null,
  p_stream_id bigint default null,
  p_trace_context jsonb default '{}',
  p_carry_over boolean default true
) returns bigint[]
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
  v_dead_parents bigint[];
  v_holders bigint[];
  v_streams_freed boolean;
  v_wake bigint[];
  v_job_ids text[];
  v_events text[];
  v_worker_ids text[];
  v_inputs jsonb[];
  v_outputs jsonb[];
  v_moves text;
begin
  v_moves := set_config('holdfast.moves_leases', 'on', true);
  with back as (
    update jobs job
    set state = given.target,
        available_at = case
          when given.target = 'DEAD' or not given.voluntary then job.available_at
          else coalesce(given.available_at, v_now + coalesce(given.delay, 0) * interval '1 second')
        end,
        attempts = job.attempts + given.counted::integer,
        last_retry_at = case when given.counted then v_now else job.last_retry_at end,
        error_message = case when given.message is null then job.error_message else given.message end,
        error_traceback = case when given.message is null then job.error_traceback else given.traceback end,
        finalized_at = case when given.target = 'DEAD' then v_now end,
        lease_id = case when given.voluntary then null else job.lease_id end,
        lease_expires_at = case when given.voluntary then null else job.lease_expires_at end,
        lease_expiration_count = job.lease_expiration_count + given.lapsed::integer,
        consecutive_expirations = case
          -- Only whoever ran the job can end its streak of lapses, not a person who moves it while nobody holds it.
          when given.operation = 'reschedule' and job.state <> 'RUNNING' then job.consecutive_expirations
          when given.voluntary then 0
          else job.consecutive_expirations + given.lapsed::integer
        end,
        queue = coalesce(given.queue, job.queue),
        payload = coalesce(given.payload, job.payload),
        payload_bytes = case when given.payload is null then job.payload_bytes end,
        has_holds = false,
        lapses_at = null
    from (
      select
        wish.*,
        wish.operation in ('fail', 'requeue') as counted,
        wish.operation = 'lapse' as lapsed,
        wish.operation not in ('release', 'lapse') as voluntary
      from (
        select
          asked.id, asked.operation, asked.target, asked.traceback, asked.available_at, asked.delay, asked.queue, asked.payload,
          -- What a reschedule says is a reason for the trace, not an error of the job.
          case
            when asked.operation in ('reschedule', 'undelivered_to_worker') then null
            when asked.operation = 'undelivered' then coalesce(asked.message, 'the stream ended before it delivered this job')
            else asked.message
          end as message,
          case
            when asked.operation = 'reschedule' then asked.message
            when asked.operation in ('undelivered', 'undelivered_to_worker') then 'undelivered'
          end as reason
        from unnest(
          p_ids, p_operations, p_targets, p_messages, p_tracebacks, p_available_at, p_delays, p_queues, p_payloads)
          as asked (id, operation, target, message, traceback, available_at, delay, queue, payload)
      ) as wish
    ) as given
    join jobs old on old.id = given.id
    where job.id = given.id
    returning
      job.id, job.name, job.state, job.queue, job.attempts, job.waiters, job.assignee_id, job.available_at, job.stream_id,
      old.state as old_state, old.lease_id as old_lease_id, old.has_holds as had_holds,
      given.operation, given.counted, given.message, given.traceback, given.reason
  ), failures as (
    insert into job_errors (job_id, attempt, at, worker_id, message, traceback)
    select back.id, back.attempts, v_now, coalesce(p_worker_id, back.assignee_id), coalesce(back.message, ''), back.traceback
    from back
    where back.counted
  )
  select
    array_agg(back.id) filter (
      where back.state <> 'DEAD'
        or exists (select from queues where queues.name = back.queue and queues.max_running is not null)),
    array_agg(back.id) filter (where back.state = 'DEAD' and back.waiters > 0),
    array_agg(back.id) filter (where back.had_holds),
    coalesce(bool_or(
      back.old_state in ('RUNNING', 'CANCELLING') and back.stream_id is not null
      and back.stream_id is distinct from p_stream_id), false),
    array_agg(_public_id(back.name, back.id)),
    array_agg(case
      when back.state = 'DEAD' then 'job_dead'
      when back.counted then 'job_failed'
      when back.operation = 'lapse' then 'lease_expired'
      when back.operation = 'release' then 'job_released'
      else 'reschedule_job'
    end),
    array_agg(coalesce(p_worker_id, back.assignee_id)),
    array_agg(
      jsonb_strip_nulls(jsonb_build_object(
        'operation', back.operation, 'lease_id', back.old_lease_id, 'reason', back.reason)) || p_trace_context),
    array_agg(jsonb_build_object('state', back.state, 'attempts', back.attempts, 'available_at', back.available_at))
  into
    v_wake, v_dead_parents, v_holders, v_streams_freed, v_job_ids, v_events, v_worker_ids, v_inputs, v_outputs
  from back;
  v_moves := set_config('holdfast.moves_leases', 'off', true);

  if v_holders is not null then
    delete from holds where job_id = any (v_holders);
  end if;
  if v_dead_parents is not null and p_carry_over then
    v_wake := v_wake || _update_waiters(v_dead_parents, p_worker_id);
  end if;
  if v_streams_freed then
    perform _notify_freed();
  end if;
  perform _emit_trace_events(v_job_ids, v_events, v_worker_ids, v_inputs, v_outputs);
  return v_wake;
end $$;
