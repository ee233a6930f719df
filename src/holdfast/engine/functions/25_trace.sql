-- One place writes the trace. At level "exceptions" the happy path is left out: the archive row already tells it.

create or replace function _is_traced(p_event_type text) returns boolean
language plpgsql stable set search_path from current
as $$
begin
  return case (select settings.trace_level from settings where only_row)
    when 'all' then true
    when 'off' then false
    else p_event_type not in ('job_submitted', 'job_retrieved', 'lease_extended', 'job_finished')
  end;
end $$;

create or replace function _emit_trace_event(
  p_job_id text,
  p_event_type text,
  p_worker_id text,
  p_input jsonb,
  p_output jsonb default null
) returns void
language plpgsql set search_path from current
as $$
begin
  if _is_traced(p_event_type) then
    insert into jobs_trace (job_id, event_type, worker_id, event_at, input_data, output_data)
    values (p_job_id, p_event_type, p_worker_id, _clock(), coalesce(p_input, '{}'), coalesce(p_output, '{}'));
  end if;
end $$;
