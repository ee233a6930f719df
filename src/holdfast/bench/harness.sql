-- What the measurements need around the two queues: fill each to the same depth, and judge afterwards what was run.
-- Lives in a scratch database, together with the engine in schema holdfast and the bare queue of bare_queue.sql.

-- Settles that moved another number of jobs than were claimed; pgbench's scripts write here. Empty after an honest run.
create table holdfast_bench.mismatches (
  contender text not null,
  claimed bigint not null,
  settled bigint not null
);

create function holdfast_bench.fill_engine(p_jobs integer) returns void
language plpgsql
as $$
begin
  truncate holdfast.jobs, holdfast.archived_jobs, holdfast_bench.mismatches;
  perform from holdfast.submit_jobs(
    p_queues => array_fill('bench'::text, array[p_jobs]),
    p_payloads => array(select jsonb_build_object('n', given.n) from generate_series(1, p_jobs) as given (n)));
end $$;

-- Many jobs quickly: rows as submit_jobs would make them, without its checks. They are in the queue that workers serve.
create function holdfast_bench.fill_line(p_jobs integer, p_queue text) returns void
language plpgsql
as $$
begin
  truncate holdfast.jobs, holdfast.archived_jobs, holdfast_bench.mismatches;
  insert into holdfast.jobs (available_at, created_at, queue, payload)
  select clock_timestamp(), clock_timestamp(), p_queue, jsonb_build_object('n', given.n)
  from generate_series(1, p_jobs) as given (n);
end $$;

create function holdfast_bench.fill_bare(p_jobs integer) returns void
language plpgsql
as $$
begin
  truncate holdfast_bench.jobs, holdfast_bench.archive, holdfast_bench.mismatches;
  insert into holdfast_bench.jobs (queue, available_at, created_at, payload)
  select 'bench', clock_timestamp(), clock_timestamp(), jsonb_build_object('n', given.n)
  from generate_series(1, p_jobs) as given (n);
end $$;

-- Whether p_jobs jobs were each claimed once and completed once, and p_left were never touched. Each claim was settled in full
-- under its own lease (else there is a mismatch), a settle archives a job only once (the archive's key), and all are there:
-- so there were as many claims as jobs, and no job had two.
create function holdfast_bench.engine_ran_each_once(p_jobs integer, p_left integer default 0) returns boolean
language sql
as $$
  select
    not exists (select from holdfast_bench.mismatches)
    and (
      select count(*) = p_left and coalesce(bool_and(job.state = 'INITIAL_PENDING'), true)
      from holdfast.jobs job
    )
    and (
      select count(*) = p_jobs
        and count(distinct job.id) = p_jobs
        and count(distinct job.payload ->> 'n') = p_jobs
        and bool_and((job.payload ->> 'n')::integer between 1 and p_jobs + p_left)
        and bool_and(job.state = 'COMPLETED' and job.attempts = 0 and job.lease_expiration_count = 0)
      from holdfast.archived_jobs job
    )
$$;

create function holdfast_bench.bare_ran_each_once(p_jobs integer) returns boolean
language sql
as $$
  select
    not exists (select from holdfast_bench.mismatches)
    and not exists (select from holdfast_bench.jobs)
    and (
      select count(*) = p_jobs
        and count(distinct job.id) = p_jobs
        and count(distinct job.payload ->> 'n') = p_jobs
        and bool_and((job.payload ->> 'n')::integer between 1 and p_jobs)
      from holdfast_bench.archive job
    )
$$;

-- Complete what a run that only claims has left held, each job under its own lease.
create function holdfast_bench.settle_engine() returns void
language plpgsql
as $$
begin
  insert into holdfast_bench.mismatches (contender, claimed, settled)
  select 'engine', held.claimed, settled.count
  from (
    select
      count(*) as claimed, array_agg(job.job_id) as ids, array_agg(job.lease_id) as leases,
      array_agg('complete'::text) as operations
    from holdfast.jobs_with_status job
    where job.state = 'RUNNING'
  ) as held
  cross join lateral (
    select count(*) filter (where verdict.ok) as count
    from holdfast.settle_jobs(held.ids, held.operations, held.leases) as verdict
  ) as settled
  where settled.count <> held.claimed;
end $$;

create function holdfast_bench.settle_bare() returns void
language plpgsql
as $$
begin
  perform holdfast_bench.settle(array(select job.id from holdfast_bench.jobs job where job.state = 'running'));
end $$;

-- Whether tasks 0 to p_jobs - 1 were each completed once, at the first attempt and under the first lease, and none is left.
create function holdfast_bench.tasks_ran_each_once(p_task text, p_jobs integer) returns boolean
language sql
as $$
  select
    not exists (select from holdfast.jobs job where job.task = p_task)
    and (
      select count(*) = p_jobs
        and count(distinct job.payload #>> '{args,0}') = p_jobs
        and bool_and((job.payload #>> '{args,0}')::integer between 0 and p_jobs - 1)
        and bool_and(job.state = 'COMPLETED' and job.attempts = 0 and job.lease_expiration_count = 0)
      from holdfast.archived_jobs job
      where job.task = p_task
    )
$$;

-- What must not slow a worker down: p_jobs finished, p_jobs that are due tomorrow, a tenth that wait for one of those, and a
-- tenth whose singleton keys are held. The last stand in front of everything: their keys have been busy for long.
create function holdfast_bench.fill_dirt(p_jobs integer, p_queue text) returns void
language plpgsql
as $$
declare
  v_future bigint;
begin
  insert into holdfast.archived_jobs (
    id, available_at, created_at, finalized_at, state, priority, attempts, lease_expiration_count, consecutive_expirations,
    queue, payload)
  select
    nextval('holdfast.jobs_id_seq'), now() - interval '2 days', now() - interval '2 days',
    now() - interval '1 day' + given.n * interval '10 ms', 'COMPLETED', 0, 0, 0, 0, p_queue, '{}'
  from generate_series(1, p_jobs) as given (n);

  v_future := nextval('holdfast.jobs_id_seq');
  insert into holdfast.jobs (available_at, created_at, queue, payload, waiters)
  select now() + interval '1 day' + given.n * interval '1 ms', now(), p_queue, '{}', (given.n <= p_jobs / 10)::integer
  from generate_series(1, p_jobs) as given (n);

  with blocked as (
    insert into holdfast.jobs (available_at, created_at, queue, payload, waiting_on)
    select now() - interval '2 days', now() - interval '2 days', p_queue, '{}', 1
    from generate_series(1, p_jobs / 10)
    returning id
  )
  insert into holdfast.job_waits (child_id, parent_id, position, parent)
  select numbered.id, v_future + numbered.n, 1, 'j' || v_future + numbered.n
  from (select blocked.id, row_number() over (order by blocked.id) as n from blocked) as numbered;

  with holders as (
    insert into holdfast.jobs (
      available_at, created_at, queue, payload, singleton_key, state, lease_id, lease_expires_at, assignee_id, assigned_at,
      started_at, has_holds, lapses_at)
    select
      now() - interval '3 days', now() - interval '3 days', 'elsewhere', '{}', 'key ' || given.n, 'RUNNING', gen_random_uuid(),
      now() + interval '1 day', 'somebody', now(), now(), true,
      now() + interval '1 day'
    from generate_series(0, p_jobs / 1000) as given (n)
    returning id, lease_id, singleton_key
  )
  insert into holdfast.holds (kind, key, slot, job_id, lease_id, held_since)
  select 'singleton', holders.singleton_key, 1, holders.id, holders.lease_id, now()
  from holders;

  insert into holdfast.jobs (available_at, created_at, queue, payload, singleton_key)
  select
    now() - interval '2 days' + given.n * interval '1 ms', now() - interval '2 days', p_queue, '{}',
    'key ' || given.n % (p_jobs / 1000 + 1)
  from generate_series(1, p_jobs / 10) as given (n);
end $$;

-- Whether the dirt is still there: nobody ran what cannot run.
create function holdfast_bench.dirt_is_there(p_jobs integer) returns boolean
language sql
as $$
  select (select count(*) from holdfast.jobs) = p_jobs + p_jobs / 10 + p_jobs / 1000 + 1 + p_jobs / 10
$$;

-- The engine's table once more, with its indexes and settings, for rows that a bare insert puts there.
create function holdfast_bench.make_twin() returns void
language plpgsql
as $$
begin
  drop table if exists holdfast_bench.twin;
  create table holdfast_bench.twin (like holdfast.jobs including all);
  execute (
    select format('alter table holdfast_bench.twin set (%s)', array_to_string(reloptions, ', '))
    from pg_class where oid = 'holdfast.jobs'::regclass and reloptions is not null);
end $$;
