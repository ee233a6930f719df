-- Resources: what jobs exclude each other on while they run. A hold is a row owned by one lease of one job; the statement
-- that ends the lease deletes it. Capacity 1 unless set otherwise.

-- How many running jobs may hold this resource at once; 1 unless set.
create or replace function set_resource_capacity(p_key text, p_capacity integer) returns integer
language plpgsql security definer set search_path from current
as $$
begin
  perform _require(p_key, 'p_key');
  if p_capacity is null or p_capacity < 1 then
    raise exception 'the capacity of resource "%" must be at least 1, not %', p_key, coalesce(p_capacity::text, 'null')
      using errcode = '22023';
  end if;
  insert into resources (key, capacity) values (p_key, p_capacity)
  on conflict (key) do update set capacity = excluded.capacity;
  return p_capacity;
end $$;

-- How many running jobs may hold this resource at once.
create or replace function resource_capacity(p_key text) returns integer
language sql stable security definer set search_path from current
as $$ select coalesce((select capacity from resources where key = p_key), 1) $$;

-- Lock the job for its holder, or raise what stands in the way. A lease tells whether the caller lost the job; a worker alone
-- does so only while the job runs: of one that does not, the state is what there is to say.
create or replace function _lock_for_holder(p_job_id text, p_operation text, p_lease_id text, p_worker_id text) returns jobs
language plpgsql set search_path from current
as $$
declare
  v_job jobs := _lock_live_job(p_job_id, p_operation);
begin
  if p_lease_id is not null and v_job.lease_id::text is distinct from p_lease_id then
    perform _refuse(p_job_id, p_operation, 'lease_lost', v_job.state);
  end if;
  if v_job.state <> 'RUNNING' then
    perform _refuse(p_job_id, p_operation, 'wrong_state', v_job.state);
  end if;
  if p_worker_id is not null and v_job.assignee_id is distinct from p_worker_id then
    perform _refuse(p_job_id, p_operation, 'lease_lost', v_job.state);
  end if;
  return v_job;
end $$;

-- Take all of these resources for a running job, or none. Answers the busy ones; empty: all are held now. What the job holds
-- already stays held. Guard: the job is RUNNING and, as far as given, held under this lease by this worker.
create or replace function acquire_resources(
  p_job_id text, p_keys text[], p_lease_id text default null, p_worker_id text default null
) returns text[]
language plpgsql security definer set search_path from current
as $$
declare
  v_job jobs;
  v_keys text[];
  v_busy text[];
begin
  if p_keys is null then
    raise exception 'acquire_resources: p_keys is required and was null' using errcode = '22023';
  end if;
  if array_position(p_keys, null) is not null or '' = any (p_keys) then
    raise exception 'acquire_resources: a resource key is null or empty' using errcode = '22023';
  end if;
  v_job := _lock_for_holder(p_job_id, 'acquire_resources', p_lease_id, p_worker_id);
  v_keys := array(
    select distinct asked.key from unnest(p_keys) as asked (key)
    where not exists (select from holds where holds.kind = 'resource' and holds.key = asked.key and holds.job_id = v_job.id)
    order by asked.key);
  if cardinality(v_keys) = 0 then
    return '{}';
  end if;

  -- One lock per key, in one order whatever order the caller named them in: two jobs never wait for each other.
  insert into resources (key)
  select wanted.key from unnest(v_keys) as wanted (key)
  where not exists (select from resources where resources.key = wanted.key)
  order by wanted.key
  on conflict do nothing;
  perform from resources where key = any (v_keys) order by key for update;

  -- Statements of their own after the locks. A hold whose release is not committed yet still counts.
  v_busy := array(
    select resource.key from resources resource
    where resource.key = any (v_keys)
      and resource.capacity <= (select count(*) from holds where holds.kind = 'resource' and holds.key = resource.key)
    order by resource.key);
  if cardinality(v_busy) > 0 then
    return v_busy;
  end if;
  insert into holds (kind, key, slot, job_id, lease_id, held_since)
  select 'resource', wanted.key, free.slot, v_job.id, v_job.lease_id, _clock()
  from unnest(v_keys) as wanted (key)
  cross join lateral (
    select candidate.slot
    from generate_series(1, resource_capacity(wanted.key)) as candidate (slot)
    where not exists (
      select from holds where holds.kind = 'resource' and holds.key = wanted.key and holds.slot = candidate.slot)
    order by candidate.slot
    limit 1
  ) as free;
  update jobs job set has_holds = true where job.id = v_job.id and not job.has_holds;
  return '{}';
end $$;

-- Give resources back before the lease ends; null: all of them. Answers how many were held.
create or replace function release_resources(
  p_job_id text, p_keys text[] default null, p_lease_id text default null, p_worker_id text default null
) returns integer
language plpgsql security definer set search_path from current
as $$
declare
  v_job jobs := _lock_job(p_job_id);
  v_count integer;
begin
  if v_job.id is null
    or (p_lease_id is not null and v_job.lease_id::text is distinct from p_lease_id)
    or (p_worker_id is not null and v_job.assignee_id is distinct from p_worker_id)
  then
    return 0;
  end if;
  delete from holds
  where kind = 'resource' and job_id = v_job.id and (p_keys is null or key = any (p_keys));
  get diagnostics v_count = row_count;
  return v_count;
end $$;
