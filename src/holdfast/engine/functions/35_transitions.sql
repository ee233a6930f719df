-- Where an operation leads from a state; null: it does not start there. The same table as data: docs/lifecycle.md.
-- p_last: a failure that leaves no attempt, or a permanent one. An expression, so that it is inlined where it is used.
create or replace function _target(p_operation text, p_state job_state, p_last boolean) returns job_state
language sql immutable
as $$
  select case p_operation
    when 'complete' then
      case when p_state in ('RUNNING', 'CANCELLING', 'UNKNOWN_RETRY', 'UNKNOWN_STOPPED') then 'COMPLETED'::job_state end
    when 'fail' then
      case when p_state in ('RUNNING', 'UNKNOWN_RETRY') then case when p_last then 'DEAD'::job_state else 'FAILED_RETRY'::job_state end end
    when 'requeue' then
      case when p_state = 'RUNNING' then case when p_last then 'DEAD'::job_state else 'FAILED_RETRY'::job_state end end
    when 'reschedule' then
      case when p_state = 'RUNNING' then 'RESCHEDULED'::job_state end
    when 'undelivered' then
      case p_state when 'RUNNING' then 'FAILED_RETRY'::job_state when 'CANCELLING' then 'STOPPED'::job_state end
    when 'undelivered_to_worker' then
      case p_state when 'RUNNING' then 'RESCHEDULED'::job_state when 'CANCELLING' then 'STOPPED'::job_state end
    when 'release' then
      case p_state when 'RUNNING' then 'UNKNOWN_RETRY'::job_state when 'CANCELLING' then 'UNKNOWN_STOPPED'::job_state end
    when 'lapse' then
      case p_state when 'RUNNING' then 'UNKNOWN_RETRY'::job_state when 'CANCELLING' then 'UNKNOWN_STOPPED'::job_state end
    when 'cancel' then
      case
        when p_state = 'INITIAL_PENDING' then 'UNSCHEDULED'::job_state
        when p_state in ('RESCHEDULED', 'FAILED_RETRY', 'UNKNOWN_RETRY', 'DEAD') then 'STOPPED'::job_state
        when p_state in ('RUNNING', 'CANCELLING') then 'CANCELLING'::job_state
      end
    when 'stop' then
      case when p_state in ('RUNNING', 'CANCELLING', 'UNKNOWN_RETRY') then 'STOPPED'::job_state end
    when 'stop_with_retry' then
      case when p_state = 'CANCELLING' then 'STOPPED'::job_state end
    when 'mark_unknown_stopped' then
      case when p_state in ('RUNNING', 'CANCELLING', 'UNKNOWN_RETRY') then 'UNKNOWN_STOPPED'::job_state end
    when 'acknowledge' then
      case when p_state = 'CANCELLING' then 'STOPPED'::job_state end
    when 'acknowledge_not_executing' then
      case when p_state = 'CANCELLING' then 'UNKNOWN_STOPPED'::job_state end
  end
$$;
