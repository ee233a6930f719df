-- What readers see. Stored columns appear under the names their readers know (job_id, next_need).
-- Never claim through jobs_with_status: a clock-dependent view puts the row lock below the filter and starves others.

create or replace view jobs_with_status as
select
  coalesce(job.name, 'j' || job.id) as job_id,
  job.queue as next_need,
  job.state,
  case
    when job.state in ('RUNNING', 'CANCELLING') and job.lease_expires_at > moment.now then 'ACTIVE'
    when job.state = 'CANCELLING' then 'CANCELLED'
    when job.state = 'DEAD' then 'DEAD'
    when job.available_at > moment.now then 'AWAITING_FUTURE'
    when job.waiting_on > 0 then 'PENDING_JOBS'
    when job.consecutive_expirations >= (select crash_concern_threshold from settings where only_row)
      then 'CRASH_CONCERN'
    when job.expires_at <= moment.now then 'EXPIRED'
    when exists (select from queues where queues.name = job.queue and queues.paused_at is not null) then 'PAUSED'
    else 'READY'
  end as status,
  case
    when job.waiting_on = 0 then '{}'::text[]
    else array(select waits.parent from job_waits waits where waits.child_id = job.id order by waits.position)
  end as wait_for,
  job.payload,
  job.payload_bytes,
  job.task,
  coalesce(job.tags, '{}') as tags,
  job.priority,
  job.singleton_key,
  coalesce(job.resource_keys, '{}') as resource_keys,
  job.available_at,
  job.expires_at,
  job.created_at,
  job.lease_id::text as lease_id,
  job.lease_expires_at,
  job.lease_expiration_count,
  job.consecutive_expirations,
  job.assignee_id,
  job.assigned_at,
  job.extended_at,
  job.started_at,
  job.finalized_at,
  job.last_retry_at,
  job.attempts,
  job.max_attempts,
  job.if_parent_fails,
  job.timeout_s,
  job.retry,
  job.error_message,
  job.error_message || coalesce(e'\n' || job.error_traceback, '') as last_error,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'attempt', error.attempt, 'at', error.at, 'worker_id', error.worker_id,
      'message', error.message, 'traceback', error.traceback) order by error.id), '[]')
    from job_errors error
    where error.job_id = job.id
  ) as errors,
  job.progress,
  job.stream_id,
  job.id as number
from jobs job
cross join lateral (select _clock() as now offset 0) as moment;

create or replace view jobs_archive as
select
  coalesce(job.name, 'j' || job.id) as job_id,
  job.queue as next_need,
  job.state,
  coalesce(job.wait_for, '{}') as wait_for,
  job.payload,
  job.payload_bytes,
  job.task,
  coalesce(job.tags, '{}') as tags,
  job.priority,
  job.singleton_key,
  coalesce(job.resource_keys, '{}') as resource_keys,
  job.available_at,
  job.expires_at,
  job.created_at,
  job.lease_id::text as lease_id,
  job.lease_expires_at,
  job.lease_expiration_count,
  job.consecutive_expirations,
  job.assignee_id,
  job.assigned_at,
  job.started_at,
  job.finalized_at,
  job.last_retry_at,
  job.attempts,
  job.max_attempts,
  job.if_parent_fails,
  job.timeout_s,
  job.retry,
  job.error_message,
  job.error_message || coalesce(e'\n' || job.error_traceback, '') as last_error,
  (
    select coalesce(jsonb_agg(jsonb_build_object(
      'attempt', error.attempt, 'at', error.at, 'worker_id', error.worker_id,
      'message', error.message, 'traceback', error.traceback) order by error.id), '[]')
    from job_errors error
    where error.job_id = job.id
  ) as errors,
  job.result,
  job.result_bytes,
  job.forfeited_stream_id,
  job.id as number
from archived_jobs job;

-- A sentence per job for people: what it is doing, or what it is waiting for.
create or replace view jobs_friendly_status as
select
  job.job_id,
  job.next_need,
  job.task,
  job.state,
  job.status,
  case job.status
    when 'ACTIVE' then
      case job.state when 'CANCELLING' then 'being cancelled on ' else 'running on ' end
      || job.assignee_id || ' since ' || to_char(job.assigned_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
    when 'CANCELLED' then 'cancelled; ' || job.assignee_id || ' never confirmed it'
    when 'DEAD' then 'dead after ' || job.attempts || ' failed attempts: ' || coalesce(job.error_message, 'no message')
    when 'AWAITING_FUTURE' then
      'due at ' || to_char(job.available_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
    when 'PENDING_JOBS' then 'waits for ' || array_to_string(job.wait_for, ', ')
    when 'CRASH_CONCERN' then
      'set aside: ' || job.consecutive_expirations || ' leases in a row lapsed; clear_crash_concern lets it run again'
    when 'EXPIRED' then
      'expired at ' || to_char(job.expires_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') || ' UTC'
    when 'PAUSED' then 'queue ' || job.next_need || ' is paused'
    else 'ready'
  end as friendly_status,
  job.attempts,
  job.max_attempts,
  job.available_at,
  job.created_at
from jobs_with_status job;
