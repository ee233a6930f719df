-- What is over: the archive, the names of its jobs, the errors of the dead, a trace.

insert into archived_jobs (
  id, available_at, created_at, finalized_at, state, priority, attempts, lease_expiration_count, consecutive_expirations,
  queue, name, payload)
select
  number, now() - interval '2 days', now() - interval '2 days', now() - interval '1 day' + number % 1000000 * interval '10 ms',
  'COMPLETED', 0, 0, 0, 0, 'line', case when number % 5 = 0 then 'order ' || number end, '{}'
from generate_series(3000001, 4000000) as number;

insert into job_names (name, id)
select job.name, job.id
from archived_jobs job
where job.name is not null;

insert into job_errors (job_id, attempt, at, message)
select 2400001 + number / 3, number % 3, now(), 'boom'
from generate_series(0, 299999) as number;

insert into jobs_trace (job_id, event_type, event_at, input_data, output_data)
select 'j' || number, 'job_failed', now(), '{}', '{}'
from generate_series(1, 300000) as number;
