-- Settling: what an execution came to, for many jobs at once, with a verdict for each. Every other change of a held job
-- (release, lapse, cancel) comes through here too, so there is one place that locks, decides and applies.

-- Guard: a given lease must be the job's lease, a given worker its holder, the state one the operation starts from; all
-- tested under the row lock, taken in id order. A refused job is left alone; a null id is passed over.
-- Verdicts: settled; lease_lost (claimed by another, handed back, or never the caller's); already (this very lease has
-- settled it so: the answer to a repeated call whose first reply was lost); wrong_state; not_found.
create or replace function _settle(
  p_ids bigint[],
  p_operations text[],
  p_lease_ids text[] default null,
  p_named boolean[] default null,
  p_results jsonb[] default null,
  p_result_bytes bytea[] default null,
  p_messages text[] default null,
  p_tracebacks text[] default null,
  p_delays double precision[] default null,
  p_available_at timestamptz[] default null,
  p_permanent boolean[] default null,
  p_worker_id text default null,
  p_stream_id bigint default null,
  p_trace_context jsonb default '{}',
  p_recorded_worker_id text default null
) returns table (ordinal bigint, reason text, state job_state)
language plpgsql
set search_path from current
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_recorded text := coalesce(p_recorded_worker_id, p_worker_id);
  v_ordinals bigint[];
  v_reasons text[];
  v_states job_state[];
  v_ending bigint[];
  v_ending_operations text[];
  v_ending_targets job_state[];
  v_results jsonb[];
  v_result_bytes bytea[];
  v_ending_messages text[];
  v_ending_tracebacks text[];
  v_cancelling bigint[];
  v_back bigint[];
  v_back_operations text[];
  v_back_targets job_state[];
  v_back_messages text[];
  v_back_tracebacks text[];
  v_back_at timestamptz[];
  v_back_delays double precision[];
  v_wake bigint[];
  v_dead bigint[];
begin
  -- Lock and decide. Everything comes out as arrays: a join with the arguments afterwards would compare each with each,
  -- since hash and merge joins are switched off here.
  select
    array_agg(decided.place), array_agg(decided.reason),
    array_agg(case decided.reason when 'settled' then decided.target else decided.state end),
    array_agg(decided.id) filter (where decided.ends),
    array_agg(decided.operation) filter (where decided.ends),
    array_agg(decided.target) filter (where decided.ends),
    case when p_results is not null then array_agg(decided.result) filter (where decided.ends) end,
    case when p_result_bytes is not null then array_agg(decided.result_bytes) filter (where decided.ends) end,
    case when p_messages is not null then array_agg(decided.message) filter (where decided.ends) end,
    case when p_tracebacks is not null then array_agg(decided.traceback) filter (where decided.ends) end,
    array_agg(decided.id) filter (
      where decided.reason = 'settled' and decided.target = 'CANCELLING' and decided.state = 'RUNNING'),
    array_agg(decided.id) filter (where decided.back),
    array_agg(decided.operation) filter (where decided.back),
    array_agg(decided.target) filter (where decided.back),
    array_agg(decided.message) filter (where decided.back),
    array_agg(decided.traceback) filter (where decided.back),
    array_agg(decided.available_at) filter (where decided.back),
    array_agg(decided.delay) filter (where decided.back)
  into
    v_ordinals, v_reasons, v_states, v_ending, v_ending_operations, v_ending_targets, v_results, v_result_bytes,
    v_ending_messages, v_ending_tracebacks, v_cancelling, v_back, v_back_operations, v_back_targets, v_back_messages,
    v_back_tracebacks, v_back_at, v_back_delays
  from (
    select
      judged.*,
      judged.reason = 'settled' and judged.target in ('COMPLETED', 'STOPPED', 'UNSCHEDULED', 'UNKNOWN_STOPPED') as ends,
      judged.reason = 'settled'
        and judged.target not in ('COMPLETED', 'STOPPED', 'UNSCHEDULED', 'UNKNOWN_STOPPED', 'CANCELLING') as back
    from (
      select
        held.*,
        case
          when not held.fits then 'lease_lost'
          when held.target is null then 'wrong_state'
          else 'settled'
        end as reason
      from (
        select
          wish.place, wish.id, wish.operation, wish.result, wish.result_bytes, wish.traceback, wish.available_at, wish.delay,
          job.state,
          case when wish.operation <> 'complete' then wish.message end as message,
          (wish.lease_id is null or coalesce(job.lease_id::text = wish.lease_id, false))
            and (p_worker_id is null or coalesce(job.assignee_id = p_worker_id, false)) as fits,
          _target(
            wish.operation, job.state,
            coalesce(wish.permanent, false) or coalesce(job.attempts + 1 >= job.max_attempts, false)) as target
        from (
          select
            asked.*,
            -- Two leases of one job are two claims of it: each is judged. Unguarded ones come last, and count once.
            lag(asked.id) over line is not distinct from asked.id
              and coalesce(lag(asked.lease_id) over line = asked.lease_id, asked.lease_id is null) as repeated
          from unnest(
            p_ids, p_operations, p_lease_ids, p_named, p_results, p_result_bytes, p_messages, p_tracebacks, p_permanent,
            p_available_at, p_delays)
            with ordinality
            as asked (
              id, operation, lease_id, named, result, result_bytes, message, traceback, permanent, available_at, delay, place)
          window line as (order by asked.id, asked.lease_id, asked.place)
        ) as wish
        join jobs job on job.id = wish.id and (wish.named is null or wish.named = (job.name is not null))
        where not wish.repeated
        for update of job
      ) as held
    ) as judged
  ) as decided;

  if v_back is not null then
    v_wake := _hand_back_locked_jobs(
      v_back, v_back_operations, v_back_targets, v_back_messages, v_back_tracebacks, v_back_at, v_back_delays,
      p_worker_id => v_recorded, p_stream_id => p_stream_id, p_trace_context => p_trace_context,
      p_carry_over => v_ending is null);
    if v_ending is not null and 'DEAD' = any (v_back_targets) then
      v_dead := array(select back.id from unnest(v_back, v_back_targets) as back (id, target) where back.target = 'DEAD');
    end if;
  end if;
  if v_cancelling is not null then
    perform _request_cancellation(v_cancelling, v_recorded, p_trace_context);
  end if;
  if v_ending is not null then
    perform _finish_locked_jobs(
      v_ending, v_ending_operations, v_ending_targets, v_results, v_result_bytes, v_ending_messages, v_ending_tracebacks,
      v_recorded, p_stream_id, p_trace_context, v_wake, p_dead => v_dead);
  elsif v_wake is not null then
    perform _notify_needs(v_wake);
  end if;

  return query select * from unnest(v_ordinals, v_reasons, v_states);
  if coalesce(cardinality(v_ordinals), 0) < cardinality(p_ids) then
    return query
      select * from _settle_absent(
        p_ids, p_operations, p_lease_ids, p_named, p_results, p_result_bytes, p_worker_id, v_recorded, p_trace_context,
        v_ordinals);
  end if;
end $$;

-- Jobs of a settle that are not live: finished, deleted, or named twice in the call. An UNKNOWN_STOPPED one may still be
-- completed, because nobody knew what its worker did.
create or replace function _settle_absent(
  p_ids bigint[], p_operations text[], p_lease_ids text[], p_named boolean[], p_results jsonb[], p_result_bytes bytea[],
  p_worker_id text, p_recorded_worker_id text, p_trace_context jsonb, p_settled bigint[]
) returns table (ordinal bigint, reason text, state job_state)
language plpgsql set search_path from current
as $$
#variable_conflict use_column
declare
  v_wish record;
  v_job archived_jobs;
  v_fits boolean;
  v_parents bigint[];
begin
  for v_wish in
    select asked.*
    from unnest(p_ids, p_operations, p_lease_ids, p_named, p_results, p_result_bytes) with ordinality
      as asked (id, operation, lease_id, named, result, result_bytes, place)
    where asked.id is not null and (p_settled is null or asked.place <> all (p_settled))
    order by asked.id, asked.place
  loop
    select job.* into v_job
    from archived_jobs job
    where job.id = v_wish.id and (v_wish.named is null or v_wish.named = (job.name is not null))
    for update;
    ordinal := v_wish.place;
    state := v_job.state;
    v_fits := (v_wish.lease_id is null or coalesce(v_job.lease_id::text = v_wish.lease_id, false))
      and (p_worker_id is null or coalesce(v_job.assignee_id = p_worker_id, false));
    if v_job.id is null then
      -- Not archived either: unknown, or live again under this very call (named twice).
      select 'wrong_state', job.state into reason, state
      from jobs job
      where job.id = v_wish.id and (v_wish.named is null or v_wish.named = (job.name is not null));
      reason := coalesce(reason, 'not_found');
    elsif not v_fits then
      reason := 'lease_lost';
    elsif v_job.state = 'UNKNOWN_STOPPED' and v_wish.operation = 'complete' then
      update archived_jobs job
      set state = 'COMPLETED', result = v_wish.result, result_bytes = v_wish.result_bytes, finalized_at = _clock(),
          consecutive_expirations = 0
      where job.id = v_job.id;
      v_parents := v_parents || v_job.id;
      state := 'COMPLETED';
      reason := 'settled';
    elsif v_wish.lease_id is not null and _target(v_wish.operation, 'RUNNING', false) = v_job.state then
      reason := 'already';
    elsif v_wish.lease_id is not null and _target(v_wish.operation, 'CANCELLING', false) = v_job.state then
      reason := 'already';
    else
      reason := 'wrong_state';
    end if;
    return next;
  end loop;
  if v_parents is not null then
    perform _notify_needs(_update_waiters(v_parents, p_recorded_worker_id));
    perform _trace_finished(
      v_parents, array_fill('complete'::text, array[cardinality(v_parents)]), p_recorded_worker_id, p_trace_context);
  end if;
end $$;

-- RUNNING jobs become CANCELLING; their workers learn it when they extend the lease, streams at once.
create or replace function _request_cancellation(p_ids bigint[], p_worker_id text, p_trace_context jsonb) returns void
language plpgsql set search_path from current
as $$
begin
  update jobs job set state = 'CANCELLING' where job.id = any (p_ids);
  if exists (select from jobs job where job.id = any (p_ids) and job.stream_id is not null) then
    perform _notify_freed();
  end if;
  perform _emit_trace_events(
    array_agg(_public_id(job.name, job.id)), array_agg('job_cancel_requested'::text),
    array_agg(coalesce(p_worker_id, job.assignee_id)),
    array_agg(jsonb_build_object('lease_id', job.lease_id) || p_trace_context),
    array_agg(jsonb_build_object('state', job.state)))
  from jobs job
  where job.id = any (p_ids);
end $$;

-- p_lengths: of the other arrays; null for one that is not given. A lease left out would mean unguarded.
create or replace function _check_settle(
  p_job_ids text[], p_operations text[], p_lengths integer[], p_delays double precision[], p_available_at timestamptz[]
) returns void
language plpgsql immutable set search_path from current
as $$
declare
  v_known constant text[] := array[
    'complete', 'fail', 'requeue', 'reschedule', 'release', 'undelivered', 'undelivered_to_worker', 'stop',
    'stop_with_retry', 'mark_unknown_stopped', 'acknowledge', 'acknowledge_not_executing'];
  v_delay double precision;
begin
  if cardinality(p_job_ids) is distinct from cardinality(p_operations) then
    raise exception 'settle_jobs: % job ids but % operations', coalesce(cardinality(p_job_ids), 0),
      coalesce(cardinality(p_operations), 0) using errcode = '22023';
  end if;
  if cardinality(p_job_ids) <> any (p_lengths) then
    raise exception 'settle_jobs: every array that is given must have one element for each of the % jobs',
      cardinality(p_job_ids) using errcode = '22023';
  end if;
  if array_position(p_job_ids, null) is not null or '' = any (p_job_ids) then
    raise exception 'settle_jobs: a job id is null or empty' using errcode = '22023';
  end if;
  if not p_operations <@ v_known then
    raise exception 'settle_jobs: operation % is not known',
      (select coalesce(quote_literal(asked.operation), 'null') from unnest(p_operations) as asked (operation)
       where (asked.operation = any (v_known)) is not true limit 1)
      using errcode = '22023';
  end if;
  if p_delays is not null then
    foreach v_delay in array p_delays loop
      if not v_delay >= 0 or v_delay > 1e9 then
        raise exception 'the delay must be 0 to a billion seconds, not %', v_delay using errcode = '22023';
      end if;
    end loop;
  end if;
  if 'infinity' = any (p_available_at) or '-infinity' = any (p_available_at) then
    raise exception 'p_available_at must be finite' using errcode = '22023';
  end if;
end $$;

-- Settle many jobs; each does what it can, and has a verdict in the order given. A null lease means unguarded.
-- Messages: the error of a fail, requeue, stop…; the reason of a reschedule. Delays: seconds from now, by the database's clock.
-- p_only_refused: answer nothing about the others.
create or replace function settle_jobs(
  p_job_ids text[],
  p_operations text[],
  p_lease_ids text[] default null,
  p_worker_id text default null,
  p_results jsonb[] default null,
  p_result_bytes bytea[] default null,
  p_messages text[] default null,
  p_tracebacks text[] default null,
  p_delays double precision[] default null,
  p_permanent boolean[] default null,
  p_stream_id bigint default null,
  p_available_at timestamptz[] default null,
  p_only_refused boolean default false
) returns table (job_id text, ok boolean, state job_state, reason text)
language plpgsql security definer
set search_path from current
-- As usual, whoever calls: settle_and_claim has switched off what must not be used to claim.
set enable_seqscan = on
set enable_bitmapscan = on
set enable_sort = on
set enable_hashjoin = on
set enable_mergejoin = on
as $$
#variable_conflict use_column
declare
  v_lengths constant integer[] := array[
    cardinality(p_lease_ids), cardinality(p_results), cardinality(p_result_bytes), cardinality(p_messages),
    cardinality(p_tracebacks), cardinality(p_delays), cardinality(p_permanent), cardinality(p_available_at)];
  v_completing constant boolean := cardinality(p_job_ids) > 0 and 'complete' = all (p_operations);
  v_ids bigint[];
  v_named boolean[];
  v_done bigint[];
begin
  if p_only_refused is null then
    perform _require_flag(p_only_refused, 'p_only_refused');
  end if;
  -- Generated ids to complete, as workers send them, are known to be well-formed once they are numbers: the check, the look
  -- for names and their functions (30 µs of a call's 230) are for all others.
  if v_completing
    and cardinality(p_job_ids) = cardinality(p_operations)
    and (cardinality(p_job_ids) <> any (v_lengths)) is not true
    and p_delays is null
    and p_available_at is null
  then
    v_ids := _generated_numbers(p_job_ids);
  end if;
  if (cardinality(v_ids) = cardinality(p_job_ids)) is not true then
    perform _check_settle(p_job_ids, p_operations, v_lengths, p_delays, p_available_at);
    select resolved.o_ids, resolved.o_named into v_ids, v_named from _resolve(p_job_ids) as resolved;
  end if;

  -- The happy path: everything completed, in one statement that guards and archives. It cannot tell which of two results of
  -- one job came first, so those take the long way.
  if v_completing
    and (
      (p_results is null and p_result_bytes is null)
      or (select count(distinct given.id) from unnest(v_ids) as given (id)) = cardinality(v_ids)
    )
  then
    v_done := _complete_plain_jobs(v_ids, v_named, p_lease_ids, p_worker_id, p_results, p_result_bytes, p_stream_id);
    if cardinality(v_done) = cardinality(v_ids) then
      if not p_only_refused then
        return query select unnest(p_job_ids), true, 'COMPLETED'::job_state, 'settled'::text;
      end if;
      return;
    end if;
    -- What is done is passed over below; an id named twice is done once.
    v_ids := array(
      select case when asked.id <> all (coalesce(v_done, '{}')) or asked.repeated then asked.id end
      from (
        select
          given.id, given.place,
          row_number() over (
            partition by given.id order by given.lease_id is distinct from ended.lease_id::text, given.place) > 1 as repeated
        from unnest(v_ids, p_lease_ids) with ordinality as given (id, lease_id, place)
        left join archived_jobs ended on ended.id = given.id and ended.id = any (v_done)
      ) as asked
      order by asked.place);
  end if;
  v_named := coalesce(v_named, array_fill(false, array[coalesce(cardinality(v_ids), 0)]));

  return query
    select
      asked.job_id,
      coalesce(verdict.reason, 'settled') = 'settled',
      case when verdict.reason is null then 'COMPLETED' else verdict.state end,
      coalesce(verdict.reason, 'settled')
    from unnest(p_job_ids) with ordinality as asked (job_id, place)
    left join _settle(
      v_ids, p_operations, p_lease_ids, v_named, p_results, p_result_bytes, p_messages, p_tracebacks, p_delays,
      p_available_at, p_permanent, p_worker_id, p_stream_id) as verdict on verdict.ordinal = asked.place
    where not p_only_refused or verdict.reason <> 'settled'
    order by asked.place;
end $$;

-- One job, one operation: an error unless it was settled. Answers the state it is in now.
create or replace function _settle_one(
  p_job_id text,
  p_operation text,
  p_lease_id text default null,
  p_worker_id text default null,
  p_message text default null,
  p_traceback text default null,
  p_delay double precision default null,
  p_available_at timestamptz default null,
  p_permanent boolean default false,
  p_lenient boolean default false
) returns job_state
language plpgsql set search_path from current
as $$
declare
  v_verdict record;
begin
  perform _require(p_job_id, 'p_job_id');
  select * into v_verdict
  from settle_jobs(
    array[p_job_id], array[p_operation], array[p_lease_id], p_worker_id,
    p_messages => array[p_message], p_tracebacks => array[p_traceback], p_delays => array[p_delay],
    p_permanent => array[p_permanent], p_available_at => array[p_available_at]);
  if v_verdict.ok then
    return v_verdict.state;
  elsif not p_lenient then
    perform _refuse(p_job_id, p_operation, v_verdict.reason, v_verdict.state);
  end if;
  return null;
end $$;
