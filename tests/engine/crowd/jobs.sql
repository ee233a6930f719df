-- What waits, what cannot run, and what is dead. Numbers say which is which: see crowd.py.

insert into jobs (id, available_at, created_at, queue, priority, payload, task, tags)
select
  number, now() - interval '1 day' + number * interval '1 ms', now() - interval '1 day',
  case when number <= 600000 then 'line' when number <= 800000 then 'ranked' when number <= 900000 then 'tagged' else 'second' end,
  case when number between 600001 and 800000 then number % 10 else 0 end,
  '{"n": 1}', 'task',
  case when number between 800001 and 900000
    then case when number % 10000 = 0 then array['common', 'rare'] else array['common'] end
  end
from generate_series(1, 1000000) as number;

insert into jobs (id, available_at, created_at, queue, payload)
select number, now() + interval '1 day' + number * interval '1 ms', now(), 'line', '{}'
from generate_series(1000001, 2000000) as number;

with blocked as (
  insert into jobs (id, available_at, created_at, queue, payload, waiting_on)
  select number, now() - interval '2 days', now() - interval '2 days', 'line', '{}', 1
  from generate_series(2000001, 2100000) as number
  returning id
)
insert into job_waits (child_id, parent_id, position, parent)
select blocked.id, blocked.id - 1500000, 1, 'j' || blocked.id - 1500000
from blocked;

update jobs parent
set waiters = 1
where parent.id between 500001 and 600000;

insert into jobs (id, available_at, created_at, queue, payload, expires_at)
select number, now() - interval '2 days' + number * interval '1 ms', now() - interval '2 days', 'stale', '{}', now() - interval '1 day'
from generate_series(2100001, 2200000) as number;

insert into holds (kind, key, slot, job_id, lease_id, held_since)
select 'singleton', 'key ' || number, 1, 0, gen_random_uuid(), now()
from generate_series(0, 9999) as number;

insert into jobs (id, available_at, created_at, queue, payload, singleton_key)
select number, now() - interval '2 days' + number * interval '1 ms', now() - interval '2 days', 'keyed', '{}', 'key ' || number % 10000
from generate_series(2200001, 2300000) as number;

insert into jobs (id, available_at, created_at, queue, payload)
select number, now() - interval '1 day' + number * interval '1 ms', now() - interval '1 day', case when number % 2 = 0 then 'stale' else 'keyed' end, '{}'
from generate_series(2300001, 2302000) as number;

insert into jobs (id, available_at, created_at, queue, payload, state, attempts, finalized_at, error_message)
select
  number, now() - interval '2 days', now() - interval '2 days', 'dead ' || number % 10, '{}', 'DEAD', 3,
  now() - number % 1000 * interval '1 minute', 'boom'
from generate_series(2400001, 2500000) as number;
