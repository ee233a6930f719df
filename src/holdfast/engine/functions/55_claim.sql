-- Taking jobs out of the line, under a lease.

-- Of locked jobs in line order, those that may run: without a key, or the first of a key nobody holds.
-- The transaction-scoped try-lock only keeps two claims at the same moment from waiting for each other's uncommitted hold;
-- the hold itself is a row, looked up by a statement of its own after the lock.
create or replace function _with_free_keys(p_ids bigint[], p_keys text[]) returns bigint[]
language plpgsql set search_path from current
as $$
declare
  v_ours text[];
begin
  select array_agg(wanted.key)
  into v_ours
  from (select distinct given.key from unnest(p_keys) as given (key) order by given.key) as wanted
  where pg_try_advisory_xact_lock(hashtextextended(current_schema() || '.singleton.' || wanted.key, 0));

  return array(
    select allowed.id
    from (
      select distinct on (coalesce(job.singleton_key, job.id::text), job.singleton_key is null)
        given.id, given.place
      from unnest(p_ids) with ordinality as given (id, place)
      join jobs job on job.id = given.id
      where job.singleton_key is null
        or (
          job.singleton_key = any (v_ours)
          and not exists (select from holds where holds.kind = 'singleton' and holds.key = job.singleton_key)
        )
      order by coalesce(job.singleton_key, job.id::text), job.singleton_key is null, given.place
    ) as allowed
    order by allowed.place);
end $$;

-- For locked jobs in line order that take one resource: take those that are free, and answer the jobs that have theirs. A worker
-- asks for the others itself, as it does for jobs that take several. Never waits: a resource that somebody else is just taking
-- is left out, and one that was never taken before has no row to lock yet. What is held is counted by a statement of its own
-- after the locks, as in acquire_resources. p_lease: see claim_jobs.
create or replace function _take_resources(p_ids bigint[], p_lease text, p_now timestamptz) returns bigint[]
language plpgsql
set search_path from current
set enable_seqscan = off
set jit = off
as $$
declare
  v_keys text[];
  v_taken bigint[];
begin
  select array_agg(free.key)
  into v_keys
  from (
    select resource.key
    from resources resource
    where resource.key = any (array(
      select distinct job.resource_keys[1]
      from jobs job
      where job.id = any (p_ids) and cardinality(job.resource_keys) = 1))
    order by resource.key
    for update skip locked
  ) as free;
  with wanted as (
    select job.id, job.resource_keys[1] as key, row_number() over (partition by job.resource_keys[1] order by given.place) as turn
    from unnest(p_ids) with ordinality as given (id, place)
    join jobs job on job.id = given.id
    where cardinality(job.resource_keys) = 1 and job.resource_keys[1] = any (v_keys)
  ), room as (
    select
      resource.key, resource.capacity,
      (select count(*) from holds where holds.kind = 'resource' and holds.key = resource.key) as held
    from resources resource
    where resource.key = any (v_keys)
  ), free as (
    select room.key, candidate.slot, row_number() over (partition by room.key order by candidate.slot) as turn
    from room
    -- So many slots have room for all of us between those that are held.
    cross join lateral generate_series(1, least(room.capacity, room.held + cardinality(p_ids))) as candidate (slot)
    where room.held < room.capacity
      and not exists (
        select from holds where holds.kind = 'resource' and holds.key = room.key and holds.slot = candidate.slot)
  ), taken as (
    insert into holds (kind, key, slot, job_id, lease_id, held_since)
    select
      'resource', wanted.key, free.slot, wanted.id, (p_lease || to_hex(wanted.id | (1::bigint << 63)))::uuid, p_now
    from wanted
    join room on room.key = wanted.key and wanted.turn <= room.capacity - room.held
    join free on free.key = wanted.key and free.turn = wanted.turn
    returning job_id
  )
  select coalesce(array_agg(taken.job_id), '{}') into v_taken from taken;
  return v_taken;
end $$;

-- How many more jobs of each queue may be held now: null without a limit, 0 if the limit is reached, or if another claim of the
-- queue is under way whose jobs nobody can see yet (holdfast.passed_over says so to settle_and_claim). The transaction-scoped try-lock makes sure of that without waiting; what is
-- held is counted by a statement of its own after the lock. Only called when one of the queues has a limit.
-- Index: jobs_held, all of it, and the claims of these queues.
create or replace function _rooms(p_queues text[]) returns integer[]
language plpgsql
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_ours boolean[];
begin
  if current_setting('transaction_isolation') not in ('read committed', 'read uncommitted') then
    raise exception 'a queue with a limit can be claimed from at isolation level read committed only: a claim at % cannot see '
      'what others hold', current_setting('transaction_isolation') using errcode = '25000';
  end if;
  -- In one order, so that of two claims over the same queues one gets them all.
  select array_agg(tried.ours order by tried.place)
  into v_ours
  from (
    select
      line.place,
      case when line.max_running is not null
        then pg_try_advisory_xact_lock(hashtextextended(current_schema() || '.queue.' || line.queue, 0))
      end as ours
    from (
      select given.queue, given.place, queues.max_running
      from unnest(p_queues) with ordinality as given (queue, place)
      left join queues on queues.name = given.queue
      order by given.queue
    ) as line
  ) as tried;
  perform set_config('holdfast.passed_over', case when false = any (v_ours) then 'on' else 'off' end, true);
  return array(
    select case
      when queues.max_running is null then null
      when line.ours then greatest(0, queues.max_running - coalesce(held.jobs, 0))
      else 0
    end
    from unnest(p_queues, v_ours) with ordinality as line (queue, ours, place)
    left join queues on queues.name = line.queue
    left join (
      select holding.queue, count(*)::integer as jobs
      from _held_jobs(p_queues) as holding
      group by holding.queue
    ) as held on held.queue = line.queue
    order by line.place);
end $$;

-- How many of the oldest p_room jobs of one priority that can be claimed now stand in each queue: a look without locks.
create or replace function _shares(
  p_queues text[], p_priority integer, p_room integer, p_threshold integer, p_tags text[], p_floor_at timestamptz,
  p_floor_id bigint
) returns integer[]
language plpgsql
set search_path from current
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := _clock();
begin
  return array(
    select count(oldest.queue)::integer
    from unnest(p_queues) with ordinality as line (queue, place)
    left join (
      select head.queue
      from unnest(p_queues) as wanted (queue)
      cross join lateral (
        select job.queue, job.available_at, job.id
        from jobs job
        where job.queue = wanted.queue
          and job.priority = p_priority
          and job.available_at <= v_now
          and (job.available_at, job.id) >= (p_floor_at, p_floor_id)
          and job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
          and job.waiting_on = 0 and job.lapses_at is null and job.finalized_at is null
          and job.consecutive_expirations < p_threshold
          and (job.expires_at is null or job.expires_at > v_now)
          and (p_tags is null or job.tags @> p_tags)
          and (
            job.singleton_key is null
            or not exists (select from holds where holds.kind = 'singleton' and holds.key = job.singleton_key)
          )
        order by job.available_at, job.id
        limit p_room
      ) as head
      order by head.available_at, head.id
      limit p_room
    ) as oldest on oldest.queue = line.queue
    group by line.place
    order by line.place);
end $$;

-- The next moment at which somebody has to look after leases. Index: jobs_held and the claims by look_at, the first of each.
create or replace function _next_end() returns timestamptz
language plpgsql
set search_path from current
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
begin
  return least(
    (select job.lapses_at from jobs job where job.lapses_at is not null order by job.lapses_at limit 1),
    (select claims.look_at from claims order by claims.look_at limit 1));
end $$;

-- The next moment after now at which something becomes due in these queues: a job's time or the end of a lease.
create or replace function _next_due(p_queues text[]) returns timestamptz
language plpgsql
set search_path from current
set enable_seqscan = off
set jit = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
declare
  v_now timestamptz := _clock();
  v_next timestamptz;
begin
  select min(due.at)
  into v_next
  from (
    select (
      with recursive levels (queue, priority) as (
        select line.queue, (
          select job.priority from jobs job
          where job.queue = line.queue
            and job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
            and job.waiting_on = 0 and job.lapses_at is null and job.finalized_at is null
          order by job.queue desc, job.priority desc limit 1)
        union all
        select levels.queue, (
          select job.priority from jobs job
          where job.queue = levels.queue and job.priority < levels.priority
            and job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
            and job.waiting_on = 0 and job.lapses_at is null and job.finalized_at is null
          order by job.queue desc, job.priority desc limit 1)
        from levels
        where levels.priority is not null
      )
      select min(first.available_at)
      from levels
      cross join lateral (
        select job.available_at from jobs job
        where job.queue = levels.queue and job.priority = levels.priority and job.available_at > v_now
          and job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
          and job.waiting_on = 0 and job.lapses_at is null and job.finalized_at is null
        order by job.available_at, job.id limit 1
      ) as first
    ) as at
    from unnest(p_queues) as line (queue)
  ) as due;
  return least(v_next, _next_end());
end $$;

-- The next moment something becomes due in these queues: a job's time, or the end of any lease. Null: nothing is known.
create or replace function next_due(p_queues text[]) returns timestamptz
language plpgsql security definer set search_path from current
as $$
begin
  perform _require_queues(p_queues, 'p_queues');
  return _next_due(p_queues);
end $$;

create or replace function _check_claim(
  p_worker_id text, p_queues text[], p_queues_parameter text, p_limit integer, p_lease_seconds double precision
) returns void
language plpgsql immutable set search_path from current
as $$
declare
  v_queue text;
begin
  if p_worker_id is null or p_worker_id = '' then
    perform _require(p_worker_id, 'p_worker_id');
  end if;
  if p_lease_seconds is null or not p_lease_seconds > 0 or p_lease_seconds > 1e9 then
    perform _require_positive(p_lease_seconds, 'p_lease_seconds');
  end if;
  if p_limit is null or p_limit < 1 then
    raise exception 'the limit must be at least 1, not %', coalesce(p_limit::text, 'null') using errcode = '22023';
  end if;
  if p_queues is null or cardinality(p_queues) = 0 then
    perform _require_queues(p_queues, p_queues_parameter);
  end if;
  foreach v_queue in array p_queues loop
    if v_queue is null or octet_length(v_queue) not between 1 and 40 then
      perform _require_queue(v_queue, p_queues_parameter);
    end if;
  end loop;
end $$;

-- Lock the jobs that a claim takes, without taking them, and say what the claim has to know. Parameters: those of claim_jobs.
-- o_ids: their numbers as they stand in line, null if there is nothing to take. o_runs: where in o_ids ascending numbers
-- begin. o_taken: those that got their resource. o_lease: what their leases begin with. o_in_line: whether they stay in line
-- while they are held; if so, they are written down as a claim. o_keyed: whether some have singleton keys. o_traced: whether the
-- claim is to be traced. o_none: true if nobody at all stands in the only queue, so nobody there becomes due.
-- Guard: what makes a job eligible is tested under the row lock; locked jobs are skipped, never waited for.
create or replace function _lock_next_jobs(
  p_worker_id text,
  p_queues text[],
  p_limit integer,
  p_lease_seconds double precision,
  p_tags text[],
  p_stream_id bigint,
  p_sweep boolean,
  p_floor_at timestamptz,
  p_floor_id bigint,
  p_take_resources boolean,
  p_floor_priority integer,
  out o_ids bigint[],
  out o_runs integer[],
  out o_taken bigint[],
  out o_lease text,
  out o_now timestamptz,
  out o_in_line boolean,
  out o_keyed boolean,
  out o_traced boolean,
  out o_none boolean
)
language plpgsql
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_threshold integer;
  v_overdue boolean;
  v_special boolean;                                  -- whether the first queue is paused or limited
  v_queues text[] := p_queues;
  v_limited boolean;
  v_rooms integer[];                                  -- of queues with a limit
  v_priority integer;
  v_lower integer;                                    -- the next lower one, in the only queue
  v_below bigint := 2147483647;
  v_share integer[];
  v_round integer := 1;
  v_place integer := 1;
  v_wanted integer;
  v_found bigint[];
  v_locked integer;
  v_keys text[];
  v_busy text[];
  v_level bigint[];                                   -- what we locked of this level
  v_mixed boolean := false;                           -- whether that is out of order
  v_takes boolean;
  v_resources boolean := false;                       -- whether some of it takes resources
  v_room integer := p_limit;
begin
  o_now := _clock();
  o_taken := '{}';
  -- A claim's leases are the same 60 random bits and the job's number, as a UUID: one random value for all (one for each was
  -- a tenth of a claim's cost), no two alike, and nobody else can guess one.
  o_lease := left(gen_random_uuid()::text, 18);
  -- The settings above keep every look on the index jobs_ready, from the oldest due job on. All is in one function, and the
  -- common case (one queue, whose first level fills the room) in two statements: know, lock. A statement costs 15 to
  -- 25 µs however little it does, a function 8, an expression 1; a claim of one job was 100 µs slower when it had eight.
  if (
    p_worker_id <> '' and p_limit >= 1 and p_lease_seconds > 0 and p_lease_seconds <= 1e9 and p_sweep is not null
    and p_tags is null and cardinality(p_queues) = 1 and octet_length(p_queues[1]) between 1 and 40
  ) is not true then
    perform _check_claim(p_worker_id, p_queues, 'p_queues', p_limit, p_lease_seconds);
    perform _require_flag(p_sweep, 'p_sweep');
    perform _require_tags(p_tags);
    p_tags := nullif(p_tags, '{}');
  end if;
  -- Somebody asks what the stream holds, because nobody waits for this claim any more (see jobs_of_stream).
  if p_stream_id is not null and not pg_try_advisory_xact_lock_shared(p_stream_id) then
    return;
  end if;

  -- Know: the switches, whether any lease is overdue, and of the first queue whether there is anything special about it and the
  -- highest priority anybody waits with.
  select
    settings.crash_concern_threshold,
    settings.trace_level = 'all',
    p_sweep and (
      exists (select from jobs job where job.lapses_at <= o_now)
      or exists (select from claims where claims.look_at <= o_now)
    ),
    exists (select from queues where queues.name = p_queues[1]),
    (
      select job.priority
      from jobs job
      where job.queue = p_queues[1]
        and job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
        and job.waiting_on = 0 and job.lapses_at is null and job.finalized_at is null
      order by job.queue desc, job.priority desc
      limit 1
    )
  into v_threshold, o_traced, v_overdue, v_special, v_priority
  from settings
  where settings.only_row;

  if v_overdue or v_special or cardinality(p_queues) > 1 then
    if v_overdue then
      perform _sweep(100);
      o_now := _clock();
    end if;
    select array_agg(line.queue), bool_or(queues.max_running is not null)
    into v_queues, v_limited
    from (select distinct given.queue from unnest(p_queues) as given (queue)) as line
    left join queues on queues.name = line.queue
    where queues.paused_at is null;
    if v_limited then
      v_rooms := _rooms(v_queues);
    end if;
    v_priority := null;
  elsif v_priority is null then
    o_none := true;
    return;
  end if;

  -- Lock, level by level, until there are enough. Takes nothing yet, so that all are taken by one statement.
  loop
    if v_priority is null then
      -- The highest priority left: one look into the index per queue that has room.
      select max(head.priority)
      into v_priority
      from unnest(v_queues, v_rooms) as line (queue, room)
      cross join lateral (
        select job.priority
        from jobs job
        where job.queue = line.queue
          and job.priority <= v_below
          and job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
          and job.waiting_on = 0 and job.lapses_at is null and job.finalized_at is null
        order by job.queue desc, job.priority desc
        limit 1
      ) as head
      where line.room is distinct from 0;
      exit when v_priority is null;
      -- Each queue its share of the oldest jobs; then, if some of those were locked by others, whatever there is.
      v_round := 1;
      v_place := 1;
      v_level := null;
      if cardinality(v_queues) > 1 then
        v_share := _shares(
          v_queues, v_priority, v_room, v_threshold, p_tags,
          case when p_floor_priority <> v_priority then '-infinity' else p_floor_at end, p_floor_id);
      end if;
    end if;

    v_wanted := least(case when v_round = 1 then v_share[v_place] end, v_room, v_rooms[v_place]);
    if v_wanted > 0 then
      -- What comes after this level is asked here as well: a statement of its own costs more.
      select
        array_agg(line.id),
        array_agg(line.singleton_key) filter (where line.singleton_key is not null),
        case when count(*) < v_wanted and cardinality(v_queues) = 1 then (
          select job.priority
          from jobs job
          where job.queue = v_queues[1]
            and job.priority < v_priority
            and job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
            and job.waiting_on = 0 and job.lapses_at is null and job.finalized_at is null
          order by job.queue desc, job.priority desc
          limit 1
        ) end,
        bool_or(line.takes)
      into v_found, v_keys, v_lower, v_takes
      from (
        select job.id, job.singleton_key, p_take_resources and job.resource_keys is not null as takes
        from jobs job
        where job.queue = v_queues[v_place]
          and job.priority = v_priority
          and job.available_at <= o_now
          and (job.available_at, job.id)
            >= (case when p_floor_priority <> v_priority then '-infinity' else p_floor_at end, p_floor_id)
          and job.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
          and job.waiting_on = 0 and job.lapses_at is null and job.finalized_at is null
          and job.consecutive_expirations < v_threshold
          and (job.expires_at is null or job.expires_at > o_now)
          and (p_tags is null or job.tags @> p_tags)
          and (
            job.singleton_key is null
            or (
              (job.singleton_key = any (v_busy)) is not true
              and not exists (select from holds where holds.kind = 'singleton' and holds.key = job.singleton_key)
            )
          )
          -- Locks of our own are not skipped.
          and (v_level is null or job.id <> all (v_level))
        order by job.available_at, job.id
        limit v_wanted
        for update skip locked
      ) as line;
      if v_keys is not null then
        v_locked := cardinality(v_found);
        v_found := _with_free_keys(v_found, v_keys);
        -- Keys seen once are taken now, by us or by others: the next look goes past them.
        v_busy := v_busy || v_keys;
      end if;
      v_resources := v_resources or coalesce(v_takes, false);
      o_ids := o_ids || v_found;
      v_room := p_limit - coalesce(cardinality(o_ids), 0);
      exit when v_room = 0;
      v_level := v_level || v_found;
      if v_limited then
        v_rooms[v_place] := v_rooms[v_place] - coalesce(cardinality(v_found), 0);
      end if;
      if v_keys is not null and v_locked = v_wanted and cardinality(v_found) < v_wanted then
        -- Some of what we locked shared a key: there may be more behind.
        v_share[v_place] := v_share[v_place] - cardinality(v_found);
        v_mixed := true;
        continue;
      end if;
    end if;
    if v_place < cardinality(v_queues) then
      v_place := v_place + 1;
    elsif v_round = 1 and cardinality(v_queues) > 1 then
      v_round := 2;
      v_place := 1;
    elsif cardinality(v_queues) = 1 then
      exit when v_lower is null;
      v_priority := v_lower;
      v_level := null;
    else
      v_below := v_priority - 1::bigint;
      v_priority := null;
    end if;
  end loop;
  if coalesce(cardinality(o_ids), 0) = 0 then
    o_ids := null;                                    -- also if others are just taking the keys of all we found
    return;
  end if;
  o_keyed := v_busy is not null;
  if v_mixed or cardinality(v_queues) > 1 then
    o_ids := array(
      select job.id from jobs job where job.id = any (o_ids) order by job.priority desc, job.available_at, job.id);
  end if;

  if v_resources then
    o_taken := _take_resources(o_ids, o_lease, o_now);
  end if;

  -- To write it down costs as much as a few entries in indexes. Queues with a limit count what is held at every claim, so what is
  -- theirs leaves the line.
  o_in_line := cardinality(o_ids) >= 20 and cardinality(v_queues) = 1 and v_limited is not true;
  if o_in_line then
    -- After five seconds most of them have ended, and the others leave the line.
    insert into claims (look_at, queue, numbers)
    values (o_now + least(p_lease_seconds, 5) * interval '1 second', v_queues[1], o_ids);
  end if;

  -- The index answers in the order of ids, the line is in the order of due times. So whoever takes these goes through them in
  -- runs of ascending ids (mostly there is one), and rows come out as they stand in line: sorting the answer costs
  -- 40 µs more for 100 jobs, looking each id up by itself 200.
  o_runs := '{1}';
  for v_next in 2..cardinality(o_ids) loop
    if o_ids[v_next] < o_ids[v_next - 1] then
      o_runs := o_runs || v_next;
    end if;
  end loop;
end $$;

-- What belongs to a claim besides the jobs: their singleton keys, and the trace.
create or replace function _complete_claim(
  p_ids bigint[], p_worker_id text, p_now timestamptz, p_keyed boolean, p_traced boolean
) returns void
language plpgsql set search_path from current
as $$
begin
  if p_keyed then
    insert into holds (kind, key, slot, job_id, lease_id, held_since)
    select 'singleton', job.singleton_key, 1, job.id, job.lease_id, p_now
    from jobs job
    where job.id = any (p_ids) and job.singleton_key is not null;
  end if;
  if p_traced then
    perform _emit_trace_events(
      array_agg(_public_id(job.name, job.id)), array_agg('job_retrieved'::text), array_agg(p_worker_id),
      array_agg(jsonb_build_object('lease_id', job.lease_id)),
      array_agg(jsonb_build_object('lease_expires_at', job.lease_expires_at, 'next_need', job.queue)))
    from jobs job
    where job.id = any (p_ids);
  end if;
end $$;

-- Claim for a worker or a stream: highest priority first, then by due time, then by number. Sweeps overdue leases first unless
-- told not to (a busy worker does it once a second). A floor is a worker's own memory of where the line begins: jobs before it
-- are passed over, if they have its priority; null: whatever they have. Locked jobs are skipped, never waited for.
-- p_take_resources: jobs that take one resource get it with the claim, if it is free; whoever claims has to look.
create or replace function claim_jobs(
  p_worker_id text,
  p_queues text[],
  p_limit integer default 1,
  p_lease_seconds double precision default 30,
  p_tags text[] default null,
  p_stream_id bigint default null,
  p_sweep boolean default true,
  p_floor_at timestamptz default '-infinity',
  p_floor_id bigint default 0,
  p_take_resources boolean default false,
  p_floor_priority integer default null
) returns table (
  job_id text, lease_id text, queue text, task text, payload jsonb, payload_bytes bytea, priority integer, tags text[],
  attempts integer, max_attempts integer, resource_keys text[], singleton_key text, timeout_s double precision, retry jsonb,
  available_at timestamptz, created_at timestamptz, lease_expires_at timestamptz, number bigint, started_at timestamptz,
  last_retry_at timestamptz, expires_at timestamptz, error_message text, if_parent_fails text
)
language plpgsql security definer
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_locked constant record := _lock_next_jobs(
    p_worker_id, p_queues, p_limit, p_lease_seconds, p_tags, p_stream_id, p_sweep, p_floor_at, p_floor_id, p_take_resources,
    p_floor_priority);
  v_ids constant bigint[] := v_locked.o_ids;
  v_runs constant integer[] := v_locked.o_runs;
  v_taken constant bigint[] := v_locked.o_taken;
  v_lease constant text := v_locked.o_lease;
  v_now constant timestamptz := v_locked.o_now;
  v_expires constant timestamptz := v_now + p_lease_seconds * interval '1 second';
  v_leave constant boolean := not v_locked.o_in_line;
  v_variant constant bigint := 1::bigint << 63;
  v_moves text;
begin
  if v_ids is null then
    return;
  end if;
  v_moves := set_config('holdfast.moves_leases', 'on', true);
  return query
    update jobs job
    set state = 'RUNNING',
        lease_id = (v_lease || to_hex(job.id | v_variant))::uuid,
        lease_expires_at = v_expires,
        assignee_id = p_worker_id,
        assigned_at = v_now,
        extended_at = null,
        started_at = coalesce(job.started_at, v_now),
        stream_id = p_stream_id,
        has_holds = job.singleton_key is not null or job.id = any (v_taken),
        lapses_at = case when v_leave then v_expires end
    from unnest(v_runs, v_runs[2:] || cardinality(v_ids) + 1) as run (first, next)
    where job.id = any (v_ids[run.first:run.next - 1])
    returning
      _public_id(job.name, job.id), job.lease_id::text, job.queue, job.task, job.payload, job.payload_bytes,
      job.priority, job.tags, job.attempts, job.max_attempts, job.resource_keys, job.singleton_key, job.timeout_s,
      job.retry, job.available_at, job.created_at, job.lease_expires_at, job.id, job.started_at, job.last_retry_at,
      job.expires_at, job.error_message, job.if_parent_fails;
  v_moves := set_config('holdfast.moves_leases', 'off', true);
  if v_locked.o_keyed or v_locked.o_traced then
    perform _complete_claim(v_ids, p_worker_id, v_now, v_locked.o_keyed, v_locked.o_traced);
  end if;
end $$;

-- Claim this job, and if that cannot be had claim as claim_jobs does: for an idle worker whose signal named the
-- only job there is. To look it up in one statement takes two thirds of the time of looking through the line. What asks for more
-- than that (keys, resources, tags, a queue with a row of its own, the trace) is claimed the ordinary way.
-- Index: the primary key. Under "is true" nothing of the guard can become a condition that leads the planner into jobs_ready,
-- through all that waits and all that is dead there.
create or replace function claim_waiting_job(
  p_job_id text,
  p_worker_id text,
  p_queues text[],
  p_limit integer default 1,
  p_lease_seconds double precision default 30,
  p_tags text[] default null,
  p_stream_id bigint default null,
  p_sweep boolean default true,
  p_floor_at timestamptz default '-infinity',
  p_floor_id bigint default 0,
  p_floor_priority integer default null
) returns table (
  job_id text, lease_id text, queue text, task text, payload jsonb, payload_bytes bytea, priority integer, tags text[],
  attempts integer, max_attempts integer, resource_keys text[], singleton_key text, timeout_s double precision, retry jsonb,
  available_at timestamptz, created_at timestamptz, lease_expires_at timestamptz, number bigint, started_at timestamptz,
  last_retry_at timestamptz, expires_at timestamptz, error_message text, if_parent_fails text
)
language plpgsql security definer
set search_path from current
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_now timestamptz := _clock();
  v_number bigint;
  v_moves text;
begin
  if p_worker_id <> '' and p_limit >= 1 and p_lease_seconds > 0 and p_lease_seconds <= 1e9
    and (p_stream_id is null or pg_try_advisory_xact_lock_shared(p_stream_id))
  then
    -- Mostly generated: to look for a name takes a function with a question in it.
    v_number := coalesce((_generated_numbers(array[p_job_id]))[1], _job_number(p_job_id));
    v_moves := set_config('holdfast.moves_leases', 'on', true);
    return query
      update jobs job
      set state = 'RUNNING',
          lease_id = gen_random_uuid(),
          lease_expires_at = v_now + p_lease_seconds * interval '1 second',
          assignee_id = p_worker_id,
          assigned_at = v_now,
          extended_at = null,
          started_at = coalesce(job.started_at, v_now),
          stream_id = p_stream_id,
          has_holds = false,
          lapses_at = v_now + p_lease_seconds * interval '1 second'
      where job.id = (
        select line.id
        from jobs line, settings
        where line.id = v_number
          and (
            line.queue = any (p_queues)
            and line.state in ('INITIAL_PENDING', 'RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY')
            and line.waiting_on = 0
            and line.available_at <= v_now
            and line.consecutive_expirations < settings.crash_concern_threshold
            and (line.expires_at is null or line.expires_at > v_now)
            and ((cardinality(p_tags) > 0) is not true or line.tags @> p_tags)
            and line.singleton_key is null
            and line.resource_keys is null
          ) is true
          and settings.only_row
          and settings.trace_level <> 'all'
          and not exists (select from queues where queues.name = line.queue)
        for update of line skip locked)
      returning
        _public_id(job.name, job.id), job.lease_id::text, job.queue, job.task, job.payload, job.payload_bytes,
        job.priority, job.tags, job.attempts, job.max_attempts, job.resource_keys, job.singleton_key, job.timeout_s,
        job.retry, job.available_at, job.created_at, job.lease_expires_at, job.id, job.started_at, job.last_retry_at,
        job.expires_at, job.error_message, job.if_parent_fails;
    v_moves := set_config('holdfast.moves_leases', 'off', true);
    if found then
      return;
    end if;
  end if;
  return query
    select *
    from claim_jobs(
      p_worker_id, p_queues, p_limit, p_lease_seconds, p_tags, p_stream_id, p_sweep, p_floor_at, p_floor_id,
      p_floor_priority => p_floor_priority);
end $$;

-- A worker's heartbeat in one round trip and one commit: settle what is done, then claim what there is room for.
-- Rows: 'refused' for each settle that was not taken (with its reason), 'claimed' for each job, and if there was none to claim
-- one 'next' whose available_at is the next moment something becomes due (null: nothing known; now: a queue with a limit was
-- passed over because of another claim) and whose created_at is now, by the database's clock: to find that moment takes half as long as a claim, and whoever got jobs can ask when he has begun them.
-- A job whose settle is refused and that is held all the same takes one from the limit, and so does one that somebody called
-- stopped, perhaps without its slot: whoever counts on the slots it frees never holds more than it asked for.
-- p_listener: whoever takes jobs of these queues and hears their signals, by a number of its own. It waits for one for
-- p_waits_seconds, if nothing was claimed; it is busy for p_present_seconds, if something was; null: what was written down holds.
-- Who did not wait before has to look once more after this: a submit that saw nobody wait may have committed meanwhile.
-- p_take_resources: jobs that take one resource get it with the claim, if it is free; their reason is 'holding'.
-- p_own_transaction: the call commits as it ends, so it need not signal while the workers of a queue are all busy.
-- p_brief: say of claimed jobs only what is not the same for most, because to pass it on costs as much as to claim them. A row
-- 'claim' comes before them with what they have in common: queue (if there is one), lease_expires_at, started_at. In theirs
-- null means that, and as job_id the generated one, as priority and attempts 0, as created_at available_at; kind and state
-- are null.
create or replace function settle_and_claim(
  p_job_ids text[],
  p_operations text[],
  p_lease_ids text[],
  p_worker_id text,
  p_queues text[],
  p_limit integer,
  p_lease_seconds double precision default 30,
  p_tags text[] default null,
  p_stream_id bigint default null,
  p_results jsonb[] default null,
  p_result_bytes bytea[] default null,
  p_messages text[] default null,
  p_tracebacks text[] default null,
  p_delays double precision[] default null,
  p_permanent boolean[] default null,
  p_sweep boolean default true,
  p_floor_at timestamptz default '-infinity',
  p_floor_id bigint default 0,
  p_listener bigint default null,
  p_waits_seconds double precision default null,
  p_present_seconds double precision default null,
  p_own_transaction boolean default false,
  p_take_resources boolean default false,
  p_floor_priority integer default null,
  p_brief boolean default false
) returns table (
  kind text, job_id text, lease_id text, queue text, task text, payload jsonb, payload_bytes bytea, priority integer,
  tags text[], attempts integer, max_attempts integer, resource_keys text[], singleton_key text, timeout_s double precision,
  retry jsonb, available_at timestamptz, created_at timestamptz, lease_expires_at timestamptz, number bigint,
  started_at timestamptz, last_retry_at timestamptz, expires_at timestamptz, error_message text, if_parent_fails text,
  reason text, state job_state
)
language plpgsql security definer
set search_path from current
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
  v_locked record;
  v_ids bigint[];
  v_runs integer[];
  v_taken bigint[];
  v_lease text;
  v_now timestamptz;
  v_variant constant bigint := 1::bigint << 63;
  v_leave boolean;
  v_expires timestamptz;
  -- What a brief answer leaves out: null unless it is brief, and nothing is like null.
  v_until timestamptz;
  v_begun timestamptz;
  v_queue text;
  v_zero integer;
  v_moves text;
begin
  if p_limit is null or p_limit < 0 then
    raise exception 'the limit must be at least 0, not %', coalesce(p_limit::text, 'null') using errcode = '22023';
  end if;
  if not coalesce(p_waits_seconds > 0 and p_waits_seconds <= 1e9, true) then
    perform _require_positive(p_waits_seconds, 'p_waits_seconds');
  end if;
  if not coalesce(p_present_seconds > 0 and p_present_seconds <= 1e9, true) then
    perform _require_positive(p_present_seconds, 'p_present_seconds');
  end if;
  if p_brief is null then
    perform _require_flag(p_brief, 'p_brief');
  end if;
  if cardinality(p_job_ids) > 0 then
    if p_own_transaction then
      perform set_config('holdfast.own_transaction', 'on', true);
    end if;
    kind := 'refused';
    for job_id, reason, state in
      select verdict.job_id, verdict.reason, verdict.state
      from settle_jobs(
        p_job_ids, p_operations, p_lease_ids, null, p_results, p_result_bytes, p_messages, p_tracebacks, p_delays,
        p_permanent, p_stream_id, p_only_refused => true) as verdict
    loop
      return next;
      if reason = 'wrong_state' and state in ('RUNNING', 'CANCELLING', 'UNKNOWN_STOPPED') then
        p_limit := p_limit - 1;
      end if;
    end loop;
  end if;
  if p_limit > 0 then
    v_locked := _lock_next_jobs(
      p_worker_id, p_queues, p_limit, p_lease_seconds, p_tags, p_stream_id, p_sweep, p_floor_at, p_floor_id, p_take_resources,
      p_floor_priority);
    v_ids := v_locked.o_ids;
    if v_ids is not null then
      v_runs := v_locked.o_runs;
      v_taken := v_locked.o_taken;
      v_lease := v_locked.o_lease;
      v_now := v_locked.o_now;
      v_expires := v_now + p_lease_seconds * interval '1 second';
      v_leave := not v_locked.o_in_line;
      if p_brief then
        v_until := v_expires;
        v_begun := v_now;
        v_queue := case when cardinality(p_queues) = 1 then p_queues[1] end;
        v_zero := 0;
        kind := 'claim';
        job_id := null;
        queue := v_queue;
        lease_expires_at := v_until;
        started_at := v_begun;
        reason := null;
        state := null;
        return next;
      end if;
      v_moves := set_config('holdfast.moves_leases', 'on', true);
      return query
        update jobs job
        set state = 'RUNNING',
            lease_id = (v_lease || to_hex(job.id | v_variant))::uuid,
            lease_expires_at = v_expires,
            assignee_id = p_worker_id,
            assigned_at = v_now,
            extended_at = null,
            started_at = coalesce(job.started_at, v_now),
            stream_id = p_stream_id,
            has_holds = job.singleton_key is not null or job.id = any (v_taken),
            lapses_at = case when v_leave then v_expires end
        from unnest(v_runs, v_runs[2:] || cardinality(v_ids) + 1) as run (first, next)
        where job.id = any (v_ids[run.first:run.next - 1])
        returning
          case when not p_brief then 'claimed' end,
          case when p_brief then job.name else _public_id(job.name, job.id) end,
          job.lease_id::text, nullif(job.queue, v_queue), job.task, job.payload, job.payload_bytes,
          nullif(job.priority, v_zero), job.tags, nullif(job.attempts, v_zero), job.max_attempts, job.resource_keys,
          job.singleton_key, job.timeout_s, job.retry, job.available_at,
          case when not p_brief or job.created_at <> job.available_at then job.created_at end,
          nullif(job.lease_expires_at, v_until), job.id, nullif(job.started_at, v_begun), job.last_retry_at, job.expires_at,
          job.error_message, job.if_parent_fails,
          case when job.id = any (v_taken) then 'holding' end,
          case when not p_brief then job.state end;
      v_moves := set_config('holdfast.moves_leases', 'off', true);
      if v_locked.o_keyed or v_locked.o_traced then
        perform _complete_claim(v_ids, p_worker_id, v_now, v_locked.o_keyed, v_locked.o_traced);
      end if;
      if p_present_seconds is not null and p_listener is not null then
        perform _attend(p_listener, p_queues, 0, p_present_seconds);
      end if;
    else
      return query
        select
          'next', null::text, null::text, null::text, null::text, null::jsonb, null::bytea, null::integer, null::text[],
          null::integer, null::integer, null::text[], null::text, null::double precision, null::jsonb,
          case
            when current_setting('holdfast.passed_over', true) = 'on' then _clock()
            -- Under a long transaction it takes a walk over the dead rows of all who stood there to see that nobody does.
            when v_locked.o_none then _next_end()
            else _next_due(p_queues)
          end,
          _clock(), null::timestamptz, null::bigint, null::timestamptz, null::timestamptz,
          null::timestamptz, null::text, null::text, null::text, null::job_state;
      -- Last of all: whoever has the row locked then needs nothing else, and stands in nobody's way.
      if p_waits_seconds is not null and p_listener is not null then
        perform _attend(p_listener, p_queues, p_waits_seconds, p_waits_seconds);
      end if;
    end if;
  end if;
end $$;

-- Seed 003: lease ready jobs whose need is among the worker's capabilities. With notify on, a call that finds nothing leaves
-- the session listening on its capabilities' channels.
create or replace function get_work(
  p_worker_id text,
  p_worker_caps text[],
  p_lease_seconds integer default 60,
  p_limit_jobs integer default 1
) returns table (
  job_id text, lease_id text, next_need text, singleton_key text, wait_for text[], payload jsonb, available_at timestamptz,
  lease_expires_at timestamptz
)
language plpgsql security definer set search_path from current
as $$
#variable_conflict use_column
declare
  v_cap text;
begin
  perform _check_claim(p_worker_id, p_worker_caps, 'p_worker_caps', p_limit_jobs, p_lease_seconds);
  return query
    select job.job_id, job.lease_id, job.queue, job.singleton_key, '{}'::text[], job.payload, job.available_at,
      job.lease_expires_at
    from claim_jobs(p_worker_id, p_worker_caps, p_limit_jobs, p_lease_seconds) as job;
  if not found and is_notify_enabled() then
    -- As long as the session may listen without asking again.
    perform _attend(-pg_backend_pid(), p_worker_caps, 3600, 3600);
    foreach v_cap in array p_worker_caps loop
      execute format('listen %I', current_schema() || '.need.' || v_cap);
    end loop;
  end if;
end $$;
