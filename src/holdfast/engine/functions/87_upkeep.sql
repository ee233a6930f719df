-- What somebody has to do every few seconds: count what ended into the history, look how long the lines are, delete what is past
-- its retention.
-- Nothing of it is in the way of jobs: no trigger, no work when a job ends. Workers and the web server call `upkeep`.

-- Where the buckets of times begin, in seconds, after the first, which begins at 0: a millisecond, and on by the root of two, to
-- about nine days. So a bucket tells a time to within a fifth.
create or replace function _history_bounds() returns double precision[]
language sql immutable parallel safe set search_path from current
as $$ select array_agg(0.001 * power(2, step / 2.0)) from generate_series(0, 59) as step $$;

create or replace function _add_counts(p_some integer[], p_more integer[]) returns integer[]
language sql immutable parallel safe set search_path from current
as $$
  select case
    when p_some is null then p_more
    when p_more is null then p_some
    else array(
      select coalesce(counts.old, 0) + coalesce(counts.new, 0)
      from unnest(p_some, p_more) with ordinality as counts (old, new, place)
      order by counts.place)
  end
$$;

-- Count what ended from one moment to another into the minutes of the history; answers how many that were. p_again: these are
-- whole minutes, counted anew, and what is there gives way, but never to less: jobs may have been deleted since.
-- Index: archived_jobs_by_end; jobs_dead, queue by queue. Planned for the moment at hand, as all that reads the archive by time.
create or replace function _roll_up(p_from timestamptz, p_to timestamptz, p_again boolean) returns bigint
language plpgsql
set search_path from current
set plan_cache_mode = force_custom_plan
set enable_seqscan = off
set jit = off
set work_mem = '64MB'
as $$
declare
  v_bounds double precision[] := _history_bounds();
  v_jobs bigint;
begin
  with recursive graves (queue) as (
    select (select job.queue from jobs job where job.finalized_at is not null order by job.queue limit 1)
    union all
    select (select job.queue from jobs job where job.finalized_at is not null and job.queue > graves.queue order by job.queue limit 1)
    from graves
    where graves.queue is not null
  ), ended as (
    select
      date_bin('1 minute', job.finalized_at, 'epoch') as minute,
      job.queue,
      case
        when job.state = 'COMPLETED' then 'completed'
        when job.expires_at <= job.finalized_at then 'expired'
        else 'cancelled'
      end as ending,
      case when job.assigned_at >= job.available_at
        then 1 + width_bucket(date_part('epoch', job.assigned_at - job.available_at), v_bounds) end as wait,
      case when job.assigned_at >= job.available_at
        then 1 + width_bucket(date_part('epoch', job.finalized_at - job.assigned_at), v_bounds) end as run,
      count(*) as jobs
    from archived_jobs job
    where job.finalized_at >= p_from and job.finalized_at < p_to
    group by 1, 2, 3, 4, 5
    union all
    select
      date_bin('1 minute', job.finalized_at, 'epoch'), job.queue, 'dead',
      case when job.assigned_at >= job.available_at
        then 1 + width_bucket(date_part('epoch', job.assigned_at - job.available_at), v_bounds) end,
      case when job.assigned_at >= job.available_at
        then 1 + width_bucket(date_part('epoch', job.finalized_at - job.assigned_at), v_bounds) end,
      count(*)
    from graves
    cross join lateral (
      select dead.*
      from jobs dead
      where dead.finalized_at is not null and dead.queue = graves.queue
        and dead.finalized_at >= p_from and dead.finalized_at < p_to
      offset 0
    ) as job
    group by 1, 2, 3, 4, 5
  ), grouped as (
    select
      ended.minute, coalesce(ended.queue, '') as queue, ended.ending, ended.wait, ended.run,
      grouping(ended.ending) = 0 as is_ending, grouping(ended.wait) = 0 as is_wait, sum(ended.jobs)::integer as jobs
    from ended
    group by grouping sets (
      (minute, queue, ending), (minute, ending), (minute, queue, wait), (minute, wait), (minute, queue, run), (minute, run))
  ), counted as (
    select
      grouped.minute, grouped.queue,
      coalesce(sum(grouped.jobs) filter (where grouped.ending = 'completed'), 0)::integer as completed,
      coalesce(sum(grouped.jobs) filter (where grouped.ending = 'dead'), 0)::integer as dead,
      coalesce(sum(grouped.jobs) filter (where grouped.ending = 'cancelled'), 0)::integer as cancelled,
      coalesce(sum(grouped.jobs) filter (where grouped.ending = 'expired'), 0)::integer as expired,
      jsonb_object_agg(grouped.wait, grouped.jobs) filter (where grouped.is_wait and grouped.wait is not null) as waits,
      jsonb_object_agg(grouped.run, grouped.jobs)
        filter (where not grouped.is_wait and not grouped.is_ending and grouped.run is not null) as runs
    from grouped
    group by grouped.minute, grouped.queue
  ), kept as (
    insert into history as old (minute, queue, completed, dead, cancelled, expired, waits, runs)
    select
      counted.minute, counted.queue, counted.completed, counted.dead, counted.cancelled, counted.expired,
      array(select coalesce((counted.waits ->> place::text)::integer, 0) from generate_series(1, 61) as place order by place),
      array(select coalesce((counted.runs ->> place::text)::integer, 0) from generate_series(1, 61) as place order by place)
    from counted
    order by counted.minute, counted.queue
    on conflict (minute, queue) do update
    set completed = excluded.completed + case when p_again then 0 else old.completed end,
        dead = excluded.dead + case when p_again then 0 else old.dead end,
        cancelled = excluded.cancelled + case when p_again then 0 else old.cancelled end,
        expired = excluded.expired + case when p_again then 0 else old.expired end,
        waits = case when p_again then excluded.waits else _add_counts(old.waits, excluded.waits) end,
        runs = case when p_again then excluded.runs else _add_counts(old.runs, excluded.runs) end
    where not p_again
      or excluded.completed + excluded.dead + excluded.cancelled + excluded.expired
        > old.completed + old.dead + old.cancelled + old.expired
  )
  select coalesce(sum(ended.jobs), 0) into v_jobs from ended;
  return v_jobs;
end $$;

-- How many jobs are due in each queue, counted to 200,000, and how long the first has waited, written into a minute.
create or replace function _sample_queues(p_minute timestamptz) returns void
language plpgsql set search_path from current
as $$
begin
  with lines as (
    select
      queue.queue, queue.due_jobs::integer as due, greatest(0, date_part('epoch', _clock() - queue.oldest_due_at)) as oldest_s
    from get_queue_stats(200000) as queue
  )
  insert into history as old (minute, queue, depth, oldest_s)
  select p_minute, '', coalesce(sum(lines.due), 0)::integer, coalesce(max(lines.oldest_s), 0) from lines
  union all
  select p_minute, lines.queue, lines.due, coalesce(lines.oldest_s, 0) from lines where lines.due > 0
  on conflict (minute, queue) do update
  set depth = excluded.depth,
      oldest_s = excluded.oldest_s;
end $$;

-- The history's part of the upkeep; true if there is more to count. Called under upkeep's lock.
--
-- An end is stamped before its commit. So the last two seconds are left for the next time, and a minute is counted once more
-- when it has been over for a minute and a half; who commits later than that is missing from the history, and nowhere else.
-- After a pause (nobody called) it goes in steps, the longer the less there is to count, and for about 100 ms at a time.
create or replace function _keep_history(p_progress upkeep_progress, p_now timestamptz) returns boolean
language plpgsql set search_path from current
as $$
declare
  v_began timestamptz := clock_timestamp();
  v_minute timestamptz := date_bin('1 minute', p_now, 'epoch');
  v_closed timestamptz := date_bin('1 minute', p_now - interval '90 seconds', 'epoch');
  -- Before that there is nobody to show it to.
  v_from timestamptz := greatest(p_progress.closed_to, v_closed - interval '7 days');
  v_step interval := interval '1 minute';
  v_to timestamptz;
  v_jobs bigint;
begin
  while v_from < v_closed and clock_timestamp() < v_began + interval '100 milliseconds' loop
    v_to := least(v_from + v_step, v_closed);
    v_jobs := _roll_up(v_from, v_to, true);
    v_from := v_to;
    v_step := case when v_jobs < 10000 then v_step * 2 else interval '1 minute' end;
  end loop;
  if v_from < v_closed then
    update upkeep_progress set closed_to = v_from;
    return true;
  end if;

  v_to := p_now - interval '2 seconds';
  perform _roll_up(greatest(p_progress.rolled_to, v_closed), v_to, false);
  if p_progress.sampled_at < v_minute then
    perform _sample_queues(v_minute);
    delete from history where minute < p_now - interval '7 days';
    delete from workers where seen_at < p_now - interval '1 day';
  end if;
  update upkeep_progress
  set rolled_to = v_to, closed_to = v_from, sampled_at = greatest(sampled_at, v_minute);
  return false;
end $$;

-- Do what is due; true if there is more, so that the caller comes back at once. Call it every ten seconds or so, from as many
-- places as there are: nothing is done twice within five seconds, nor by two at once, and whoever comes in vain waits for nobody.
create or replace function upkeep() returns boolean
language plpgsql security definer set search_path from current
as $$
declare
  c_forgotten constant integer := 5000;
  v_now timestamptz := _clock();
  v_due timestamptz := v_now - interval '7 seconds';
  v_progress upkeep_progress;
  v_keep_s double precision;
  v_is_forgetting boolean;
begin
  if (select progress.rolled_to > v_due and not progress.is_forgetting from upkeep_progress progress) then
    return false;
  end if;
  if not pg_try_advisory_xact_lock(hashtextextended('holdfast.upkeep.' || current_schema(), 0)) then
    return false;
  end if;
  -- Asked again: the last one may have ended in between.
  select * into v_progress from upkeep_progress;
  if v_progress.rolled_to <= v_due then
    if _keep_history(v_progress, v_now) then
      return true;
    end if;
  elsif not v_progress.is_forgetting then
    return false;
  end if;

  perform _extend_archive();
  select settings.archive_retention_s into v_keep_s from settings;
  v_is_forgetting := v_keep_s is not null and (
    _drop_archive_part(v_now - v_keep_s * interval '1 second')
    -- Later, so that a part that is about to be dropped as a whole is not taken apart row by row.
    or _forget_ended_before(v_now - v_keep_s * interval '1.5 seconds' - interval '1 day', c_forgotten) = c_forgotten);
  if v_is_forgetting <> v_progress.is_forgetting then
    update upkeep_progress set is_forgetting = v_is_forgetting;
  end if;
  return v_is_forgetting;
end $$;
-- How things went, step by step, from the oldest: what ended, by how it ended; how long jobs waited and ran, as counts by bucket
-- (see _history_bounds); how many were due and how long the first had waited, the most of the step. Steps in which nothing ended
-- and nobody looked are left out. No queue: all together. Index: the primary key.
create or replace function get_history(p_minutes integer default 60, p_step_minutes integer default 1, p_queue text default null)
returns table (
  at timestamptz, completed bigint, dead bigint, cancelled bigint, expired bigint, waits bigint[], runs bigint[], depth integer,
  oldest_s double precision
)
language plpgsql stable security definer
set search_path from current
set enable_seqscan = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_step interval;
  v_since timestamptz;
begin
  if p_minutes is null or not p_minutes between 1 and 10080 then
    raise exception 'p_minutes must be 1 to 10080, a week, not %', coalesce(p_minutes::text, 'null') using errcode = '22023';
  end if;
  if p_step_minutes is null or not p_step_minutes between 1 and 1440 then
    raise exception 'p_step_minutes must be 1 to 1440, a day, not %', coalesce(p_step_minutes::text, 'null')
      using errcode = '22023';
  end if;
  v_step := p_step_minutes * interval '1 minute';
  v_since := date_bin(v_step, _clock() - p_minutes * interval '1 minute' + v_step, 'epoch');
  return query
    with minutes as (
      select date_bin(v_step, history.minute, 'epoch') as at, history.*
      from history
      where history.minute >= v_since and history.queue = coalesce(p_queue, '')
    ), waited as (
      select summed.at, array_agg(summed.jobs order by summed.place) as counts
      from (
        select minutes.at, bucket.place, sum(bucket.jobs) as jobs
        from minutes cross join lateral unnest(minutes.waits) with ordinality as bucket (jobs, place)
        group by minutes.at, bucket.place
      ) as summed
      group by summed.at
    ), ran as (
      select summed.at, array_agg(summed.jobs order by summed.place) as counts
      from (
        select minutes.at, bucket.place, sum(bucket.jobs) as jobs
        from minutes cross join lateral unnest(minutes.runs) with ordinality as bucket (jobs, place)
        group by minutes.at, bucket.place
      ) as summed
      group by summed.at
    )
    select
      minutes.at, sum(minutes.completed), sum(minutes.dead), sum(minutes.cancelled), sum(minutes.expired),
      (select waited.counts from waited where waited.at = minutes.at), (select ran.counts from ran where ran.at = minutes.at),
      max(minutes.depth), max(minutes.oldest_s)
    from minutes
    group by minutes.at
    order by minutes.at;
end $$;
