-- A year of a small shop, in the schema of the search_path: 1,000,000 archived, 200,000 waiting, 10,000 dead and 40 running jobs,
-- the dead among the archived, the waiting at the end; 20,000 wait for others, and 300,000 rows are traced. Autovacuum is off where tests run, so statistics are made by the caller.

insert into archived_jobs (
  id, available_at, created_at, finalized_at, assigned_at, started_at, state, priority, attempts, lease_expiration_count,
  consecutive_expirations, queue, assignee_id, name, task, payload, result, tags, singleton_key, error_message)
select
  number, made.at, made.at, made.at + interval '20 minutes', made.at, made.at,
  (case number % 10 when 3 then 'STOPPED' when 4 then 'UNSCHEDULED' else 'COMPLETED' end)::job_state,
  number % 3, number % 2, 0, 0, 'queue ' || number % 10, 'worker-' || number % 7,
  case when number % 5 = 0 then 'order ' || number end, 'shop.task_' || number % 20,
  jsonb_build_object('args', jsonb_build_array(), 'kwargs', jsonb_build_object('user', number % 50000)), 'true',
  case when number % 10 = 0 then array['common'] when number % 50000 = 1 then array['rare', 'eu'] end,
  case when number % 1000 = 7 then 'key ' || number % 100 end,
  case when number % 10 = 3 then 'stopped by hand' end
from generate_series(1, 1010000) as number
cross join lateral (select now() - interval '20 days' + number * interval '1 s' as at) as made
where number % 101 <> 0;

insert into job_names (name, id)
select job.name, job.id from archived_jobs job where job.name is not null;

insert into jobs (
  id, available_at, created_at, queue, priority, payload, task, tags, state, attempts, max_attempts, finalized_at, error_message,
  assignee_id, assigned_at, started_at)
select
  number, made.at, made.at, 'queue ' || number % 10, 0, jsonb_build_object('kwargs', jsonb_build_object('user', number % 50000)),
  'shop.task_' || number % 20, case when number % 5050 = 0 then array['rare'] end, 'DEAD', 3, 3, made.at + interval '1 hour',
  case when number % 3 = 0 then 'the mail server timed out after ' || number || ' ms' else 'no such address' end,
  'worker-1', made.at, made.at
from generate_series(101, 1010000, 101) as number
cross join lateral (select now() - interval '20 days' + number * interval '1 s' as at) as made;

insert into job_errors (job_id, attempt, at, worker_id, message, traceback)
select job.id, 1, job.finalized_at, 'worker-1', job.error_message, 'Traceback …' from jobs job;

insert into jobs (id, available_at, created_at, queue, priority, payload, task, tags, state, singleton_key)
select
  number, now() - interval '1 hour' + (number - 1010000) * interval '30 ms', now() - interval '2 hours', 'queue ' || number % 10,
  -(number % 3), jsonb_build_object('kwargs', jsonb_build_object('user', number % 50000)), 'shop.task_' || number % 20,
  case when number % 10 = 0 then array['common'] end,
  (case number % 20 when 1 then 'FAILED_RETRY' when 2 then 'RESCHEDULED' else 'INITIAL_PENDING' end)::job_state,
  case when number % 1000 = 7 then 'key ' || number % 100 end
from generate_series(1010001, 1210000) as number;

insert into jobs (
  id, available_at, created_at, queue, payload, task, state, lease_id, lease_expires_at, assignee_id, assigned_at, started_at,
  lapses_at)
select
  number, now(), now(), 'queue ' || number % 10, '{}', 'shop.task_1', 'RUNNING', gen_random_uuid(), now() + interval '1 day',
  'worker-' || number % 4, now(), now(), now() + interval '1 day'
from generate_series(1210001, 1210040) as number;

update jobs set waiting_on = 1 where id between 1100001 and 1120000;
insert into job_waits (child_id, parent_id, position, parent)
select number, number - 50000, 1, 'j' || number - 50000 from generate_series(1100001, 1120000) as number;

insert into holds (kind, key, slot, job_id, lease_id, held_since)
select 'resource', 'account ' || number, 1, 1210001 + number % 40, gen_random_uuid(), now()
from generate_series(1, 2000) as number;

insert into jobs_trace (job_id, event_type, event_at, input_data, output_data)
select 'j' || number, 'job_failed', now(), '{}', '{}' from generate_series(1, 300000) as number;

select setval('jobs_id_seq', 2000000);
