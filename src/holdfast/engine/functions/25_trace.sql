-- One place writes the trace. At level "exceptions" the happy path is left out: the archive row already tells it.

-- Write events of many jobs; arrays are read side by side. Nobody else writes to the trace.
create or replace function _emit_trace_events(
  p_job_ids text[], p_event_types text[], p_worker_ids text[], p_inputs jsonb[], p_outputs jsonb[]
) returns void
language plpgsql set search_path from current
as $$
declare
  v_level text := (select trace_level from settings where only_row);
begin
  if v_level = 'off' or p_job_ids is null then
    return;
  end if;
  insert into jobs_trace (job_id, event_type, worker_id, event_at, input_data, output_data)
  select event.job_id, event.event_type, event.worker_id, _clock(), coalesce(event.input, '{}'), coalesce(event.output, '{}')
  from unnest(p_job_ids, p_event_types, p_worker_ids, p_inputs, p_outputs)
    as event (job_id, event_type, worker_id, input, output)
  where v_level = 'all'
    or event.event_type not in ('job_submitted', 'job_retrieved', 'lease_extended', 'job_finished');
end $$;

-- Seed 003: one event of one job.
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
  perform _emit_trace_events(
    array[p_job_id], array[p_event_type], array[p_worker_id], array[p_input], array[p_output]);
end $$;
