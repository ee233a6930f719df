-- The verbs for one job. Each is settle_jobs with one element; guards are optional and checked when given.

-- An execution failed. Answers the state: FAILED_RETRY, or DEAD at the last attempt or when permanent.
create or replace function fail_job(
  p_job_id text, p_error text, p_lease_id text default null, p_worker_id text default null,
  p_delay double precision default 0, p_permanent boolean default false, p_traceback text default null
) returns job_state
language plpgsql security definer set search_path from current
as $$
begin
  perform _require(p_error, 'p_error');
  perform _require_flag(p_permanent, 'p_permanent');
  return _settle_one(p_job_id, 'fail', p_lease_id, p_worker_id, p_error, p_traceback, p_delay, null, p_permanent);
end $$;

-- Seed 000: a transient error; counts an attempt like a failure. Without a text the last error stays.
create or replace function requeue_job(
  p_job_id text, p_available_at timestamptz default null, p_error text default '', p_lease_id text default null,
  p_worker_id text default null
) returns job_state
language plpgsql security definer set search_path from current
as $$
begin
  return _settle_one(
    p_job_id, 'requeue', p_lease_id, p_worker_id, nullif(p_error, ''), p_available_at => p_available_at);
end $$;

-- Seed 002: try again later, without an attempt. Answers whether a job changed; a missing id is no error.
create or replace function retry_later(
  p_job_id text, p_available_at timestamptz default null, p_lease_id text default null, p_worker_id text default null,
  p_reason text default 'retry_later', p_delay double precision default null
) returns boolean
language plpgsql security definer set search_path from current
as $$
begin
  if p_available_at is not null and p_delay is not null then
    raise exception 'retry_later: give p_available_at or p_delay, not both' using errcode = '22023';
  end if;
  return _settle_one(
    p_job_id, 'reschedule', p_lease_id, p_worker_id, p_reason, p_delay => p_delay, p_available_at => p_available_at,
    p_lenient => true) is not null;
end $$;

-- Seed 002: take a job away from a worker that is gone. Answers whether a job changed; a missing id is no error.
create or replace function release_job(p_job_id text, p_lease_id text default null, p_worker_id text default null)
returns boolean
language plpgsql security definer set search_path from current
as $$
begin
  return _settle_one(p_job_id, 'release', p_lease_id, p_worker_id, p_lenient => true) is not null;
end $$;

-- Stop a job for good, whether it runs or its worker is unknown. The message may be empty.
create or replace function stop_job(
  p_job_id text, p_error text default '', p_lease_id text default null, p_worker_id text default null
) returns job_state
language plpgsql security definer set search_path from current
as $$
begin
  return _settle_one(p_job_id, 'stop', p_lease_id, p_worker_id, coalesce(p_error, ''));
end $$;

-- The handler failed while it was being cancelled: stopped, and the failure counts.
create or replace function stop_job_with_retry(
  p_job_id text, p_error text default '', p_lease_id text default null, p_worker_id text default null,
  p_traceback text default null
) returns job_state
language plpgsql security definer set search_path from current
as $$
begin
  return _settle_one(p_job_id, 'stop_with_retry', p_lease_id, p_worker_id, coalesce(p_error, ''), p_traceback);
end $$;

-- End a job of which nobody can say what its worker did.
create or replace function mark_job_unknown_stopped(
  p_job_id text, p_error text default '', p_lease_id text default null, p_worker_id text default null
) returns job_state
language plpgsql security definer set search_path from current
as $$
begin
  return _settle_one(p_job_id, 'mark_unknown_stopped', p_lease_id, p_worker_id, coalesce(p_error, ''));
end $$;

-- The worker's word on a cancellation. Not executing: UNKNOWN_STOPPED, and the stream forfeits the slot (seed 004).
create or replace function acknowledge_cancellation(
  p_job_id text, p_was_executing boolean, p_lease_id text default null, p_worker_id text default null
) returns job_state
language plpgsql security definer set search_path from current
as $$
begin
  if p_was_executing is null then
    raise exception 'acknowledge_cancellation needs true or false for p_was_executing, not null' using errcode = '22023';
  end if;
  return _settle_one(
    p_job_id, case when p_was_executing then 'acknowledge' else 'acknowledge_not_executing' end, p_lease_id, p_worker_id);
end $$;
