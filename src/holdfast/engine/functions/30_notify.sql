-- Signals are hints: at most one per statement and queue, never data, never needed. PostgreSQL lets transactions that signal
-- commit one after the other, so none is sent for a queue whose workers are all known to be busy.

-- Whether a signal for this queue may be of use: somebody waits for one, or nobody is known at all. For a call that is a
-- transaction of its own: what commits later cannot know who will wait by then. Index: the primary key. The short way of
-- a plain job has the same words of its own, because a function with a question in it is not inlined.
create or replace function _is_awaited(p_queue text, p_now timestamptz) returns boolean
language sql
as $$
  select (
    select bool_or(listener.waits_until > p_now)
    from listeners listener
    where listener.queue = p_queue and listener.present_until > p_now
  ) is not false
$$;

-- Write down who takes jobs of these queues for so long, and for how long it waits for a signal (0: it is busy).
create or replace function _attend(
  p_listener bigint, p_queues text[], p_waits_seconds double precision, p_present_seconds double precision
) returns void
language plpgsql set search_path from current
as $$
declare
  v_now timestamptz := _clock();
  v_is_new boolean;
begin
  with attending as (
    insert into listeners (queue, listener, waits_until, present_until)
    select distinct
      given.queue, p_listener, v_now + p_waits_seconds * interval '1 second', v_now + p_present_seconds * interval '1 second'
    from unnest(p_queues) as given (queue)
    on conflict (queue, listener) do update
    set waits_until = excluded.waits_until, present_until = excluded.present_until
    returning xmax = 0 as is_new
  )
  select bool_or(attending.is_new) into v_is_new from attending;
  if v_is_new then
    delete from listeners
    where (queue, listener) in (
      select gone.queue, gone.listener from listeners gone
      where gone.present_until < v_now - interval '1 minute'
      for update skip locked);
  end if;
end $$;

-- The signal itself; nobody else signals a need. For a caller who has looked whether signals are sent. Inlined.
create or replace function _signal_need(p_queue text, p_payload text) returns void
language sql
as $$ select pg_notify(current_schema() || '.need.' || p_queue, p_payload) $$;

-- Wake who waits for jobs of these queues; arrays are read side by side. One job of a queue: its id is the payload; several, or
-- none in particular: no payload. holdfast.own_transaction: see settle_and_claim.
create or replace function _notify_queues(p_queues text[], p_job_ids text[]) returns void
language plpgsql set search_path from current
as $$
declare
  v_now timestamptz := case when current_setting('holdfast.own_transaction', true) = 'on' then _clock() end;
begin
  if p_queues is not null and is_notify_enabled() then
    perform _signal_need(ready.queue, case when count(*) = 1 then coalesce(min(ready.job_id), '') else '' end)
    from unnest(p_queues, p_job_ids) as ready (queue, job_id)
    where v_now is null or _is_awaited(ready.queue, v_now)
    group by ready.queue;
  end if;
end $$;

-- Jobs just submitted, as arrays side by side: their queues (null: default), their callers' ids, their numbers. For a caller who
-- has looked whether signals are sent. Subscripts: see submit_jobs. p_now: of a transaction of its own; null: always signal.
create or replace function _notify_submitted(p_queues text[], p_names text[], p_ids bigint[], p_now timestamptz) returns void
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
  group by ready.queue
  having p_now is null or _is_awaited(ready.queue, p_now);
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
