-- Leases: extending, sweeping, completing and rescheduling under one, and what may be done to a job nobody holds.

-- Seed 003: extend one lease. Guard: RUNNING under this lease, and not lapsed. Never shortens it.
create or replace function extend_lease(
  p_job_id text, p_lease_id text, p_worker_id text, p_additional_seconds integer default 60
) returns timestamptz
language plpgsql security definer set search_path from current
as $$
declare
  v_job jobs_with_status;
  v_until timestamptz;
  v_moves text;
begin
  perform _require(p_lease_id, 'p_lease_id');
  perform _require(p_worker_id, 'p_worker_id');
  perform _require_positive(p_additional_seconds, 'p_additional_seconds');
  v_job := _lock_job_for_status(p_job_id, 'ACTIVE', p_lease_id, format('job "%s" cannot be extended', p_job_id));
  if v_job.state <> 'RUNNING' then
    perform _refuse(p_job_id, 'extend', 'wrong_state', v_job.state);
  end if;
  v_moves := set_config('holdfast.moves_leases', 'on', true);
  update jobs job
  set lease_expires_at = extended.until, lapses_at = extended.until, extended_at = _clock()
  from (select greatest(v_job.lease_expires_at, _clock() + p_additional_seconds * interval '1 second') as until) as extended
  where job.id = v_job.number
  returning job.lease_expires_at into v_until;
  v_moves := set_config('holdfast.moves_leases', 'off', true);
  perform _emit_trace_event(
    p_job_id, 'lease_extended', p_worker_id, jsonb_build_object('lease_id', p_lease_id, 'seconds', p_additional_seconds),
    jsonb_build_object('lease_expires_at', v_until));
  return v_until;
end $$;

-- A worker's keeper: extend what is still its own and learn about the rest. Verdicts, in the order given:
--   extended; cancelling (extended too: stop the handler); lapsed (nobody has claimed it since: carry on, a late result is
--   welcome); taken (claimed by another or handed back, and perhaps ended since: stop, nothing you write counts); ended
--   (somebody finished it under this lease, or deleted it).
-- Guard: id + lease + not lapsed, under the row lock, taken in id order. A job that somebody is changing right now is left as
-- it is: waiting for one would let all others lapse.
create or replace function extend_leases(p_job_ids text[], p_lease_ids text[], p_seconds double precision)
returns table (job_id text, verdict text, state job_state, lease_expires_at timestamptz, slot_forfeited boolean)
language plpgsql security definer
set search_path from current
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_ids bigint[];
  v_live bigint[];
  v_now timestamptz;
  v_moves text;
begin
  perform _require_positive(p_seconds, 'p_seconds');
  if cardinality(p_job_ids) is distinct from cardinality(p_lease_ids) then
    raise exception 'extend_leases: % job ids but % leases', coalesce(cardinality(p_job_ids), 0),
      coalesce(cardinality(p_lease_ids), 0) using errcode = '22023';
  end if;
  if array_position(p_job_ids, null) is not null or '' = any (p_job_ids) then
    raise exception 'extend_leases: a job id is null or empty' using errcode = '22023';
  end if;
  select resolved.o_ids into v_ids from _resolve(p_job_ids) as resolved;

  -- The state is looked at outside: nothing of the guard is to lead the planner away from the primary key.
  select array_agg(held.id) filter (where held.state in ('RUNNING', 'CANCELLING'))
  into v_live
  from (
    select job.id, job.state
    from (
      select asked.id, asked.job_id, asked.lease_id
      from unnest(v_ids, p_job_ids, p_lease_ids) as asked (id, job_id, lease_id)
      order by asked.id
    ) as asked
    join jobs job on job.id = asked.id and _public_id(job.name, job.id) = asked.job_id
    where job.lease_id::text = asked.lease_id
    for update of job skip locked
  ) as held;

  v_now := _clock();
  v_moves := set_config('holdfast.moves_leases', 'on', true);
  update jobs job
  set lease_expires_at = greatest(job.lease_expires_at, v_now + p_seconds * interval '1 second'),
      lapses_at = greatest(job.lease_expires_at, v_now + p_seconds * interval '1 second'),
      extended_at = v_now
  where job.id = any (v_live)
    and job.lease_expires_at > v_now;
  v_moves := set_config('holdfast.moves_leases', 'off', true);
  if trace_level() = 'all' then
    perform _emit_trace_events(
      array_agg(_public_id(job.name, job.id)), array_agg('lease_extended'::text), array_agg(job.assignee_id),
      array_agg(jsonb_build_object('lease_id', job.lease_id, 'seconds', p_seconds)),
      array_agg(jsonb_build_object('lease_expires_at', job.lease_expires_at)))
    from jobs job
    where job.id = any (v_live) and job.extended_at = v_now;
  end if;

  return query
    select
      asked.job_id,
      case
        when job.id is null and ended.lease_id::text <> asked.lease_id then 'taken'
        when job.id is null then 'ended'
        when (job.lease_id::text = asked.lease_id) is not true then 'taken'
        when job.state in ('RUNNING', 'CANCELLING') and job.lease_expires_at > v_now then
          case job.state when 'RUNNING' then 'extended' else 'cancelling' end
        when job.state = 'DEAD' then 'ended'
        else 'lapsed'
      end,
      coalesce(job.state, ended.state),
      job.lease_expires_at,
      coalesce(ended.forfeited_stream_id is not null and ended.lease_id::text = asked.lease_id, false)
    from unnest(v_ids, p_job_ids, p_lease_ids) with ordinality as asked (id, job_id, lease_id, place)
    left join jobs job on job.id = asked.id and _public_id(job.name, job.id) = asked.job_id
    left join archived_jobs ended on ended.id = asked.id and _public_id(ended.name, ended.id) = asked.job_id
    order by asked.place;
end $$;

-- Make the lapse of overdue leases true: RUNNING becomes UNKNOWN_RETRY, CANCELLING becomes UNKNOWN_STOPPED.
-- Leaderless: any number may do it at once; locked rows are skipped, and so is a cancelled job whose end would concern a
-- locked one. Index: jobs_held, from the most overdue on; the claims to be looked at.
create or replace function _sweep(p_limit integer) returns bigint[]
language plpgsql
set search_path from current
as $$
declare
  v_now timestamptz := _clock();
  v_reviewed constant record := _review_claims(v_now);
  v_in_line constant bigint[] := v_reviewed.o_overdue;
  v_ids bigint[];
  v_parents bigint[];
  v_parent bigint;
begin
  select array_agg(overdue.id), array_agg(overdue.id) filter (where overdue.state = 'CANCELLING' and overdue.waiters > 0)
  into v_ids, v_parents
  from (
    select job.id, job.state, job.waiters
    from jobs job
    where job.lapses_at <= v_now
    order by job.lapses_at
    limit p_limit
    for update skip locked
  ) as overdue;
  if v_in_line is not null then
    select
      v_ids || array_agg(overdue.id),
      v_parents || array_agg(overdue.id) filter (where overdue.state = 'CANCELLING' and overdue.waiters > 0)
    into v_ids, v_parents
    from (
      select job.id, job.state, job.waiters
      from jobs job
      where job.id = any (v_in_line)
        and (
          job.state in ('RUNNING', 'CANCELLING') and job.lapses_at is null and job.lease_expires_at <= v_now
        ) is true
      order by job.id
      limit p_limit - coalesce(cardinality(v_ids), 0)
      for update skip locked
    ) as overdue;
  end if;
  if v_parents is not null then
    foreach v_parent in array v_parents loop
      if not _try_lock_jobs(_descendants(array[v_parent])) then
        v_ids := array_remove(v_ids, v_parent);
      end if;
    end loop;
  end if;
  if cardinality(v_ids) > 0 then
    perform _settle(v_ids, array_fill('lapse'::text, array[cardinality(v_ids)]));
  end if;
  if v_in_line <@ v_ids then
    perform _forget_claims(v_reviewed.o_claims);
  end if;
  return v_ids;
end $$;

-- Make the lapse of overdue leases true now; claims do it too. Answers the jobs and what they became.
create or replace function lapse_leases(p_limit integer default 1000) returns table (job_id text, state job_state)
language plpgsql security definer
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_ids bigint[];
begin
  perform _require_limit(p_limit);
  v_ids := _sweep(p_limit);
  return query
    select _public_id(job.name, job.id), job.state from jobs job where job.id = any (v_ids)
    union all
    select _public_id(job.name, job.id), job.state from archived_jobs job where job.id = any (v_ids);
end $$;

-- Release every job a worker holds, because it is known to be gone. Answers how many changed.
create or replace function mark_worker_unresponsive(p_worker_id text) returns integer
language plpgsql security definer set search_path from current
as $$
declare
  v_ids bigint[];
begin
  perform _require(p_worker_id, 'p_worker_id');
  v_ids := array(
    select job.id from jobs job
    where job.id = any (array(select held.number from _held_jobs() as held))
      and (job.state in ('RUNNING', 'CANCELLING') and job.assignee_id = p_worker_id) is true
    order by job.id
    for update);
  return _release_all(v_ids, 'worker_unresponsive');
end $$;

-- Release every held job, whoever holds it: for a start after everything was down. Answers how many changed.
create or replace function reset_running_jobs() returns integer
language plpgsql security definer set search_path from current
as $$
begin
  return _release_all(
    array(
      select job.id from jobs job
      where job.id = any (array(select held.number from _held_jobs() as held))
        and (job.state in ('RUNNING', 'CANCELLING')) is true
      order by job.id
      for update),
    'reset');
end $$;

create or replace function _release_all(p_ids bigint[], p_reason text) returns integer
language plpgsql set search_path from current
as $$
begin
  if cardinality(p_ids) > 0 then
    perform _settle(
      p_ids, array_fill('release'::text, array[cardinality(p_ids)]),
      p_trace_context => jsonb_build_object('reason', p_reason));
  end if;
  return cardinality(p_ids);
end $$;

-- Seed 003: complete under a lease that has not lapsed.
create or replace function complete_job(
  p_job_id text, p_lease_id text, p_worker_id text, p_trace_context jsonb default '{}'
) returns boolean
language plpgsql security definer set search_path from current
as $$
begin
  perform _require(p_lease_id, 'p_lease_id');
  perform _require(p_worker_id, 'p_worker_id');
  return _complete_locked_job(
    _lock_job_for_status(p_job_id, 'ACTIVE', p_lease_id, format('job "%s" cannot be completed', p_job_id)),
    p_worker_id, coalesce(p_trace_context, '{}'));
end $$;

-- Seed 003: put a locked job back in line with another need, dependencies or payload. A null key keeps the key: it is fixed
-- at submission. A held job becomes RESCHEDULED; one nobody holds keeps its waiting state.
create or replace function _reschedule_locked_job(
  p_locked_job jobs_with_status,
  p_worker_id text,
  p_next_need text,
  p_wait_for text[],
  p_singleton_key text,
  p_available_at timestamptz,
  p_trace_context jsonb default '{}',
  p_payload jsonb default null
) returns table (job_id text, next_need text, wait_for text[], available_at timestamptz)
language plpgsql set search_path from current
as $$
#variable_conflict use_column
declare
  v_wake bigint[];
begin
  perform _require_queue(p_next_need, 'p_next_need');
  if p_singleton_key is distinct from p_locked_job.singleton_key and p_singleton_key is not null then
    raise exception 'job "%" was submitted with singleton key %, which no reschedule changes',
      p_locked_job.job_id, coalesce(quote_literal(p_locked_job.singleton_key), 'none') using errcode = '22023';
  end if;
  if p_available_at in ('infinity', '-infinity') then
    raise exception 'p_available_at must be finite' using errcode = '22023';
  end if;
  if p_payload is not null then
    -- Without its id, which a caller could not choose if Holdfast generated it.
    perform _check_submission(
      null, null, array[p_payload], null, null, null, null, null, null, null, null);
  end if;
  perform _set_waits(p_locked_job.number, p_wait_for, p_locked_job.if_parent_fails);
  v_wake := _hand_back_locked_jobs(
    array[p_locked_job.number], array['reschedule'],
    array[case when p_locked_job.state = 'RUNNING' then 'RESCHEDULED' else p_locked_job.state end],
    p_available_at => array[p_available_at], p_queues => array[p_next_need], p_payloads => array[p_payload],
    p_worker_id => p_worker_id,
    p_trace_context => jsonb_strip_nulls(jsonb_build_object('lease_id', p_locked_job.lease_id)) || p_trace_context);
  if p_locked_job.if_parent_fails is not null then
    v_wake := v_wake || _follow_failed_parents(array[p_locked_job.number], p_worker_id);
  end if;
  perform _notify_needs(v_wake, array[case when p_locked_job.state = 'RUNNING' then p_locked_job.next_need end]);
  return query
    select
      p_locked_job.job_id, p_next_need,
      array(select waits.parent from job_waits waits where waits.child_id = job.id order by waits.position), job.available_at
    from (
      select live.id, live.available_at from jobs live
      union all
      select ended.id, ended.available_at from archived_jobs ended  -- it followed a parent that had failed
    ) as job
    where job.id = p_locked_job.number;
end $$;

-- Lock a job about to wait together with those it will wait for, because locks of several jobs are taken in one order.
create or replace function _lock_with_parents(p_job_id text, p_wait_for text[]) returns void
language plpgsql set search_path from current
as $$
begin
  if cardinality(p_wait_for) > 0 then
    perform _lock_jobs(array(select _job_number(named.job_id) from unnest(p_wait_for || p_job_id) as named (job_id)));
  end if;
end $$;

-- Seed 003: hand a running job back under its lease, with another need, dependencies, time or payload (null: keep). Costs no
-- attempt. A dependency that would close a cycle is an error that names it.
create or replace function reschedule_job(
  p_job_id text, p_lease_id text, p_worker_id text, p_next_need text, p_wait_for text[] default '{}',
  p_available_at timestamptz default null, p_payload jsonb default null, p_reason text default null,
  p_trace_context jsonb default '{}'
) returns table (job_id text, next_need text, wait_for text[], available_at timestamptz)
language plpgsql security definer set search_path from current
as $$
#variable_conflict use_column
declare
  v_job jobs_with_status;
begin
  perform _require(p_lease_id, 'p_lease_id');
  perform _require(p_worker_id, 'p_worker_id');
  perform _require_queue(p_next_need, 'p_next_need');
  perform _lock_with_parents(p_job_id, p_wait_for);
  v_job := _lock_job_for_status(p_job_id, 'ACTIVE', p_lease_id, format('job "%s" cannot be rescheduled', p_job_id));
  if v_job.state <> 'RUNNING' then
    perform _refuse(p_job_id, 'reschedule', 'wrong_state', v_job.state);
  end if;
  return query
    select * from _reschedule_locked_job(
      v_job, p_worker_id, p_next_need, p_wait_for, null, p_available_at,
      coalesce(p_trace_context, '{}') || jsonb_strip_nulls(jsonb_build_object('reason', p_reason)), p_payload);
end $$;

-- Lock a job that nobody holds and that nothing keeps from running but a crash concern or its expiry. An overdue lease on it
-- is swept first.
create or replace function _lock_unheld_job(p_job_id text, p_operation text) returns jobs_with_status
language plpgsql set search_path from current
as $$
declare
  v_job jobs := _lock_live_job(p_job_id, p_operation);
  v_row jobs_with_status;
begin
  if v_job.state in ('RUNNING', 'CANCELLING') and v_job.lease_expires_at <= _clock() then
    perform _settle(array[v_job.id], array['lapse']);
  end if;
  select job.* into v_row from jobs_with_status job where job.number = v_job.id;
  if v_row.number is null or v_row.status not in ('READY', 'CRASH_CONCERN', 'EXPIRED') then
    raise exception '%: job "%" is % (%), not a job that waits, held by nobody and blocked by nothing', p_operation, p_job_id,
      coalesce(v_row.state, _end_of(p_job_id)), coalesce(v_row.status, 'ended') using errcode = 'HF003';
  end if;
  return v_row;
end $$;

-- Seed 003: complete a job that nobody holds: READY, CRASH_CONCERN or EXPIRED; an overdue lease is swept first.
create or replace function complete_unheld_job(p_job_id text, p_worker_id text) returns boolean
language plpgsql security definer set search_path from current
as $$
begin
  perform _require(p_worker_id, 'p_worker_id');
  return _complete_locked_job(
    _lock_unheld_job(p_job_id, 'complete_unheld'), p_worker_id, '{"unheld": true, "note": "without lease"}');
end $$;

-- Seed 003: change a job that nobody holds; it keeps its waiting state.
create or replace function reschedule_unheld_job(
  p_job_id text, p_worker_id text, p_next_need text, p_wait_for text[] default '{}',
  p_available_at timestamptz default null, p_payload jsonb default null
) returns table (job_id text, next_need text, wait_for text[], available_at timestamptz)
language plpgsql security definer set search_path from current
as $$
#variable_conflict use_column
begin
  perform _require(p_worker_id, 'p_worker_id');
  perform _require_queue(p_next_need, 'p_next_need');
  perform _lock_with_parents(p_job_id, p_wait_for);
  return query
    select * from _reschedule_locked_job(
      _lock_unheld_job(p_job_id, 'reschedule_unheld'), p_worker_id, p_next_need, p_wait_for, null, p_available_at,
      '{"unheld": true, "note": "without lease"}', p_payload);
end $$;

-- A worker's word on how far it is. Guard: held under this lease; false: the lease is lost and nothing changed.
create or replace function report_progress(
  p_job_id text, p_lease_id text, p_done double precision, p_total double precision default null,
  p_message text default null
) returns boolean
language plpgsql security definer set search_path from current
as $$
declare
  v_job jobs;
begin
  perform _require(p_lease_id, 'p_lease_id');
  perform _require(p_done::text, 'p_done');
  v_job := _lock_job(p_job_id);
  if v_job.id is null or v_job.lease_id::text is distinct from p_lease_id or v_job.state not in ('RUNNING', 'CANCELLING') then
    return false;
  end if;
  update jobs job
  set progress = jsonb_build_object('done', p_done, 'total', p_total, 'message', p_message, 'at', _clock())
  where job.id = v_job.id;
  return true;
end $$;
