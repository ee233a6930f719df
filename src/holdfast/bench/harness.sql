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

create function holdfast_bench.fill_bare(p_jobs integer) returns void
language plpgsql
as $$
begin
  truncate holdfast_bench.jobs, holdfast_bench.archive, holdfast_bench.mismatches;
  insert into holdfast_bench.jobs (queue, available_at, created_at, payload)
  select 'bench', clock_timestamp(), clock_timestamp(), jsonb_build_object('n', given.n)
  from generate_series(1, p_jobs) as given (n);
end $$;

-- Whether jobs 1 to p_jobs were each claimed once and completed once. Each claim was settled in full under its own lease
-- (else there is a mismatch), a settle archives a job only once (the archive's key), and all are there and nothing is left:
-- so there were as many claims as jobs, and no job had two.
create function holdfast_bench.engine_ran_each_once(p_jobs integer) returns boolean
language sql
as $$
  select
    not exists (select from holdfast_bench.mismatches)
    and not exists (select from holdfast.jobs)
    and (
      select count(*) = p_jobs
        and count(distinct job.id) = p_jobs
        and count(distinct job.payload ->> 'n') = p_jobs
        and bool_and((job.payload ->> 'n')::integer between 1 and p_jobs)
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
