-- Dependencies: job_waits holds one row per (child, parent), jobs.waiting_on counts a child's rows.
-- Attaching a child changes its live parents' rows (waiters + 1), so that a parent's end and a child's submission are
-- always one after the other, at every isolation level: no child is stranded.

-- What an ended parent means for a child. Null: the child goes on waiting.
create or replace function _effect_on_child(p_parent_state job_state, p_if_parent_fails text) returns text
language sql immutable
as $$
  select case
    when p_parent_state = 'COMPLETED' then 'release'
    when p_if_parent_fails = 'run' then 'release'
    when p_if_parent_fails = 'cancel' then 'cancel'
    when p_if_parent_fails = 'wait' then null
    when p_parent_state = 'DEAD' then null
    else 'cancel'
  end
$$;

-- Every job that waits for one of these, directly or through others.
create or replace function _descendants(p_ids bigint[]) returns bigint[]
language plpgsql stable
set search_path from current
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
set jit = off
as $$
begin
  return array(
    with recursive descendants (id) as (
      select waits.child_id from job_waits waits where waits.parent_id = any (p_ids)
      union
      select waits.child_id from job_waits waits join descendants on waits.parent_id = descendants.id
    )
    select id from descendants);
end $$;

-- Lock live jobs in the one order that everybody who locks several keeps to, so that nobody deadlocks: those that wait for
-- no other job first, then those that do, each by id. Not by id alone: the end of a job locks the job and then those who
-- wait for it, and a job that was rescheduled to wait may be older than what it waits for.
create or replace function _lock_jobs(p_ids bigint[]) returns void
language plpgsql set search_path from current
as $$
begin
  perform from jobs job where job.id = any (p_ids) order by job.waiting_on > 0, job.id for update;
end $$;

-- The same without waiting. Answers whether all of them are ours now.
create or replace function _try_lock_jobs(p_ids bigint[]) returns boolean
language plpgsql set search_path from current
as $$
begin
  return cardinality(p_ids) = (
    select count(*) from (select from jobs job where job.id = any (p_ids) for update skip locked) as locked);
end $$;

-- Carry the end of these jobs over to those who wait for them: release, cancel (and their children), or leave.
-- Answers the jobs that became ready.
create or replace function _update_waiters(p_ended bigint[], p_worker_id text) returns bigint[]
language plpgsql
set search_path from current
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
set jit = off
as $$
declare
  v_cancelled bigint[];
  v_operations text[];
  v_targets job_state[];
  v_parents bigint[];
  v_ready bigint[];
begin
  perform _lock_jobs(_descendants(p_ended));

  select array_agg(child.id), array_agg(_target('cancel', child.state, false))
  into v_cancelled, v_targets
  from jobs child
  where child.id in (
    select waits.child_id
    from job_waits waits
    join (
      select archived.id, archived.state from archived_jobs archived where archived.id = any (p_ended)
      union all
      select job.id, job.state from jobs job where job.id = any (p_ended)
    ) as parent on parent.id = waits.parent_id
    where waits.parent_id = any (p_ended)
      and _effect_on_child(parent.state, waits.if_parent_fails) = 'cancel'
  );
  if v_cancelled is not null then
    v_operations := array_fill('cancel'::text, array[cardinality(v_cancelled)]);
    select gone.o_parents into v_parents
    from _archive_and_delete_jobs(
      v_cancelled, v_operations, v_targets, null, null,
      array_fill('cancelled because a job it waited for did not complete'::text, array[cardinality(v_cancelled)]),
      null, null) as gone;
    if v_parents is not null then
      v_ready := _update_waiters(v_parents, p_worker_id);
    end if;
    perform _trace_finished(v_cancelled, v_operations, p_worker_id, '{"reason": "parent"}');
  end if;

  with done as (
    delete from job_waits waits
    using (
      select archived.id, archived.state from archived_jobs archived where archived.id = any (p_ended)
      union all
      select job.id, job.state from jobs job where job.id = any (p_ended)
    ) as parent
    where waits.parent_id = parent.id
      and waits.parent_id = any (p_ended)
      and _effect_on_child(parent.state, waits.if_parent_fails) = 'release'
    returning waits.child_id
  ), freed as (
    update jobs child
    set waiting_on = child.waiting_on - given.parents
    from (select done.child_id, count(*)::integer as parents from done group by done.child_id) as given
    where child.id = given.child_id
    returning child.id, child.waiting_on
  )
  select v_ready || array_agg(freed.id) filter (where freed.waiting_on = 0) into v_ready from freed;
  return v_ready;
end $$;

-- Let these waiting jobs follow those of their parents that had failed before. Answers the jobs that became ready.
create or replace function _follow_failed_parents(p_ids bigint[], p_worker_id text) returns bigint[]
language plpgsql
set search_path from current
set enable_bitmapscan = off
set enable_seqscan = off
set jit = off
as $$
declare
  v_parents bigint[] := array(select waits.parent_id from job_waits waits where waits.child_id = any (p_ids));
  v_failed bigint[] := array(
    select archived.id from archived_jobs archived where archived.id = any (v_parents)
    union all
    select job.id from jobs job where job.id = any (v_parents) and job.state = 'DEAD');
begin
  return case when v_failed <> '{}' then _update_waiters(v_failed, p_worker_id) end;
end $$;

-- Seed 003: one finished job. Answers each child it touched and whether that child can run now.
create or replace function _update_waiters_for_completion(p_completed_job_id text)
returns table (job_id text, next_need text, became_unblocked boolean)
language plpgsql set search_path from current
as $$
#variable_conflict use_column
declare
  v_children bigint[] := array(
    select child_id from job_waits where parent_id = _job_number(p_completed_job_id) order by child_id);
  v_ready bigint[] := _update_waiters(array[_job_number(p_completed_job_id)], null);
begin
  perform _notify_needs(v_ready);
  return query
    select _public_id(job.name, job.id), job.queue, coalesce(job.id = any (v_ready), false) and job.available_at <= _clock()
    from jobs job
    where job.id = any (v_children)
    order by job.id;
end $$;

-- Which of these ids a job can wait for, in the order given: completed ones, nulls and repetitions drop out; unknown and
-- cancelled ones are errors. Locks the live ones, so the answer holds until the end of the caller's transaction.
-- With p_if_parent_fails cancelled parents are allowed, because the caller said what they mean.
create or replace function _lock_parents(p_wait_for text[], p_if_parent_fails text)
returns table (parent text, parent_id bigint, state job_state, ordinal bigint)
language plpgsql set search_path from current
as $$
#variable_conflict use_column
declare
  v_names text[];
  v_ids bigint[];
  v_bad text;
  v_bad_state job_state;
begin
  select array_agg(wanted.name order by wanted.place), array_agg(_job_number(wanted.name) order by wanted.place)
  into v_names, v_ids
  from (
    select given.name, min(given.place) as place
    from unnest(p_wait_for) with ordinality as given (name, place)
    where given.name is not null
    group by given.name
  ) as wanted;
  if v_names is null then
    return;
  end if;

  perform _lock_jobs(v_ids);
  -- A cancelled one may still be completed (UNKNOWN_STOPPED) or deleted: changing its row puts us before that or after it.
  if p_if_parent_fails is not null then
    update archived_jobs ended
    set state = ended.state
    from (
      select job.id from archived_jobs job where job.id = any (v_ids) and job.state <> 'COMPLETED' order by job.id for update
    ) as cancelled
    where ended.id = cancelled.id;
  end if;

  -- A statement of its own after the locks: a parent that finished while we waited is in the archive now.
  return query
    select wanted.name, wanted.id, coalesce(live.state, ended.state), wanted.place
    from unnest(v_names, v_ids) with ordinality as wanted (name, id, place)
    left join jobs live on live.id = wanted.id and _public_id(live.name, live.id) = wanted.name
    left join archived_jobs ended on ended.id = wanted.id and _public_id(ended.name, ended.id) = wanted.name
    where coalesce(live.state, ended.state) is distinct from 'COMPLETED'
    order by wanted.place;

  select wanted.name, ended.state
  into v_bad, v_bad_state
  from unnest(v_names, v_ids) with ordinality as wanted (name, id, place)
  left join jobs live on live.id = wanted.id and _public_id(live.name, live.id) = wanted.name
  left join archived_jobs ended on ended.id = wanted.id and _public_id(ended.name, ended.id) = wanted.name
  where live.id is null
    and (ended.id is null or (ended.state <> 'COMPLETED' and p_if_parent_fails is null))
  order by wanted.place
  limit 1;
  if v_bad is not null and v_bad_state is null then
    raise exception 'wait_for names job "%", which does not exist', v_bad using errcode = '22023';
  elsif v_bad is not null then
    raise exception 'wait_for names job "%", which was cancelled (%) and will never complete; say if_parent_fails to allow it',
      v_bad, v_bad_state using errcode = '22023';
  end if;
end $$;

-- What of these ids a new job would wait for: completed ones, nulls and repetitions drop out, the order stays. Unknown and
-- cancelled ids are errors. Locks the live ones until the caller's transaction ends.
create or replace function normalize_wait_for(p_wait_for text[]) returns text[]
language plpgsql security definer set search_path from current
as $$
begin
  return array(select parent from _lock_parents(p_wait_for, null) order by ordinal);
end $$;

-- The shortest way from a job's parents back to the job itself, if there is one. Breadth first, each job once: the ways are
-- too many to try, because every pair of jobs that wait for the same two doubles them.
create or replace function _cycle_through(p_id bigint) returns text[]
language plpgsql stable
set search_path from current
set enable_hashjoin = off
set enable_mergejoin = off
set enable_seqscan = off
set jit = off
as $$
declare
  v_ids bigint[] := array[p_id];                      -- what was reached, in the order in which it was
  v_names text[] := array[null::text];
  v_via integer[] := array[0];                        -- from where in that order
  v_done integer := 0;
  v_reached integer := 1;
  v_place integer;
  v_path text[];
begin
  perform from (
    with recursive above (id) as (
      select waits.parent_id from job_waits waits where waits.child_id = p_id
      union
      select waits.parent_id from above join job_waits waits on waits.child_id = above.id
    )
    select id from above
  ) as ancestors
  where ancestors.id = p_id;
  if not found then
    return null;
  end if;

  while v_reached > v_done and v_place is null loop
    select v_ids || array_agg(next.parent_id), v_names || array_agg(next.parent), v_via || array_agg(next.via)
    into v_ids, v_names, v_via
    from (
      select distinct on (waits.parent_id) waits.parent_id, waits.parent, (v_done + last.place)::integer as via
      from unnest(v_ids[v_done + 1:]) with ordinality as last (id, place)
      join job_waits waits on waits.child_id = last.id
      where waits.parent_id = p_id or waits.parent_id <> all (v_ids)
      order by waits.parent_id, last.place
    ) as next;
    v_done := v_reached;
    v_reached := cardinality(v_ids);
    v_place := array_position(v_ids, p_id, 2);
  end loop;
  while v_place > 1 loop
    v_path := v_names[v_place] || v_path;
    v_place := v_via[v_place];
  end loop;
  return v_path;
end $$;

-- One of these new jobs that waits for itself, through others of them; null if there is none. Older jobs cannot wait for new
-- ones, so a cycle has only new ones. Each wait is looked at once: whoever waits for no job that is left is taken away, until
-- nobody is, or until those are left who wait for each other.
create or replace function _job_on_cycle(p_ids bigint[]) returns bigint
language plpgsql stable set search_path from current
as $$
declare
  v_count integer := cardinality(p_ids);
  v_children integer[];                               -- who waits: their places in the call, those for one parent together
  v_parents integer[];                                -- for whom, side by side
  v_first integer[] := array_fill(1, array[v_count + 1]);  -- where the waits for a parent begin
  v_open integer[] := array_fill(0, array[v_count]);  -- how many parents of a job are left
  v_up integer[];
  v_free integer[] := '{}';                           -- who waits for nobody that is left
  v_freed integer := 0;
  v_done integer := 0;
  v_place integer;
  v_first_on_it integer;
begin
  -- In the order of the call, as most people write it, parents come first.
  if not exists (
    select from job_waits waits
    where waits.child_id = any (p_ids) and waits.parent_id >= waits.child_id and waits.parent_id = any (p_ids))
  then
    return null;
  end if;
  select
    array_agg(child.place::integer order by parent.place), array_agg(parent.place::integer order by parent.place)
  into v_children, v_parents
  from unnest(p_ids) with ordinality as child (id, place)
  join job_waits waits on waits.child_id = child.id
  join unnest(p_ids) with ordinality as parent (id, place) on parent.id = waits.parent_id;

  for v_wait in 1 .. cardinality(v_children) loop
    v_open[v_children[v_wait]] := v_open[v_children[v_wait]] + 1;
    v_first[v_parents[v_wait] + 1] := v_wait + 1;
  end loop;
  for v_job in 1 .. v_count loop
    v_first[v_job + 1] := greatest(v_first[v_job], v_first[v_job + 1]);
    if v_open[v_job] = 0 then
      v_freed := v_freed + 1;
      v_free[v_freed] := v_job;
    end if;
  end loop;
  while v_done < v_freed loop
    v_done := v_done + 1;
    for v_wait in v_first[v_free[v_done]] .. v_first[v_free[v_done] + 1] - 1 loop
      v_place := v_children[v_wait];
      v_open[v_place] := v_open[v_place] - 1;
      if v_open[v_place] = 0 then
        v_freed := v_freed + 1;
        v_free[v_freed] := v_place;
      end if;
    end loop;
  end loop;
  if v_freed = v_count then
    return null;
  end if;

  -- Everyone left waits for one that is left: upwards from any of them the way leads into a cycle. Its first job is named.
  for v_wait in 1 .. cardinality(v_children) loop
    if v_open[v_parents[v_wait]] > 0 and v_open[v_children[v_wait]] > 0 then
      v_place := v_children[v_wait];
      v_up[v_place] := v_parents[v_wait];
    end if;
  end loop;
  for v_step in 1 .. v_count loop
    v_place := v_up[v_place];
  end loop;
  v_first_on_it := v_place;
  for v_step in 1 .. v_count loop
    v_place := v_up[v_place];
    v_first_on_it := least(v_first_on_it, v_place);
  end loop;
  return p_ids[v_first_on_it];
end $$;

-- Let a locked child wait for these parents (and for no others any more). Errors: see _lock_parents; a cycle.
create or replace function _set_waits(p_child_id bigint, p_wait_for text[], p_if_parent_fails text) returns text[]
language plpgsql set search_path from current
as $$
declare
  v_cycle text[];
  v_parents text[];
begin
  delete from job_waits where child_id = p_child_id;

  insert into job_waits (child_id, parent_id, position, parent, if_parent_fails)
  select p_child_id, parents.parent_id, parents.ordinal, parents.parent, p_if_parent_fails
  from _lock_parents(p_wait_for, p_if_parent_fails) as parents;

  -- A parent that waits itself may lead to a job that another reschedule is about to let wait for us: one after the other.
  if exists (
    select from job_waits waits join jobs parent on parent.id = waits.parent_id
    where waits.child_id = p_child_id and parent.waiting_on > 0)
  then
    perform pg_advisory_xact_lock(hashtextextended(current_schema() || '.waits', 0));
  end if;
  v_cycle := _cycle_through(p_child_id);
  if v_cycle is not null then
    raise exception 'waiting for "%" would close a cycle: % waits for %',
      v_cycle[1], v_cycle[cardinality(v_cycle)], array_to_string(v_cycle, ', which waits for ') using errcode = '22023';
  end if;

  update jobs job
  set waiters = job.waiters + 1
  where job.id in (select waits.parent_id from job_waits waits where waits.child_id = p_child_id);

  select array_agg(waits.parent order by waits.position) into v_parents from job_waits waits where waits.child_id = p_child_id;
  update jobs job set waiting_on = coalesce(cardinality(v_parents), 0) where job.id = p_child_id;
  return coalesce(v_parents, '{}');
end $$;
