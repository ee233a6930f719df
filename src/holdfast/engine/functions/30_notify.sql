-- Signals are hints: at most one per statement and queue, never data, never needed.

-- The signal itself; nobody else signals a need. For a caller who has looked whether signals are sent. Inlined.
create or replace function _signal_need(p_queue text, p_payload text) returns void
language sql
as $$ select pg_notify(current_schema() || '.need.' || p_queue, p_payload) $$;

-- Wake who waits for jobs of these queues; arrays are read side by side. One job of a queue: its id is the payload; several, or
-- none in particular: no payload.
create or replace function _notify_queues(p_queues text[], p_job_ids text[]) returns void
language plpgsql set search_path from current
as $$
begin
  if p_queues is not null and is_notify_enabled() then
    perform _signal_need(ready.queue, case when count(*) = 1 then coalesce(min(ready.job_id), '') else '' end)
    from unnest(p_queues, p_job_ids) as ready (queue, job_id)
    group by ready.queue;
  end if;
end $$;

-- Jobs just submitted, as arrays side by side: their queues (null: default), their callers' ids, their numbers. For a caller who
-- has looked whether signals are sent. Subscripts: see submit_jobs.
create or replace function _notify_submitted(p_queues text[], p_names text[], p_ids bigint[]) returns void
language plpgsql
set search_path from current
set plan_cache_mode = force_generic_plan
as $$
begin
  perform _signal_need(
    ready.queue,
    case when count(*) = 1 then _public_id(p_names[min(ready.place)], p_ids[min(ready.place)]) else '' end)
  from (
    select coalesce(p_queues[given.place], 'default') as queue, given.place
    from generate_subscripts(p_ids, 1) as given (place)
  ) as ready
  group by ready.queue;
end $$;

-- Seed 003: one job of one queue.
create or replace function _notify_need(p_next_need text, p_job_id text) returns void
language plpgsql set search_path from current
as $$
begin
  perform _notify_queues(array[p_next_need], array[p_job_id]);
end $$;

-- Jobs by their numbers, and queues that jobs have left (for each one its queue): who waits for room under a limit can go on.
-- Always, not only when the limit was reached as far as can be seen: a claim that finds it reached may come before our commit.
-- A dead job is one that left its queue.
create or replace function _notify_needs(p_ids bigint[], p_left text[] default null) returns void
language plpgsql set search_path from current
as $$
begin
  if cardinality(p_ids) > 0 or exists (select from queues where max_running is not null and name = any (p_left)) then
    perform _notify_queues(array_agg(ready.queue), array_agg(ready.job_id))
    from (
      select job.queue, case when job.state <> 'DEAD' then _public_id(job.name, job.id) end as job_id
      from jobs job
      where job.id = any (p_ids)
      union all
      select queues.name, null
      from queues
      where queues.max_running is not null and queues.name = any (p_left)
    ) as ready;
  end if;
end $$;

-- Tell stream owners that somebody else ended a job of theirs, or wants it stopped.
create or replace function _notify_freed() returns void
language plpgsql set search_path from current
as $$
begin
  if is_notify_enabled() then
    perform pg_notify(current_schema() || '.freed', '');
  end if;
end $$;
